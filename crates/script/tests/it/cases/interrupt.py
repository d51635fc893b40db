import os, signal
os.kill(os.getpid(), signal.SIGINT)
print("not reached")
# ends: failed
# exit: 130
# says: Traceback (most recent call last):
# says:   File "script.py", line 2, in <module>
# says:     os.kill(os.getpid(), signal.SIGINT)
# says: KeyboardInterrupt
