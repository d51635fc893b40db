import sys
import atexit
atexit.register(print, "goodbye")
print("working", sys.argv, __name__, __file__)
sys.exit("the input has no rows: \udcff")
# ends: failed
# exit: 1
# prints: working ['script.py'] __main__ /workspace/script.py
# prints: goodbye
# says: SystemExit: the input has no rows: \udcff
