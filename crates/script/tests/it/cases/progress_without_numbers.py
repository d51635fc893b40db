from agent_tools import progress

progress("a", "b", None)
progress(None)
progress(10**400, 2, object)
progress(1, [], "half")
print("still here")
# ends: completed
# prints: still here
