"""Runs one script that comes over the channel, and says how it ended.

The script is `__main__` in a module of its own; nothing of this file stays in its way or in its
tracebacks. How it ended goes over the channel and not to standard error, so that the script's
own output stays its own, and because there it can be told apart from what the script prints.
"""

import os
import sys

_RUNTIME = os.path.dirname(os.path.abspath(__file__))
_TRACEBACK_CHARS = 4000


def _start():
    sys.path.insert(0, _RUNTIME)
    # Before there is a script, which may come much later.
    import linecache

    import agent_tools
    import script_channel
    import script_syntax

    try:
        import faulthandler
    except ImportError:
        faulthandler = None

    code = script_channel.take()["code"]
    if script_syntax.awaits(code):
        import script_awaits

        script_awaits.prepare(code)
    # The script can import what is in its workspace, but nothing there hides what is installed.
    sys.path.remove(_RUNTIME)
    sys.path.append(os.getcwd())
    # A line is out when it is printed: what a script said before it crashed or ran out of time
    # is what its author needs.
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")
    try:
        if faulthandler:
            faulthandler.enable()
    except (OSError, ValueError):
        pass
    return agent_tools, script_channel, script_syntax, code


def _run(syntax, code):
    import linecache

    main = type(sys)("__main__")
    main.__file__ = os.path.join(os.getcwd(), syntax.NAME)
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main
    sys.argv = [syntax.NAME]
    for name in (syntax.NAME, main.__file__):
        linecache.cache[name] = (len(code), None, syntax.lines(code), name)
    try:
        compiled = syntax.compile_script(code)
    except SyntaxError as error:
        raise error.with_traceback(None) from None
    if compiled.co_flags & 0x80:  # a coroutine: it awaits at the top level
        import asyncio
        import types

        run = getattr(asyncio.run, "__wrapped__", asyncio.run)
        run(types.FunctionType(compiled, main.__dict__)())
    else:
        exec(compiled, main.__dict__)


def _exit_code(code):
    """What `sys.exit(code)` means: (exit code, what is to be said)."""
    if code is None:
        return 0, None
    if isinstance(code, int):
        return code & 0xFF, None
    return 1, f"SystemExit: {_text(code)}"


def _text(value):
    try:
        return str(value)
    except BaseException as error:
        return f"<a {type(value).__name__} whose text cannot be had: {type(error).__name__}>"


def _own(filename):
    return filename == "script.py" or filename.startswith(os.path.join(_WORKSPACE, ""))


def _traceback(error):
    """The script's own frames, the last ones if there are many."""
    import traceback

    whole = traceback.TracebackException.from_exception(error, compact=True)
    parts, pending = [], [whole]
    while pending:
        part = pending.pop()
        if part is None or any(part is known for known in parts):
            continue
        parts.append(part)
        pending += [part.__cause__, part.__context__, *(getattr(part, "exceptions", None) or ())]
    own = [[frame for frame in part.stack or () if _own(frame.filename)] for part in parts]
    for part, frames in zip(parts, own):
        if not any(own) and part.stack:
            # Raised where the script has no frame, in a callback perhaps.
            frames = [frame for frame in part.stack if not frame.filename.startswith(_RUNTIME)]
        if frames:
            part.stack[:] = frames
        else:
            part.stack = None
    pieces = [_shortened(piece) for piece in whole.format()]
    text = "".join(pieces).rstrip("\n")
    if len(text) <= _TRACEBACK_CHARS:
        return text
    kept = text[-_TRACEBACK_CHARS:]
    return "[earlier frames left out]\n" + kept[kept.find("\n") + 1 :]


def _shortened(piece):
    if len(piece) <= 1500:
        return piece
    return f"{piece[:1000]} […{len(piece) - 1400} characters left out…] {piece[-400:]}"


def _failed(error):
    """What is to be said of an exception that nobody caught."""
    if sys.excepthook is not sys.__excepthook__:
        try:
            sys.excepthook(type(error), error, error.__traceback__)
        except BaseException:
            pass
    try:
        text = _traceback(error)
    except BaseException:
        text = f"{type(error).__name__}: {_text(error)}"[:_TRACEBACK_CHARS]
    name = getattr(error, "name", None)
    if isinstance(error, NameError) and name in _TOOLS.__all__:
        text += f"\n(it is missing at the top: from agent_tools import {name})"
    return text


def _flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass


def _report(text, memory=False):
    # Half of a surrogate pair is text for Python and for nobody else.
    text = text.encode("utf-8", "backslashreplace").decode()
    try:
        _CHANNEL.end({"traceback": text, "memory": memory})
    except BaseException:
        # The script has closed the channel.
        print(text, file=sys.__stderr__)


_TOOLS, _CHANNEL, _SYNTAX, _CODE = _start()
_WORKSPACE = os.getcwd()
_PROCESS = os.getpid()
_EXIT = 0
_RESERVE = bytearray(1 << 18)
try:
    _run(_SYNTAX, _CODE)
except SystemExit as _error:
    _EXIT, _said = _exit_code(_error.code)
    if _said and os.getpid() == _PROCESS:
        _report(_said[:_TRACEBACK_CHARS])
except BaseException as _error:
    del _RESERVE
    _EXIT = 130 if isinstance(_error, KeyboardInterrupt) else 1
    _said = _failed(_error)
    if os.getpid() == _PROCESS:
        _report(_said, isinstance(_error, MemoryError))
    else:
        print(_said, file=sys.__stderr__)
_flush()
sys.exit(_EXIT)
