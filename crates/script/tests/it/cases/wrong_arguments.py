"""Arguments that cannot be sent say so before anything is sent."""
import math

from agent_tools import ToolError, call, call_many

loop = {}
loop["loop"] = loop
deep = []
for _ in range(100_000):
    deep = [deep]
for args in (
    [1], "x", {"a": math.nan}, {"a": math.inf}, {"a": b"x"}, {"a": {1}}, {(1, 2): 3}, loop,
    {"a": deep}, {"a": "\udcff"}, {"a": object}, {"a": [[[[1]]] * 3]},
):
    try:
        call("echo", args)
        print("sent")
    except ToolError as error:
        print(error.kind, "|", error.message)
for wrong in ({"a": 1}, "abc", 5, None):
    try:
        call_many("echo", wrong)
    except TypeError as error:
        print(error)
try:
    call(5, {})
except TypeError as error:
    print(error)
# One more than a hundred deep is refused by the other end.
nested = {}
for _ in range(150):
    nested = {"a": nested}
try:
    call("echo", nested)
except ToolError as error:
    print(error.kind, "|", error.message)
# Nothing of a batch is sent if one of it cannot be.
try:
    call_many("echo", [{}, {"a": {1}}])
except ToolError as error:
    print(error.message)
del deep
# ends: completed
# prints: invalid_arguments | args must be a dict of the tool's parameters, not a list
# prints: invalid_arguments | args must be a dict of the tool's parameters, not a str
# prints: invalid_arguments | args cannot be sent as JSON: NaN and infinity cannot be expressed in JSON
# prints: invalid_arguments | args cannot be sent as JSON: NaN and infinity cannot be expressed in JSON
# prints: invalid_arguments | args cannot be sent as JSON: a bytes cannot be expressed in JSON
# prints: invalid_arguments | args cannot be sent as JSON: a set cannot be expressed in JSON
# prints: invalid_arguments | args cannot be sent as JSON: keys must be str, int, float, bool or None, not tuple
# prints: invalid_arguments | args cannot be sent as JSON: nested too deeply
# prints: invalid_arguments | args cannot be sent as JSON: nested too deeply
# prints: invalid_arguments | args cannot be sent as JSON: text with lone surrogates is not valid Unicode (a file name that is not UTF-8?)
# prints: invalid_arguments | args cannot be sent as JSON: a type cannot be expressed in JSON
# prints: sent
# prints: args_list must be a list of dicts, one for each call, not a dict
# prints: args_list must be a list of dicts, one for each call, not a str
# prints: 'int' object is not iterable
# prints: 'NoneType' object is not iterable
# prints: the tool's name must be a str, not a int
# prints: invalid_arguments | the arguments are nested more than 100 deep
# prints: args_list[1] cannot be sent as JSON: a set cannot be expressed in JSON
# calls: 1 reached, 0 failed, 1 refused
