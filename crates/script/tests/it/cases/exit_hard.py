import os
print("flushed all the same")
os._exit(7)
# ends: failed
# exit: 7
# prints: flushed all the same
