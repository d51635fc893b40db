"""Every way in which a call fails, as the script sees it."""
import pickle

from agent_tools import ToolError, call, call_many, call_raw


def told(function, *args, **named):
    try:
        return function(*args, **named)
    except ToolError as error:
        return (error.tool, error.kind, error.message[:60], error.retryable)


print(told(call, "fails"))
print(told(call, "fails_silently"))
print(told(call, "close", {"id": 1}))
print(told(call, "busy"))
print(told(call, "nope"))
print(told(call_raw, "nope"))
print(told(call, "deep")[1])
print(told(call_many, "fails", [{}, {}]))
mixed = call_many("echo", [{"a": 1}, {"a": {2}}, [], {"a": 3}], return_errors=True)
print([str(slot) for slot in mixed])
try:
    call("fails")
except ToolError as error:
    print(error, error.result)
    copy = pickle.loads(pickle.dumps(error))
    print(copy.kind, copy.message, copy.retryable)
# ends: completed
# prints: ('fails', 'tool', 'it broke', False)
# prints: ('fails_silently', 'tool', '{"code": 5}', False)
# prints: ('close', 'not_listed', 'list it in `tools`', False)
# prints: ('busy', 'upstream', 'come back later', True)
# prints: ('nope', 'unknown_tool', 'there is no such tool; did you mean echo?', False)
# prints: {'text': 'there is no such tool; did you mean echo?', 'structured': None, 'is_error': True, 'kind': 'unknown_tool'}
# prints: upstream
# prints: ('fails', 'tool', 'it broke', False)
# prints: ["{'a': 1}", 'echo: args_list[1] cannot be sent as JSON: a set cannot be expressed in JSON (invalid_arguments)', "echo: args_list[2] must be a dict of the tool's parameters, not a list (invalid_arguments)", "{'a': 3}"]
# prints: fails: it broke (tool) {'text': 'it broke', 'structured': None, 'is_error': True}
# prints: tool it broke False
# calls: 9 reached, 6 failed, 3 refused
