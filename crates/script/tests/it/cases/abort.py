import os
print("last words")
os.abort()
# ends: signal 6
# prints: last words
