"""What a script finds around itself."""
import os
import pathlib
import sys

print(os.getcwd(), __name__, sys.flags.isolated, sys.flags.utf8_mode, sys.dont_write_bytecode)
try:
    input("? ")
except EOFError:
    print("EOF")
print(sorted(name for name in os.environ if name.startswith("PYTHON")))
pathlib.Path("written.txt").write_text("ü")
pathlib.Path("neighbour.py").write_text("NAME = 'neighbour'\nimport json\n")
pathlib.Path("json.py").write_text("raise SystemExit('shadowed')\n")
import json
import neighbour
print(pathlib.Path("written.txt").read_text(), neighbour.NAME, json.dumps(1))
print(pathlib.Path(__file__).parent)
for name in ("written.txt", "neighbour.py", "json.py"):
    os.remove(name)
print([p for p in sys.path if "runtime" in p])
print("\udcff", file=sys.stdout)
print(globals().keys() & {"os", "_TOOLS", "_run"})


class Point:
    """Classes of the script are found where pickle looks for them."""


import pickle
print(type(pickle.loads(pickle.dumps(Point()))) is Point)
import inspect
print(inspect.getsource(Point).splitlines()[0])
# ends: completed
# prints: /workspace __main__ 1 1 True
# prints: ? EOF
# prints: []
# prints: ü neighbour 1
# prints: /workspace
# prints: []
# prints: \udcff
# prints: {'os'}
# prints: True
# prints: class Point:
