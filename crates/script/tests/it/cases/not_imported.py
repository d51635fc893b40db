rows = call_many("echo", [{}])
# ends: failed
# says: Traceback (most recent call last):
# says:   File "script.py", line 1, in <module>
# says:     rows = call_many("echo", [{}])
# says: NameError: name 'call_many' is not defined
# says: (it is missing at the top: from agent_tools import call_many)
