import ctypes
print("last words")
ctypes.string_at(0)
# ends: signal 11
# prints: last words
