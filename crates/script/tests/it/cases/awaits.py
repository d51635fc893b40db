"""Every way to await, with every kind of value."""
import asyncio
import asyncio as aio
from asyncio import gather

import agent_tools as tools
from agent_tools import ToolError, call, call_many, call_raw, progress

for tool in ("echo", "text", "null", "number", "true", "list"):
    value = await call(tool, {})
    print(tool, type(value).__name__)
print(await call_many("number", [{}, {}]), (await call_raw("text"))["text"], await progress(1))
print([await call("echo", {"i": i}) for i in range(2)])


async def one(number):
    return (await tools.call("slow", {"i": number}))["i"]


async def main():
    print(await asyncio.gather(*[one(i) for i in range(10)]))
    print(await gather(*[call("echo", {"i": i}) for i in range(3)], call("fails"), return_exceptions=True))
    calls = [call("number"), call("null"), call("text")]
    print(await aio.gather(*calls))
    print(await asyncio.wait_for(call("number"), 5), await asyncio.wait_for(call("null"), timeout=None))
    task = asyncio.create_task(call("text"))
    print(await task, await asyncio.shield(call("list")))
    done, _ = await asyncio.wait([asyncio.ensure_future(call("number"))])
    print([future.result() for future in done])
    for future in asyncio.as_completed([call("text"), one(5)]):
        print(type(await future).__name__ in ("str", "int"))
    try:
        await call("fails")
    except ToolError as error:
        print(error.kind)
    await asyncio.sleep(0)
    return await asyncio.to_thread(call, "number")


print(asyncio.run(main()))
print(await main())
print(asyncio.run(call("text")))


async def results():
    for i in range(2):
        yield await call("echo", {"i": i})


print([row async for row in results()])
print([row async for row in call_many("number", [{}, {}])])
async for row in await call_many("echo", [{"i": 1}]):
    print(row)
# ends: completed
# prints: echo dict
# prints: text str
# prints: null NoneType
# prints: number int
# prints: true bool
# prints: list list
# prints: [7, 7] hello None
# prints: [{'i': 0}, {'i': 1}]
# prints: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
# prints: [{'i': 0}, {'i': 1}, {'i': 2}, ToolError('fails', 'tool', 'it broke', False)]
# prints: [7, None, 'hello']
# prints: 7 None
# prints: hello [1, 2]
# prints: [7]
# prints: True
# prints: True
# prints: tool
# prints: 7
# prints: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
# prints: [{'i': 0}, {'i': 1}, {'i': 2}, ToolError('fails', 'tool', 'it broke', False)]
# prints: [7, None, 'hello']
# prints: 7 None
# prints: hello [1, 2]
# prints: [7]
# prints: True
# prints: True
# prints: tool
# prints: 7
# prints: hello
# prints: [{'i': 0}, {'i': 1}]
# prints: [7, 7]
# prints: {'i': 1}
