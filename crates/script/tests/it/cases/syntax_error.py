print("never")
def f(:
    pass
# ends: failed
# exit: 1
# says:   File "script.py", line 2
# says:     def f(:
# says: SyntaxError: invalid syntax
