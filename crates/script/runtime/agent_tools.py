"""Call tools from a script.

    from agent_tools import call, call_many, call_raw, progress, ToolError

    rows = call_many("fleet__get_device_status", [{"sn": sn} for sn in serials])
    progress(len(rows), len(serials), "summing up")

Requests leave on descriptor 3, replies come on descriptor 4, one JSON value a line. All functions
are synchronous, and may be called from several threads at once; a script that awaits them works
too (`script_syntax.py`). What they return is plain dict, list, str … and nothing derived from it.

This module decides nothing: who may call what, and how often, is settled where the replies
come from.
"""

import errno
import itertools
import json
import os
import select
import threading

__all__ = ["call", "call_many", "call_raw", "progress", "ToolError"]

_REQUESTS = 3
_REPLIES = 4
_BATCH = 50
_PIECE = 1 << 16
_LARGE_PIECE = 1 << 18


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
    parts as the tool sent them. Raises ToolError.
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
    """Reports how far the script is; people see it while the script runs."""
    report = {"done": _finite(done)}
    if total is not None:
        report["total"] = _finite(total)
    if message is not None:
        report["message"] = _readable(str(message)[:500])
    try:
        _send(_encode({"progress": report}).encode() + b"\n")
    except ToolError:
        pass  # Nobody listens any more; that is no reason to end the script's work.


def _finite(number):
    number = float(number)
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


def _parse(line):
    try:
        return _decode(line.decode())[0]
    except (ValueError, RecursionError) as error:
        message = f"the tool's answer cannot be read by this interpreter: {error}"
        return {"error": {"kind": "upstream", "message": message, "retryable": False}}


# The channel. Whoever waits for a reply first reads for all; the others sleep until their own
# reply is there or the reading is free. No thread of our own: a script that forks or counts its
# threads sees only what it made itself.


class _Channel:
    """What the threads share; under `lock`, except for `torn`, which is under `writing`."""

    slots = {}  # id → the thread that awaits it, then the reply's line
    partial = []  # pieces of a line that is not complete yet
    size = _PIECE  # of the next read
    reading = False
    waiting = 0  # threads that wait for another one to read
    closed = None  # why nothing can be called any more
    torn = False  # a line was begun and perhaps not ended
    lock = threading.Lock()
    arrived = threading.Condition(lock)
    writing = threading.Lock()


def _exchange_one(tool, request):
    """`_exchange` for one request, which is where the time of a single call goes."""
    number, line = request
    slots = _Channel.slots
    slots[number] = threading.get_ident()
    try:
        _send(line)
        while type(slots[number]) is int:
            _await_reply(number)
        return _parse(slots[number])
    except ToolError as error:
        error.tool = tool
        raise
    except BaseException:
        # A signal handler has raised. The reply, if one still comes, is nobody's.
        _give_up([number])
        raise
    finally:
        slots.pop(number, None)


def _exchange(tool, requests):
    """Sends all requests and returns their replies in the same order."""
    numbers = [number for number, _ in requests]
    slots = _Channel.slots
    slots.update(dict.fromkeys(numbers, threading.get_ident()))
    try:
        _send(b"".join([line for _, line in requests]))
        for number in numbers:
            while type(slots[number]) is int:
                _await_reply(number)
        return [_parse(slots[number]) for number in numbers]
    except ToolError as error:
        error.tool = tool
        raise
    except BaseException:
        _give_up(numbers)
        raise
    finally:
        for number in numbers:
            slots.pop(number, None)


def _give_up(numbers):
    """Says that nobody waits for these calls any more."""
    left = [number for number in numbers if type(_Channel.slots.get(number)) is int]
    try:
        if left:
            _send(f'{{"give_up":{_encode(left)}}}\n'.encode())
    except ToolError:
        pass


def _give_up_of(thread):
    """Says so of what a thread waits for, which then ends with an error."""
    _give_up([number for number, slot in list(_Channel.slots.items()) if slot == thread])


def _await_reply(number):
    channel = _Channel
    with channel.lock:
        if type(channel.slots[number]) is not int:
            return
        if channel.reading:
            channel.waiting += 1
            try:
                channel.arrived.wait()
            finally:
                channel.waiting -= 1
            return
        channel.reading = True
    try:
        _read()
    finally:
        _stop_reading()


def _stop_reading():
    channel = _Channel
    with channel.lock:
        channel.reading = False
        if channel.waiting:
            channel.arrived.notify_all()


def _read():
    """Reads once; only for the one thread that has set `reading`."""
    channel = _Channel
    if channel.closed:
        raise _closed()
    try:
        data = os.read(_REPLIES, channel.size)
    except OSError as error:
        _note_closed(error)
        data = b""
    if not data:
        _note_closed()
        raise _closed()
    channel.size = _LARGE_PIECE if len(data) >= _PIECE else _PIECE
    lines = data.split(b"\n")
    rest = lines.pop()
    if lines and channel.partial:
        channel.partial.append(lines[0])
        lines[0] = b"".join(channel.partial)
        channel.partial = []
    if rest:
        channel.partial.append(rest)
    slots = channel.slots
    for line in lines:
        # `{"id":17,…`: the other end always writes the id first.
        number = int(line[6 : line.index(b",")])
        if number in slots:
            slots[number] = line


def _send(data):
    channel = _Channel
    with channel.writing:
        if channel.closed:
            raise _closed()
        if channel.torn:
            data = b"\n" + data
        channel.torn = True
        while True:
            try:
                sent = os.write(_REQUESTS, data)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                _note_closed(error)
                raise _closed() from None
            if sent == len(data):
                break
            data = memoryview(data)[sent:]
            _make_room()
        channel.torn = False


def _make_room():
    """Waits until more can be sent. The other end takes no requests while it cannot get rid of its
    replies, so these must be read meanwhile."""
    poll = select.poll()
    poll.register(_REQUESTS, select.POLLOUT)
    with _Channel.lock:
        mine = not _Channel.reading
        _Channel.reading = True
    try:
        if mine:
            poll.register(_REPLIES, select.POLLIN)
        # The thread that reads now may stop before the way is free: look again soon.
        for descriptor, _ in poll.poll(None if mine else 20):
            if descriptor == _REPLIES:
                _read()
    finally:
        if mine:
            _stop_reading()


def _note_closed(error=None):
    # A signal handler may raise an OSError (TimeoutError is one) in the middle of a read or write.
    if error is not None and error.errno not in (errno.EBADF, errno.EPIPE):
        raise error
    _Channel.closed = _Channel.closed or "the connection to the tools is closed"


def _closed():
    return ToolError("agent_tools", "upstream", _Channel.closed)


def _forget_in_child():
    """A forked child has no channel: two processes cannot tell each other's replies apart."""
    _Channel.closed = (
        "tools can be called from the script's main process only, not from a child process; "
        "use call_many or threads"
    )
    _Channel.lock = threading.Lock()
    _Channel.arrived = threading.Condition(_Channel.lock)
    _Channel.writing = threading.Lock()
    _Channel.reading = False
    for descriptor in (_REQUESTS, _REPLIES):
        try:
            os.close(descriptor)
        except OSError:
            pass


def _open():
    """Takes the descriptors into use; the runner does it once. Returns the first line received."""
    for descriptor in (_REQUESTS, _REPLIES):
        os.set_inheritable(descriptor, False)
    pieces = []
    while not pieces or not pieces[-1].endswith(b"\n"):
        data = os.read(_REPLIES, 1 << 20)
        if not data:
            raise SystemExit("no script was received")
        pieces.append(data)
    os.set_blocking(_REQUESTS, False)
    os.register_at_fork(after_in_child=_forget_in_child)
    return _decode(b"".join(pieces).decode())[0]


def _end(report):
    """Tells the other end how the script ended, even if it sends no replies any more."""
    _Channel.closed = None
    _send(_encode({"end": report}).encode() + b"\n")
