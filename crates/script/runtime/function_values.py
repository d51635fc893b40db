"""Turns a Python value into strict JSON (RFC 8259).

What JSON lacks becomes its plain counterpart: NaN and infinities null, sets and tuples lists,
bytes base64, dates ISO strings, numpy and pandas values what they hold. What has no counterpart
raises `NotSerializable` with the path of the value. Nothing is imported that the code itself did
not import: a value's library is found in `sys.modules`.
"""

import sys

_DEEPEST = 400
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class NotSerializable(Exception):
    """Says which value, by its path, and why."""


def encode(value):
    """The value's JSON text."""
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
    parts = []
    _write(value, None, parts.append, (), 0)
    return "".join(parts)


def _write(value, path, put, above, depth):
    kind = type(value)
    if value is None:
        put("null")
    elif value is True:
        put("true")
    elif value is False:
        put("false")
    elif kind is str:
        put(quote(value))
    elif kind is int:
        put(int.__repr__(value))
    elif kind is float:
        put(float.__repr__(value) if value - value == 0 else "null")
    elif kind is list or kind is tuple:
        _write_list(value, path, put, _inside(value, path, above, depth), depth)
    elif kind is dict:
        _write_dict(value, path, put, _inside(value, path, above, depth), depth)
    else:
        plain = _plain(value, path)
        if type(plain) is type(value) and type(plain) not in (list, dict):
            raise NotSerializable(f"{_shown(path)} is {_called(value)}, which JSON cannot express")
        _write(plain, path, put, _inside(value, path, above, depth), depth + 1)


def _inside(value, path, above, depth):
    if depth >= _DEEPEST:
        raise NotSerializable(f"{_shown(path)} is nested more than {_DEEPEST} deep")
    if any(value is one for one in above):
        raise NotSerializable(f"{_shown(path)} contains itself")
    return (*above, value)


def _write_list(value, path, put, above, depth):
    put("[")
    for index, item in enumerate(value):
        if index:
            put(",")
        _write(item, (path, index), put, above, depth + 1)
    put("]")


def _write_dict(value, path, put, above, depth):
    put("{")
    seen = set()
    first = True
    for key, item in value.items():
        name = _key(key, path)
        if name in seen:
            raise NotSerializable(f"{_shown(path)} has two keys that are both {name!r} in JSON")
        seen.add(name)
        if not first:
            put(",")
        first = False
        put(quote(name))
        put(":")
        _write(item, (path, name), put, above, depth + 1)
    put("}")


def _key(key, path):
    if type(key) is str:
        return key
    if key is None:
        return "null"
    if key is True:
        return "true"
    if key is False:
        return "false"
    if isinstance(key, int):
        return int.__repr__(key)
    if isinstance(key, float):
        return float.__repr__(key)
    plain = _plain(key, path)
    if isinstance(plain, str):
        return str(plain)
    if isinstance(plain, (int, float)) and not isinstance(key, (int, float)):
        return _key(plain, path)
    raise NotSerializable(f"{_shown(path)} has a key {_called(key)}; keys must be text or numbers")


def _shown(path):
    """The path of a value: the keys on the way to it, the innermost last."""
    keys = []
    while path is not None:
        path, key = path
        keys.append(f"[{key}]" if isinstance(key, int) else f"[{key[:80]!r}]")
    text = "".join(reversed(keys))
    return "data" + (text if len(text) <= 200 else f"{text[:100]}…{text[-100:]}")


def _called(value):
    kind = type(value)
    module = kind.__module__
    name = kind.__qualname__ if module in ("builtins", "__main__") else f"{module}.{kind.__qualname__}"
    return f"of type {name}"


def _plain(value, path):
    """The value in simpler types, or itself where there is nothing simpler."""
    enum = sys.modules.get("enum")
    if enum and isinstance(value, enum.Enum):
        return value.value
    for simple in (bool, int, float, str):
        if isinstance(value, simple):
            return simple.__new__(simple, value) if simple is not str else str.__str__(value)
    found = _of_numpy(value)
    if found is None:
        found = _of_pandas(value)
    if found is not None:
        return found[0]
    if isinstance(value, (bytes, bytearray, memoryview)):
        import base64

        return base64.b64encode(bytes(value)).decode("ascii")
    if isinstance(value, (set, frozenset)):
        try:
            return sorted(value)
        except TypeError:
            return list(value)
    if isinstance(value, (list, tuple, range)):
        fields = getattr(type(value), "_fields", None)
        if isinstance(value, tuple) and fields:
            return dict(zip(fields, value))
        return list(value)
    if isinstance(value, dict):
        return dict(value)
    return _of_the_library(value, path)


def _of_the_library(value, path):
    dataclasses = sys.modules.get("dataclasses")
    if dataclasses and dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    datetime = sys.modules.get("datetime")
    if datetime:
        if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
            return value.isoformat()
        if isinstance(value, datetime.timedelta):
            return value.total_seconds()
    decimal = sys.modules.get("decimal")
    if decimal and isinstance(value, decimal.Decimal):
        return str(value) if value.is_finite() else None
    for module, name in (("uuid", "UUID"), ("fractions", "Fraction"), ("pathlib", "PurePath")):
        kind = getattr(sys.modules.get(module), name, None)
        if kind and isinstance(value, kind):
            return str(value)
    collections = sys.modules.get("collections")
    if collections and isinstance(value, (collections.deque, collections.UserList)):
        return list(value)
    if collections and isinstance(value, collections.UserDict):
        return dict(value)
    abc = sys.modules.get("collections.abc")
    if abc and isinstance(value, (abc.KeysView, abc.ValuesView, abc.ItemsView)):
        return list(value)
    if hasattr(value, "__await__"):
        raise NotSerializable(f"{_shown(path)} is a coroutine that was never awaited")
    if hasattr(value, "__next__"):
        raise NotSerializable(f"{_shown(path)} is an iterator; return list(...) of it")
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    return value


def _of_numpy(value):
    numpy = sys.modules.get("numpy")
    if not numpy or not hasattr(numpy, "generic"):
        return None
    if isinstance(value, (numpy.datetime64, numpy.timedelta64)):
        return (None,) if numpy.isnat(value) else (str(value),)
    if isinstance(value, numpy.ma.core.MaskedConstant):
        return (None,)
    if isinstance(value, numpy.ndarray):
        if value.ndim == 0:
            return (value[()],)
        # Times lose their unit in `tolist`, and objects need no conversion.
        return (list(value) if value.dtype.kind in "mMOV" else value.tolist(),)
    if isinstance(value, numpy.floating):
        return (float(value),)
    if isinstance(value, numpy.generic):
        plain = value.item()
        return None if type(plain) is type(value) else (plain,)
    return None


def _of_pandas(value):
    pandas = sys.modules.get("pandas")
    if not pandas or not hasattr(pandas, "DataFrame"):
        return None
    if value is pandas.NaT or value is pandas.NA:
        return (None,)
    if isinstance(value, (pandas.Timestamp, pandas.Timedelta)):
        return (value.isoformat(),)
    if isinstance(value, (pandas.Period, pandas.Interval)):
        return (str(value),)
    if isinstance(value, pandas.DataFrame):
        names = [name if isinstance(name, str) else _column(name) for name in value.columns]
        if len(set(names)) != len(names):
            raise NotSerializable("a DataFrame has two columns of the same name")
        columns = [value.iloc[:, number].tolist() for number in range(len(names))]
        return ([dict(zip(names, row)) for row in zip(*columns)],)
    if isinstance(value, (pandas.Series, pandas.Index)):
        return (value.tolist(),)
    if isinstance(value, pandas.api.extensions.ExtensionArray):
        return (list(value),)
    return None


def _column(name):
    return "_".join(str(part) for part in name) if isinstance(name, tuple) else str(name)


def quote(text):
    """The text in quotes. Half of a surrogate pair is no character anywhere else: U+FFFD."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    parts = ['"']
    for character in text:
        escaped = _ESCAPES.get(character)
        if escaped:
            parts.append(escaped)
        elif character < " ":
            parts.append(f"\\u{ord(character):04x}")
        elif "\ud800" <= character <= "\udfff":
            parts.append("\ufffd")
        else:
            parts.append(character)
    parts.append('"')
    return "".join(parts)
