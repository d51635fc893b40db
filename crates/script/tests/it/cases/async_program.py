"""A whole program in the asyncio style, as models write them."""
import asyncio, functools, concurrent.futures
from agent_tools import call, call_many, ToolError
chunks=[[{"i":i} for i in range(3)] for _ in range(2)]
async def main():
    r = await asyncio.gather(*(call_many("echo", chunk) for chunk in chunks))
    assert r == chunks, r
    sem = asyncio.Semaphore(5)
    async def one(i):
        async with sem:
            return await call("echo", {"i": i})
    assert [x["i"] for x in await asyncio.gather(*[one(i) for i in range(20)])] == list(range(20))
    tasks = [asyncio.create_task(call("echo", {"i": i}), name="n") for i in range(5)]
    assert [ (await t)["i"] for t in tasks] == list(range(5))
    f = lambda x: call("echo", x)
    assert await asyncio.gather(*[f({"a":1}) for _ in range(2)]) == [{"a":1}]*2
    loop = asyncio.get_running_loop()
    with concurrent.futures.ThreadPoolExecutor() as ex:
        assert await loop.run_in_executor(ex, functools.partial(call, "text")) == "hello"
    class C:
        def __init__(self): self.call = call
        async def go(self): return await self.call("text")
    assert await C().go() == "hello"
    assert await asyncio.gather(*map(call, ["text","number"])) == ["hello", 7]
    try:
        await asyncio.gather(one(1), call("nope"))
    except ToolError as e: print(e)
    await call("echo", {"a": await call("echo", {"b": (await call("number")) + 1})})
    x = {k: await call("number") for k in "ab"}; assert x == {"a":7,"b":7}
    print(f"{await call('text')!r} {(await call('echo', {'z': 1}))['z']}")
    return 1
if __name__ == "__main__":
    print(asyncio.run(main()))
    loop = asyncio.new_event_loop()
    print(loop.run_until_complete(call("text")), loop.run_until_complete(main()))
    loop.close()
# ends: completed
# prints: nope: there is no such tool; did you mean echo? (unknown_tool)
# prints: 'hello' 1
# prints: 1
# prints: nope: there is no such tool; did you mean echo? (unknown_tool)
# prints: 'hello' 1
# prints: hello 1
