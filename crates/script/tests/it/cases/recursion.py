def down(n):
    return down(n + 1)


try:
    down(0)
except RecursionError:
    print("caught")


class Evil(Exception):
    def __str__(self):
        raise ValueError("no text")


raise Evil
# ends: failed
# prints: caught
# says: Traceback (most recent call last):
# says:   File "script.py", line 16, in <module>
# says:     raise Evil
# says: Evil: <exception str() failed>
# needs: 3.11
