"""The script's own frames and lines, with what caused what."""
import json
from agent_tools import call


def parse(text):
    return json.loads(text)


def load():
    try:
        parse("{oops")
    except ValueError as error:
        raise RuntimeError("cannot load ✗ \udcff") from error


class Report:
    def build(self):
        load()


Report().build()
# ends: failed
# exit: 1
# says: Traceback (most recent call last):
# says:   File "script.py", line 12, in load
# says:     parse("{oops")
# says:   File "script.py", line 7, in parse
# says:     return json.loads(text)
# says: json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)
# says: 
# says: The above exception was the direct cause of the following exception:
# says: 
# says: Traceback (most recent call last):
# says:   File "script.py", line 22, in <module>
# says:     Report().build()
# says:   File "script.py", line 19, in build
# says:     load()
# says:   File "script.py", line 14, in load
# says:     raise RuntimeError("cannot load ✗ \udcff") from error
# says: RuntimeError: cannot load ✗ \udcff
