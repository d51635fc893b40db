"""Runs one function that comes on descriptor 3, and answers on descriptor 4.

Which function is called, and with what, follows the rules of `POST /execute`. What the code
prints is its own; the answer goes another way. Code that parses is run as it came; code that does
not is tried once more with its escape sequences restored, as models send them doubled at times.
"""

import builtins
import errno
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_NAME = "script.py"
_ENTRIES = ("main", "run", "handler")
_TRACEBACK_CHARS = 4000
_MOST_IMAGES = 20
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NETWORK = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EAFNOSUPPORT)
# Absolute: the code may go elsewhere.
_OUTPUT = os.path.join(os.getcwd(), "data", "output")


class _Refused(Exception):
    """Ends the run with an error of this kind."""

    def __init__(self, kind, message, hint=None):
        super().__init__(message)
        self.said = {"kind": kind, "message": message, "hint": hint}


def serve(request, values):
    """The answer to a request."""
    import json

    job = json.loads(request)
    namespace = _module(job)
    answer = {}
    try:
        compiled, answer["restored"] = _compile(job["code"], namespace)
        value = _called(compiled, namespace, job)
        answer["data"] = values.encode(value)
    except _Refused as refused:
        answer["error"] = refused.said
    except values.NotSerializable as error:
        answer["error"] = {"kind": "not_serializable", "message": str(error)}
    except SystemExit as error:
        code = error.code
        if code not in (None, 0):
            said = f"sys.exit({code!r})"[:1000]
            answer["error"] = {"kind": "exception", "message": f"the code ended with {said}"}
        else:
            answer["data"] = _value_of_result(namespace, values, answer)
    except BaseException as error:
        answer["error"] = {"kind": _kind(error), "message": _traceback(error)}
    return answer


def _kind(error):
    """What was met: a limit, the missing network, or only the code's own fault."""
    seen = []
    while error is not None and len(seen) < 20 and error not in seen:
        seen.append(error)
        if isinstance(error, MemoryError):
            return "memory_limit"
        if isinstance(error, OSError):
            if error.errno in _DISK:
                return "disk_limit"
            if error.errno in _NETWORK or type(error).__name__ == "gaierror":
                return "network_denied"
        error = error.__cause__ or error.__context__
    return "exception"


def _value_of_result(namespace, values, answer):
    try:
        return values.encode(namespace.get("result"))
    except values.NotSerializable as error:
        answer["error"] = {"kind": "not_serializable", "message": str(error)}
        return "null"


def _module(job):
    main = type(sys)("__main__")
    main.__file__ = os.path.join(os.getcwd(), _NAME)
    main.__builtins__ = builtins
    main.args = job["args"]
    sys.modules["__main__"] = main
    sys.argv = [_NAME]
    return main.__dict__


def _compile(code, namespace):
    """The code object, and whether escapes had to be restored for it."""
    try:
        compiled, restored = _parsed(code), False
    except SyntaxError as error:
        again = restore(code)
        try:
            if again == code:
                raise error
            compiled, restored = _parsed(again), True
            code = again
        except SyntaxError:
            raise _Refused("syntax", _said_of_syntax(error)) from None
    import io
    import linecache

    lines = io.StringIO(code.removeprefix("\ufeff"), newline=None).readlines()
    for name in (_NAME, namespace["__file__"]):
        linecache.cache[name] = (len(code), None, lines, name)
    return compiled, restored


def _parsed(code):
    # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, without loading ast.
    top_level_await = 0x2000
    if "\0" in code:
        line = code.count("\n", 0, code.index("\0")) + 1
        raise SyntaxError("source code cannot contain null bytes", (_NAME, line, None, None))
    try:
        source = code.removeprefix("\ufeff")
        return compile(source, _NAME, "exec", top_level_await, dont_inherit=True)
    except (RecursionError, MemoryError):
        reason = "the code is nested too deeply to be compiled"
    except (ValueError, OverflowError) as error:
        reason = str(error)
    raise SyntaxError(reason, (_NAME, 1, None, None))


def restore(code):
    """The code with the escape sequences that JSON knows put back."""
    simple = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "\\": "\\", "/": "/"}
    parts, rest = [], 0
    while True:
        at = code.find("\\", rest)
        if at < 0 or at + 1 >= len(code):
            parts.append(code[rest:])
            return "".join(parts)
        parts.append(code[rest:at])
        meant = simple.get(code[at + 1])
        parts.append(code[at : at + 2] if meant is None else meant)
        rest = at + 2


def _said_of_syntax(error):
    import traceback

    text = "".join(traceback.format_exception_only(error)).rstrip("\n")
    return _text("\n".join(line[:300] for line in text.splitlines())[:2000])


def _called(compiled, namespace, job):
    """Runs the code, then the function that it defines, if it defines one."""
    _finish(_evaluated(compiled, namespace))
    entry = job.get("entry")
    function = _function(namespace, entry)
    if function is None:
        return namespace.get("result")
    value = function(*_arguments(function, job["args"]))
    return _finish(value)


def _evaluated(compiled, namespace):
    if compiled.co_flags & 0x80:  # a coroutine: it awaits at the top level
        import types

        return types.FunctionType(compiled, namespace)()
    exec(compiled, namespace)
    return None


def _finish(value):
    """Awaits what can be awaited."""
    if not hasattr(type(value), "__await__"):
        return value
    import asyncio

    async def wait():
        return await value

    return _LOOP.run(wait()) if _LOOP else _loop(asyncio).run(wait())


_LOOP = None


def _loop(asyncio):
    # One loop for the whole run, so that what the top level made can be awaited in the function.
    global _LOOP
    _LOOP = _Loop(asyncio)
    return _LOOP


class _Loop:
    def __init__(self, asyncio):
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)

    def run(self, coroutine):
        return self.loop.run_until_complete(coroutine)


def _function(namespace, entry):
    if entry not in (None, "", "main"):
        found = namespace.get(entry)
        if callable(found):
            return found
        what = f"{entry!r} is not a function" if entry in namespace else f"there is no {entry!r}"
        raise _Refused("entry_not_found", f"{what}; {_existing(namespace)}")
    for name in _ENTRIES:
        if callable(namespace.get(name)):
            return namespace[name]
    if "result" in namespace:
        return None
    own = _own_functions(namespace)
    if len(own) > 1:
        raise _Refused(
            "entry_not_found",
            f"the code defines several functions and none is called main; {_existing(namespace)}",
            "name one in `entry`",
        )
    return namespace[own[0]] if own else None


def _own_functions(namespace):
    return [
        name
        for name, value in namespace.items()
        if type(value).__name__ == "function"
        and getattr(value, "__module__", None) == "__main__"
        and value.__name__ != "<lambda>"
        and not name.startswith("__")
    ]


def _existing(namespace):
    own = sorted(_own_functions(namespace))
    if not own:
        return "the code defines no function"
    more = f" and {len(own) - 20} more" if len(own) > 20 else ""
    return "the code defines " + ", ".join(own[:20]) + more


def _arguments(function, args):
    """The list as one argument; nothing for a function that takes none; spread over several."""
    import inspect

    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return (args,)
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(p.default is p.empty for p in positional)
    takes_more = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if not positional and not takes_more:
        return ()
    if required < 2:
        return (args,)
    if len(args) < required or (len(args) > len(positional) and not takes_more):
        raise _Refused(
            "exception",
            f"TypeError: {function.__name__} takes {required} arguments, and `args` has "
            f"{len(args)} values",
        )
    return tuple(args)


def _traceback(error):
    """The code's own frames, the last ones if there are many."""
    import traceback

    try:
        whole = traceback.TracebackException.from_exception(error, compact=True)
        parts, pending = [], [whole]
        while pending:
            part = pending.pop()
            if part is None or any(part is known for known in parts):
                continue
            parts.append(part)
            pending += [part.__cause__, part.__context__, *(getattr(part, "exceptions", 0) or ())]
        for part in parts:
            frames = [frame for frame in part.stack or () if not _ours(frame.filename)]
            if frames:
                part.stack[:] = frames
            else:
                part.stack = None
        text = "".join(whole.format()).rstrip("\n")
    except BaseException:
        text = f"{type(error).__name__}: its text cannot be had"
    if len(text) > _TRACEBACK_CHARS:
        kept = text[-_TRACEBACK_CHARS:]
        text = "[earlier frames left out]\n" + kept[kept.find("\n") + 1 :]
    return _text(text)


def _ours(filename):
    return filename.startswith(_HERE)


def _text(text):
    return text.encode("utf-8", "backslashreplace").decode()


def _images():
    """Plots that were left open, as PNG in base64."""
    plots = sys.modules.get("matplotlib.pyplot")
    numbers = getattr(plots, "get_fignums", list)()
    if not numbers:
        return []
    import base64
    import io

    images = []
    for number in numbers[:_MOST_IMAGES]:
        target = io.BytesIO()
        try:
            plots.figure(number).savefig(target, format="png", bbox_inches="tight")
        except Exception as error:
            print(f"figure {number} cannot be drawn: {error}", file=sys.stderr)
            continue
        images.append(base64.b64encode(target.getvalue()).decode("ascii"))
    return images


def _settle():
    """What the end of an interpreter does for the code: exit handlers, and files written out."""
    import atexit

    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        _flush(stream)
    if _wrote_files():
        import gc
        import io

        for one in gc.get_objects():
            if isinstance(one, (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)):
                _flush(one)


def _wrote_files():
    try:
        return bool(os.listdir(_OUTPUT))
    except OSError:
        return False


def _flush(stream):
    try:
        stream.flush()
    except Exception:
        pass


def _answer(answer, values):
    parts = []
    for name, value in answer.items():
        if name == "data":
            parts.append(f'"data":{value}')
        elif name == "images":
            parts.append('"images":[' + ",".join(f'"{image}"' for image in value) + "]")
        elif name == "restored":
            parts.append(f'"restored":{"true" if value else "false"}')
        else:
            inner = ",".join(
                f"{values.quote(key)}:{values.quote(text)}"
                for key, text in value.items()
                if text is not None
            )
            parts.append(f'"error":{{{inner}}}')
    return ("{" + ",".join(parts) + "}\n").encode()


def main():
    sys.path.insert(0, _HERE)
    import function_values as values

    with open(3, "rb") as source:
        request = source.read()
    out = os.fdopen(4, "wb")
    sys.path.remove(_HERE)
    sys.path.append(os.getcwd())
    # A line is out when it is printed: what the code said before it ran out of time counts.
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")
    process = os.getpid()
    answer = serve(request, values)
    if os.getpid() != process:
        _settle()
        os._exit(0)
    images = _images()
    if images:
        answer["images"] = images
    _settle()
    out.write(_answer(answer, values))
    out.flush()
    # What the code left running has nothing more to say.
    os._exit(0)


if __name__ == "__main__":
    main()
