"""Awaits at the top level and in a function of a script that never heard of its loop."""
from agent_tools import call


def call_twice():
    return [call("number"), call("number")]


async def twice():
    return [await call("number"), await call("number")]


if __name__ == "__main__":
    print(await twice(), call_twice(), await call_twice())
# ends: completed
# prints: [7, 7] [7, 7] [7, 7]
