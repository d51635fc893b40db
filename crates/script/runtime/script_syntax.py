"""Compiles a script, and finds the tools it names.

The runner and the checker both use it, so that what was checked is what runs. Scripts are written
by models, and models put `await` before anything that looks remote. So that it works:

- `await` is allowed at the top level;
- `await X` also takes a plain value as X, and gives that value back;
- `await call(…)` runs the call in a thread, so that coroutines which are gathered really overlap;
- a call written straight into the arguments of `asyncio.gather`, `create_task` and the like
  becomes a coroutine, and the functions of asyncio take plain values beside awaitables.

The tree is rewritten only if the script says `await` or `asyncio`. The alternative, results of
classes that derive from dict and str and have `__await__`, cannot serve None and bool, and every
script would pay for it: such a value is not what `type(x) is dict`, YAML dumpers and other strict
libraries expect.
"""

import ast
import functools
import io

NAME = "script.py"
_FUNCTIONS = ("call", "call_many", "call_raw", "progress")
# What takes awaitables: of asyncio, and as a method of whatever (a loop, a task group).
_TAKERS = frozenset("gather create_task ensure_future wait_for shield wait as_completed run".split())
_METHODS = frozenset("create_task ensure_future run_until_complete".split())
_PLAIN = (dict, list, tuple, str, bytes, int, float, type(None))
_SETTLE = "__agent_tools_settle__"
_LATER = "__agent_tools_later__"


def compile_script(code):
    """The script's code object. Raises SyntaxError for everything that is wrong with the source."""
    tree = parse(code)
    if "await" in code or "asyncio" in code:
        _guarded(code, lambda: _Awaits(tree).visit(tree))
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        return _guarded(code, lambda: compile(tree, NAME, "exec", flags, dont_inherit=True))
    except SyntaxError as error:
        # A compiler that is given a tree looks the line up in a file of that name.
        numbered = lines(code)
        if error.lineno and error.lineno <= len(numbered):
            error.text = numbered[error.lineno - 1]
        raise


def parse(code):
    """The script's tree."""
    return _guarded(code, lambda: ast.parse(code.removeprefix("\ufeff"), NAME))


def lines(code):
    """The script's lines as the interpreter counts them."""
    return io.StringIO(code.removeprefix("\ufeff"), newline=None).readlines()


def _guarded(code, step):
    if "\0" in code:
        line = code.count("\n", 0, code.index("\0")) + 1
        raise SyntaxError("source code cannot contain null bytes", (NAME, line, None, None))
    try:
        return step()
    except SyntaxError as error:
        if error.msg == "'await' outside async function":
            error.msg += " (the functions of agent_tools need no await)"
        raise
    except (RecursionError, MemoryError):
        reason = "the script is nested too deeply to be compiled"
    except (ValueError, OverflowError) as error:
        reason = str(error)
    raise SyntaxError(reason, (NAME, 1, None, None)) from None


class ToolFunctions:
    """Which names of a script stand for the functions of agent_tools."""

    def __init__(self):
        self.modules = set()
        self.functions = {}

    def named(self, node):
        """The function that an expression names, if any."""
        if isinstance(node, ast.Name):
            return self.functions.get(node.id)
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in self.modules
            and node.attr in _FUNCTIONS
        ):
            return node.attr
        return None


def tool_functions(tree):
    """Finds every spelling of the import."""
    found = ToolFunctions()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name == "agent_tools":
                    found.modules.add(name.asname or name.name)
        elif isinstance(node, ast.ImportFrom) and node.module == "agent_tools" and not node.level:
            for name in node.names:
                if name.name == "*":
                    found.functions.update({function: function for function in _FUNCTIONS})
                elif name.name in _FUNCTIONS:
                    found.functions[name.asname or name.name] = name.name
    return found


def literal_calls(tree):
    """Every tool that is named by a literal, as (name, line), in the order of the source.

    Besides `call("x", …)` that is `submit(call, "x", …)`, `partial(call, "x")` and the like.
    """
    functions = tool_functions(tree)
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if functions.named(node.func) not in (None, "progress"):
            names = node.args[:1] or [k.value for k in node.keywords if k.arg == "tool"]
        else:
            names = [
                after
                for before, after in zip(node.args, node.args[1:])
                if functions.named(before) not in (None, "progress")
            ]
        for name in names:
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                found.append((name.lineno, name.col_offset, name.value))
    return [(name, line) for line, _, name in sorted(found)]


class _Awaits(ast.NodeTransformer):
    """See the head of this file."""

    def __init__(self, tree):
        self._functions = tool_functions(tree)
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
            value = self.visit(node.value)
            name = ast.copy_location(ast.Name(_SETTLE, ast.Load()), value)
            node.value = ast.copy_location(ast.Call(name, [value], []), value)
        return node

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


async def _settled(value):
    return value


async def _later(function, /, *args, **named):
    if getattr(function, "__module__", None) != "agent_tools":
        return await _settle(function(*args, **named))  # The script gave the name to its own.
    import asyncio

    return await asyncio.to_thread(function, *args, **named)


def prepare(code):
    """Gives a compiled script what its rewritten awaits need."""
    import builtins

    setattr(builtins, _SETTLE, _settle)
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
        import threading

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
