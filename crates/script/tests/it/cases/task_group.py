import asyncio

from agent_tools import call


async def main():
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(call("echo", {"i": i})) for i in range(3)]
        tasks.append(group.create_task(own(4)))
    print([task.result() for task in tasks])


async def own(number):
    return await call("echo", {"own": number})


asyncio.run(main())
# ends: completed
# prints: [{'i': 0}, {'i': 1}, {'i': 2}, {'own': 4}]
# needs: 3.11
