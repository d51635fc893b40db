"""Makes `await` work in a script whose tool functions are synchronous.

Scripts are written by models, and models put `await` before anything that looks remote. So:

- `await` is allowed at the top level;
- `await X` also takes a plain value as X, and gives that value back; so does `async for`;
- `await call(…)` runs the call in a thread, so that coroutines which are gathered really overlap;
- a call written straight into the arguments of `asyncio.gather`, `create_task` and the like
  becomes a coroutine, and the functions of asyncio take plain values beside awaitables.

The alternative, results of classes that derive from dict and str and have `__await__`, cannot
serve None and bool, and every script would pay for it: such a value is not what `type(x) is dict`,
YAML dumpers and other strict libraries expect. What is not rewritten: modules that the script
imports from its workspace.
"""

import ast
import functools
import threading
import weakref

import script_channel

# What takes awaitables: of asyncio, and as a method of whatever (a loop, a task group).
_TAKERS = frozenset("gather create_task ensure_future wait_for shield wait as_completed run".split())
_METHODS = frozenset("create_task ensure_future run_until_complete".split())
_PLAIN = (dict, list, tuple, str, bytes, int, float, type(None))
# Processes and threads of a script are bounded, and calls at once are anyway.
_THREADS = 16
_places = weakref.WeakKeyDictionary()  # loop → who may start a thread
_SETTLE = "__agent_tools_settle__"
_ITERATE = "__agent_tools_iterate__"
_LATER = "__agent_tools_later__"


def rewrite(tree, functions):
    """Rewrites a script's tree; `functions` says which names stand for the tool functions."""
    _Awaits(tree, functions).visit(tree)


class _Awaits(ast.NodeTransformer):
    """Rewrites a tree in place."""

    def __init__(self, tree, functions):
        self._functions = functions
        self._asyncio, self._takers = set(), set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names = [name for name in node.names if name.name == "asyncio"]
                self._asyncio.update(name.asname or name.name for name in names)
            elif isinstance(node, ast.ImportFrom) and node.module == "asyncio":
                names = [name for name in node.names if name.name in _TAKERS]
                self._takers.update(name.asname or name.name for name in names)

    def visit_Await(self, node):
        if self._is_tool_call(node.value):
            node.value = self._later(node.value)
        else:
            node.value = self._through(_SETTLE, self.visit(node.value))
        return node

    def visit_AsyncFor(self, node):
        node.iter = self._through(_ITERATE, node.iter)
        return self.generic_visit(node)

    def visit_comprehension(self, node):
        if node.is_async:
            node.iter = self._through(_ITERATE, node.iter)
        return self.generic_visit(node)

    def _through(self, function, value):
        name = ast.copy_location(ast.Name(function, ast.Load()), value)
        return ast.copy_location(ast.Call(name, [value], []), value)

    def visit_Call(self, node):
        if self._takes_awaitables(node.func):
            node.func = self.visit(node.func)
            node.args = [self._argument(argument) for argument in node.args]
            node.keywords = [self.visit(keyword) for keyword in node.keywords]
            return node
        return self.generic_visit(node)

    def _takes_awaitables(self, function):
        if isinstance(function, ast.Name):
            return function.id in self._takers
        if not isinstance(function, ast.Attribute):
            return False
        owner = getattr(function.value, "id", None)
        return function.attr in (_TAKERS if owner in self._asyncio else _METHODS)

    def _argument(self, node):
        """An argument of gather and the like: the calls it consists of are put off."""
        if self._is_tool_call(node):
            return self._later(node)
        if isinstance(node, ast.Starred):
            node.value = self._argument(node.value)
        elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            node.elts = [self._argument(element) for element in node.elts]
        elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            node.elt = self._argument(node.elt)
            node.generators = [self.visit(generator) for generator in node.generators]
        else:
            return self.visit(node)
        return node

    def _is_tool_call(self, node):
        return isinstance(node, ast.Call) and self._functions.named(node.func) is not None

    def _later(self, node):
        node = self.generic_visit(node)
        name = ast.copy_location(ast.Name(_LATER, ast.Load()), node.func)
        return ast.copy_location(ast.Call(name, [node.func, *node.args], node.keywords), node)


class _Settled:
    """An awaitable that is done."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __await__(self):
        return self.value
        yield


def _settle(value):
    return _Settled(value) if isinstance(value, _PLAIN) else value


def _iterate(values):
    return _each(values) if isinstance(values, _PLAIN) else values


async def _each(values):
    for value in values:
        yield value


async def _settled(value):
    return value


async def _later(function, /, *args, **named):
    """Runs a call, aside if it is one of ours."""
    if getattr(function, "__module__", None) != "agent_tools":
        return await _settle(function(*args, **named))  # The script gave the name to its own.
    import asyncio

    loop = asyncio.get_running_loop()
    place = _places.get(loop)
    if place is None:
        place = _places[loop] = asyncio.Semaphore(_THREADS)
    async with place:
        return await _in_thread(loop, functools.partial(function, *args, **named))


def _in_thread(loop, work):
    """A future of what `work` returns. Its thread is a daemon and not one of the loop's own: who
    stops waiting for a call (`wait_for`, `timeout`) does not want its end to be waited for."""
    outcome = loop.create_future()

    def finish(settle, value):
        if not outcome.done():
            settle(value)

    def run():
        try:
            settle, value = outcome.set_result, work()
        except BaseException as error:
            settle, value = outcome.set_exception, error
        try:
            loop.call_soon_threadsafe(finish, settle, value)
        except RuntimeError:
            pass  # The loop has ended without it.

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def give_up(outcome):
        if outcome.cancelled() and thread.is_alive():
            script_channel.give_up_of(thread.ident)

    outcome.add_done_callback(give_up)
    return outcome


def prepare(code):
    """Gives a compiled script what its rewritten awaits need."""
    import builtins

    setattr(builtins, _SETTLE, _settle)
    setattr(builtins, _ITERATE, _iterate)
    setattr(builtins, _LATER, _later)
    if "asyncio" not in code:
        return
    import asyncio

    def accepting(function, positions):
        @functools.wraps(function)
        def accept(*args, **named):
            values = list(args)
            values[positions] = [_coroutine(value) for value in values[positions]]
            return function(*values, **named)

        return accept

    def accepting_list(function):
        @functools.wraps(function)
        def accept(values, *args, **named):
            return function([asyncio.ensure_future(value) for value in values], *args, **named)

        return accept

    asyncio.gather = accepting(asyncio.gather, slice(0, None))
    for name in ("create_task", "ensure_future", "wait_for", "shield"):
        setattr(asyncio, name, accepting(getattr(asyncio, name), slice(0, 1)))
    for name in ("wait", "as_completed"):
        setattr(asyncio, name, accepting_list(getattr(asyncio, name)))
    if hasattr(asyncio, "TaskGroup"):
        method = asyncio.TaskGroup.create_task
        asyncio.TaskGroup.create_task = accepting(method, slice(1, 2))
    asyncio.run = _run(asyncio.run)


def _coroutine(value):
    return _settled(value) if isinstance(value, _PLAIN) else value


def _run(run):
    @functools.wraps(run)
    def run_anywhere(main, **named):
        """Also where a loop runs already, which is so at the top level of a script that awaits."""
        import asyncio

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return run(_coroutine(main), **named)
        outcome = []

        def work():
            try:
                outcome.append((run(_coroutine(main), **named), None))
            except BaseException as error:
                outcome.append((None, error))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        value, error = outcome[0]
        if error is not None:
            raise error
        return value

    return run_anywhere
