rows = []
print("start")
rows = bytearray(1 << 50)
# ends: memory limit
# exit: 1
# prints: start
# says: Traceback (most recent call last):
# says:   File "script.py", line 3, in <module>
# says:     rows = bytearray(1 << 50)
# says: MemoryError
