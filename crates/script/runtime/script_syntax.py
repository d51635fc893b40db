"""Compiles a script, and finds the tools it names.

The runner and the checker both use it, so that what was checked is what runs. Scripts that await
are rewritten first (`script_awaits.py`); `ast` and the rest are loaded only where they are
needed, since every run pays for what is loaded here.
"""

import io
from _ast import PyCF_ALLOW_TOP_LEVEL_AWAIT

NAME = "script.py"
FUNCTIONS = ("call", "call_many", "call_raw", "progress")


def compile_script(code):
    """The script's code object. Raises SyntaxError for everything that is wrong with the source."""
    source = code.removeprefix("\ufeff")
    if awaits(code):
        import script_awaits

        source = parse(code)
        _guarded(code, lambda: script_awaits.rewrite(source, tool_functions(source)))
    try:
        return _guarded(
            code,
            lambda: compile(source, NAME, "exec", PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True),
        )
    except SyntaxError as error:
        # A compiler that is given a tree looks the line up in a file of that name.
        numbered = lines(code)
        if error.text is None and error.lineno and error.lineno <= len(numbered):
            error.text = numbered[error.lineno - 1]
        raise


def awaits(code):
    """Whether the script may await something."""
    return "await" in code or "async" in code


def parse(code):
    """The script's tree."""
    import ast

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
        import ast

        if isinstance(node, ast.Name):
            return self.functions.get(node.id)
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in self.modules
            and node.attr in FUNCTIONS
        ):
            return node.attr
        return None


def tool_functions(tree):
    """Finds every spelling of the import."""
    import ast

    found = ToolFunctions()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name == "agent_tools":
                    found.modules.add(name.asname or name.name)
        elif isinstance(node, ast.ImportFrom) and node.module == "agent_tools" and not node.level:
            for name in node.names:
                if name.name == "*":
                    found.functions.update({function: function for function in FUNCTIONS})
                elif name.name in FUNCTIONS:
                    found.functions[name.asname or name.name] = name.name
    return found


def literal_calls(tree):
    """Every tool that is named by a literal, as (name, line), in the order of the source.

    Besides `call("x", …)` that is `submit(call, "x", …)`, `partial(call, "x")` and the like.
    """
    import ast

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
