"""A name of ours that the script gives to something of its own stays its own."""
import subprocess
from agent_tools import call as tool_call
import agent_tools


async def call(tool, number):
    return tool, number


class Things:
    async def call_many(self, x):
        return x


print(await call("x", 1), await Things().call_many(2), await agent_tools.call("number"))
from agent_tools import call


async def call(tool):
    return "mine"


print(await call("y"))
print(subprocess.run(["/bin/echo", tool_call("text")], capture_output=True).stdout)
# ends: completed
# prints: ('x', 1) 2 7
# prints: mine
# prints: b'hello\n'
