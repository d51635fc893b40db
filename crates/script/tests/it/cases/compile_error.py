print("never")
x = 1
return await x
# ends: failed
# says:   File "script.py", line 3
# says:     return await x
# says: SyntaxError: 'return' outside function
