"""The two pipes between a script and those who carry its calls out.

Requests leave on descriptor 3, replies come on descriptor 4, one JSON value a line. This module
carries lines and knows of each only its id.

Whoever waits for a reply first reads for all; the others sleep until their own reply is there or
the reading is free. There is no thread of our own: a script that forks or counts its threads
sees only what it made itself.
"""

import errno
import json
import os
import select
import threading

_REQUESTS = 3
_REPLIES = 4
_PIECE = 1 << 16
_LARGE_PIECE = 1 << 18


class Closed(Exception):
    """Nothing can be called any more; the text says why."""


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


def exchange_one(number, line):
    """`exchange` for one request, which is where the time of a single call goes."""
    slots = _Channel.slots
    slots[number] = threading.get_ident()
    try:
        send(line)
        while type(slots[number]) is int:
            _await_reply(number)
        return slots[number]
    except Closed:
        raise
    except BaseException:
        # A signal handler has raised. The reply, if one still comes, is nobody's.
        _give_up([number])
        raise
    finally:
        slots.pop(number, None)


def exchange(requests):
    """Sends all requests, (id, line) each, and returns their replies' lines in the same order."""
    numbers = [number for number, _ in requests]
    slots = _Channel.slots
    slots.update(dict.fromkeys(numbers, threading.get_ident()))
    try:
        send(b"".join([line for _, line in requests]))
        for number in numbers:
            while type(slots[number]) is int:
                _await_reply(number)
        return [slots[number] for number in numbers]
    except Closed:
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
            send(f'{{"give_up":{left}}}\n'.encode())
    except Closed:
        pass


def give_up_of(thread):
    """Says so of what a thread waits for, which then ends with an error."""
    _give_up([number for number, slot in list(_Channel.slots.items()) if slot == thread])


def _await_reply(number):
    """Waits for something to come, which need not be the reply to this call."""
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
        raise Closed(channel.closed)
    try:
        data = os.read(_REPLIES, channel.size)
    except OSError as error:
        _note_closed(error)
        data = b""
    if not data:
        _note_closed()
        raise Closed(channel.closed)
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


def send(data):
    """Sends whole lines."""
    channel = _Channel
    with channel.writing:
        if channel.closed:
            raise Closed(channel.closed)
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
                raise Closed(channel.closed) from None
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


def take():
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
    return json.loads(b"".join(pieces))


def end(report):
    """Tells the other end how the script ended, even if it sends no replies any more."""
    _Channel.closed = None
    send(json.dumps({"end": report}).encode() + b"\n")
