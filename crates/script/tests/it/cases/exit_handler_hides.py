import atexit
import os
atexit.register(os._exit, 0)
1 / 0
# ends: failed
# exit: 0
# says: Traceback (most recent call last):
# says:   File "script.py", line 4, in <module>
# says:     1 / 0
# says: ZeroDivisionError: division by zero
