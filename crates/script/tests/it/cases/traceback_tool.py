from agent_tools import call, call_many


async def main():
    rows = await call("echo", {"a": 1})
    return await call("nope", {"rows": rows})


print("before")
await main()
# ends: failed
# prints: before
# says: Traceback (most recent call last):
# says:   File "script.py", line 10, in <module>
# says:     await main()
# says:   File "script.py", line 6, in main
# says:     return await call("nope", {"rows": rows})
# says: agent_tools.ToolError: nope: there is no such tool; did you mean echo? (unknown_tool)
# calls: 1 reached, 0 failed, 1 refused
