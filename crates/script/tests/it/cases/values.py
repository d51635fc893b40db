"""What each function returns for each kind of result."""
import json
from collections import ChainMap

from agent_tools import call, call_many, call_raw

for tool in ("text", "empty", "null", "number", "true", "list"):
    value = call(tool)
    print(tool, type(value).__name__, repr(value))
value = call("echo", {"b": [1, 2.5, None, True], "ü": "→\n\u2028"})
print(type(value) is dict, json.dumps(value, ensure_ascii=True))
print(call("image"))
print(call("both"))
print(call_raw("both"))
print(call_raw("text"), call_raw("fails"))
print(len(call("big")), call_many("echo", []), call_many("number", ({} for _ in range(3))))
# ends: completed
# prints: text str 'hello'
# prints: empty str ''
# prints: null NoneType None
# prints: number int 7
# prints: true bool True
# prints: list list [1, 2]
# prints: True {"b": [1, 2.5, null, true], "\u00fc": "\u2192\n\u2028"}
# prints: {'text': 'seen', 'content': [{'type': 'text', 'text': 'seen'}, {'type': 'image', 'data': 'aGk=', 'mimeType': 'image/png'}]}
# prints: {'a': 1}
# prints: {'text': '', 'structured': {'a': 1}, 'is_error': False, 'content': [{'type': 'text', 'text': 'seen'}, {'type': 'image', 'data': 'aGk=', 'mimeType': 'image/png'}]}
# prints: {'text': 'hello', 'structured': None, 'is_error': False} {'text': 'it broke', 'structured': None, 'is_error': True}
# prints: 5242880 [] [7, 7, 7]
# calls: 16 reached, 1 failed, 0 refused
