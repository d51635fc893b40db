"""Call tools from a script.

    from agent_tools import call, call_many, call_raw, progress, ToolError

    rows = call_many("fleet__get_device_status", [{"sn": sn} for sn in serials])
    progress(len(rows), len(serials), "summing up")

All functions are synchronous, and may be called from several threads at once; a script that awaits
them works too (`script_awaits.py`). What they return is plain dict, list, str … and nothing derived from it.

This module makes requests and reads replies; `script_channel.py` carries them. It decides
nothing: who may call what, and how often, is settled where the replies come from.
"""

import itertools
import json

import script_channel

__all__ = ["call", "call_many", "call_raw", "progress", "ToolError"]

_BATCH = 50


class ToolError(Exception):
    """A call that gave no result.

    tool       the tool's name
    kind       unknown_tool, invalid_arguments, not_listed, destructive, task_only, denied, limit,
               timeout, cancelled, upstream, or tool (the tool itself reported an error)
    message    what is wrong and what would be right
    retryable  whether the same call may work later
    result     what call_raw would have returned, where the tool itself reported the error
    """

    def __init__(self, tool, kind, message, retryable=False, result=None):
        super().__init__(tool, kind, message, retryable)
        self.tool = tool
        self.kind = kind
        self.message = message
        self.retryable = retryable
        self.result = result

    def __str__(self):
        return f"{self.tool}: {self.message} ({self.kind})"


def call(tool, args=None):
    """Calls a tool once.

    Returns its structured result if it gives one, else its text. A result that holds more than
    text (an image, a resource) and no structured part is a dict of `text` and `content`, all
    parts as the tool sent them; `call_raw` has them for every result. Raises ToolError.
    """
    return _value(tool, _exchange_one(tool, _request(tool, args, None)))


def call_many(tool, args_list, return_errors=False):
    """Calls one tool with each of `args_list`, several at a time, and returns the results in order.

    The first error is raised once the batch it belongs to is done; with `return_errors=True` a
    failed call has its ToolError in its place instead.
    """
    if isinstance(args_list, (dict, str, bytes)):
        kind = type(args_list).__name__
        raise TypeError(f"args_list must be a list of dicts, one for each call, not a {kind}")
    results = []
    remaining = iter(args_list)
    while True:
        start = len(results)
        slots = []
        for args in itertools.islice(remaining, _BATCH):
            try:
                slots.append(_request(tool, args, start + len(slots)))
            except ToolError as error:
                # Raised before anything of this batch is sent, so that no half of it happens.
                if not return_errors:
                    raise
                slots.append(error)
        if not slots:
            return results
        sent = [slot for slot in slots if not isinstance(slot, ToolError)]
        replies = iter(_exchange(tool, sent))
        failure = None
        for slot in slots:
            try:
                if isinstance(slot, ToolError):
                    raise slot
                results.append(_value(tool, next(replies)))
            except ToolError as error:
                failure = failure or error
                results.append(error)
        if failure is not None and not return_errors:
            raise failure


def call_raw(tool, args=None):
    """Calls a tool once and returns {"text", "structured", "is_error"}; a failed call does not raise.

    `content` has all parts as the tool sent them, where there is more than text. `kind` says why
    a call was refused before it reached the tool, or failed on the way.
    """
    reply = _exchange_one(tool, _request(tool, args, None, raw=True))
    error = reply.get("error")
    if error is not None:
        return {
            "text": error["message"],
            "structured": None,
            "is_error": True,
            "kind": error["kind"],
        }
    return _raw(reply)


def progress(done, total=None, message=None):
    """Reports how far the script is; people see it while the script runs.

    What is no number counts as not known: a mere report does not end the script's work.
    """
    report = {"done": _finite(done)}
    if total is not None:
        report["total"] = _finite(total)
    if message is not None:
        report["message"] = _readable(str(message)[:500])
    try:
        script_channel.send(_encode({"progress": report}).encode() + b"\n")
    except script_channel.Closed:
        pass  # Nobody listens any more; that is no reason to end the script's work.


def _finite(number):
    try:
        number = float(number)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number - number == 0 else None


def _readable(text):
    return text.encode("utf-8", "backslashreplace").decode()


# Requests.


def _plain(value):
    """What numpy and pandas hold, as plain values: a column's item is a natural argument."""
    for method in ("tolist", "item"):
        convert = getattr(value, method, None)
        if callable(convert) and type(value).__module__.partition(".")[0] in ("numpy", "pandas"):
            return convert()
    raise TypeError(f"a {type(value).__name__} cannot be expressed in JSON")


def _encoder():
    encoder = json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain
    )
    try:
        # What `encoder.encode` makes anew for each value. Without its memory of what it is in, a
        # value that contains itself is found by its depth.
        make = json.encoder.c_make_encoder
        text = json.encoder.encode_basestring
        pieces = make(None, _plain, text, None, ":", ",", False, False, False)
        encode = lambda value: "".join(pieces(value, 0))
        if encode({"a": [1, "ü", None]}) == encoder.encode({"a": [1, "ü", None]}):
            return encode
    except Exception:
        pass  # Not in this version of Python.
    return encoder.encode


_encode = _encoder()
_decode = json.JSONDecoder().raw_decode
_numbers = itertools.count(1)
_names = {}  # tool → its name in JSON


def _request(tool, args, index, raw=False):
    """A call as (its id, its line)."""
    if not isinstance(tool, str):
        raise TypeError(f"the tool's name must be a str, not a {type(tool).__name__}")
    where = "args" if index is None else f"args_list[{index}]"
    if args is None and index is None:
        args = {}
    if not isinstance(args, dict):
        raise ToolError(
            tool,
            "invalid_arguments",
            f"{where} must be a dict of the tool's parameters, not a {type(args).__name__}",
        )
    number = next(_numbers)
    try:
        name = _names.get(tool)
        if name is None:
            name = _names[tool] = _encode(tool)
        mark = ',"raw":true' if raw else ""
        line = f'{{"id":{number}{mark},"tool":{name},"args":{_encode(args)}}}\n'
        return number, line.encode()
    except UnicodeEncodeError:
        reason = "text with lone surrogates is not valid Unicode (a file name that is not UTF-8?)"
    except RecursionError:
        reason = "nested too deeply"
    except (TypeError, ValueError) as error:
        reason = str(error)
        if reason.startswith("Out of range float"):
            reason = "NaN and infinity cannot be expressed in JSON"
    raise ToolError(tool, "invalid_arguments", f"{where} cannot be sent as JSON: {reason}")


# Replies.


def _raw(reply):
    result = {
        "text": reply.get("text", ""),
        "structured": reply.get("structured"),
        "is_error": reply.get("is_error", False),
    }
    if "content" in reply:
        result["content"] = reply["content"]
    return result


def _value(tool, reply):
    error = reply.get("error")
    if error is not None:
        raise ToolError(tool, error["kind"], error["message"], error["retryable"])
    if reply.get("is_error"):
        result = _raw(reply)
        message = result["text"]
        if not message and result["structured"] is not None:
            message = json.dumps(result["structured"], ensure_ascii=False)
        raise ToolError(tool, "tool", message or "the tool gave no reason", False, result)
    if "structured" in reply:
        return reply["structured"]
    if "content" in reply:
        return {"text": reply["text"], "content": reply["content"]}
    return reply["text"]


def _exchange_one(tool, request):
    try:
        return _parse(script_channel.exchange_one(*request))
    except script_channel.Closed as closed:
        raise ToolError(tool, "upstream", str(closed)) from None


def _exchange(tool, requests):
    try:
        return [_parse(line) for line in script_channel.exchange(requests)]
    except script_channel.Closed as closed:
        raise ToolError(tool, "upstream", str(closed)) from None


def _parse(line):
    try:
        return _decode(line.decode())[0]
    except (ValueError, RecursionError) as error:
        message = f"the tool's answer cannot be read by this interpreter: {error}"
        return {"error": {"kind": "upstream", "message": message, "retryable": False}}
