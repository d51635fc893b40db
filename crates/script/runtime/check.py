"""Parses one script, which comes on descriptor 4, and writes what it found to standard output.

Nothing of the script is run. The interpreter is the one that would run it, because no other
parser agrees with it on what is a syntax error.
"""

import json
import os
import sys
import traceback
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import script_syntax

_MOST_CALLS = 2000
_NAME_CHARS = 200
_LINE_CHARS = 300


def _check(code):
    try:
        tree = script_syntax.parse(code)
        calls = script_syntax.literal_calls(tree)
        script_syntax.compile_script(code)
    except SyntaxError as error:
        said = "".join(traceback.format_exception_only(error)).splitlines()
        message = "\n".join(line[:_LINE_CHARS] for line in said)
        return {"syntax_error": {"line": error.lineno or 1, "message": _readable(message)[:2000]}}
    return {"calls": [(_readable(name[:_NAME_CHARS]), line) for name, line in calls[:_MOST_CALLS]]}


def _readable(text):
    return text.encode("utf-8", "backslashreplace").decode()


warnings.simplefilter("ignore")
with os.fdopen(4, "rb") as _source:
    _code = json.loads(_source.readline())["code"]
sys.stdout.write(json.dumps(_check(_code)))
