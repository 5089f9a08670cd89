"""The small faults that there could be in a module: one change of one expression each.

A comparison, an operator, a bound, a constant, a returned value; each with the lines that a test
has to run to notice it.
"""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]

_REACHING = """
asyncio concurrent confluent_kafka fcntl getpass http httpx matplotlib mmap multiprocessing os
pathlib py4j pyspark queue rich select selectors shutil signal socket ssl subprocess sys tempfile
threading time typer urllib uvloop
"""
REACHES_OUT = frozenset(_REACHING.split())
"""A module that imports one of these is not pure."""

UNMUTATED_ROOMS = ("cli", "lab")
"""They declare options and files; what they say is compared with what they said."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """The text from `start` to `end` (offsets in characters) of a module becomes `text`."""

    module: Path
    line: int
    start: int
    end: int
    text: str
    before: str
    lines: range | None
    """A test has to run one of these to notice it; None: it runs when the module is imported."""

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {_short(self.before)}  ->  {_short(self.text)}"

    def applied(self, source: str) -> str:
        return source[: self.start] + self.text + source[self.end :]


class _Places(ast.NodeVisitor):
    """Collects, for each place of a module, the expressions that may stand there instead."""

    def __init__(self) -> None:
        self.changes: list[tuple[ast.expr, str, range | None]] = []
        self._function: range | None = None
        self._lines: range | None = None

    def visit(self, node: ast.AST) -> None:
        """A statement's expressions are run with its first lines: its body has statements."""
        before = self._lines
        if self._function and isinstance(node, ast.stmt):
            self._lines = first_lines(node)
        super().visit(node)
        self._lines = before

    def _change(self, node: ast.expr, *changed: ast.expr | str) -> None:
        for other in changed:
            text = other if isinstance(other, str) else ast.unparse(other)
            self.changes.append((node, f"({text})", self._lines))

    def visit_Compare(self, node: ast.Compare) -> None:
        for number, operator in enumerate(node.ops):
            ops = [*node.ops]
            ops[number] = COMPARISONS[type(operator)]()
            self._change(node, ast.Compare(node.left, ops, node.comparators))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        is_text = any(isinstance(side, ast.JoinedStr) for side in (node.left, node.right)) or any(
            isinstance(side, ast.Constant) and isinstance(side.value, str | bytes)
            for side in (node.left, node.right)
        )
        if (other := OPERATORS.get(type(node.op))) and not is_text:
            self._change(node, ast.BinOp(node.left, other(), node.right))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._change(node, ast.BoolOp(other, node.values))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._change(node, node.operand)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        match node.value:
            case bool():
                self._change(node, repr(not node.value))
            case int():
                self._change(node, repr(node.value + 1), repr(node.value - 1))
            case float():
                self._change(node, repr(node.value * 2))

    def visit_Call(self, node: ast.Call) -> None:
        match node.func:
            case ast.Name(id=name) if name in CALLS:
                self._change(node.func, CALLS[name])
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._change(node, ast.IfExp(node.test, node.orelse, node.body))
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not (
            isinstance(node.value, ast.Constant) and node.value.value is None
        ):
            self._change(node.value, "None")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" not in ast.unparse(node.test):
            self._change(node.test, f"not ({ast.unparse(node.test)})")
            self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Neither decorators nor annotations: what is declared there are types."""
        before = self._function, self._lines
        self._function = self._lines = lines_of_body(node)
        for part in (*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body):
            self.visit(part)
        self._function, self._lines = before

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in node.body:
            self.visit(part)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Python 3.11 does not say where in the line an f-string's expressions stand."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Which modules are mutated, and by which marker their tests are chosen."""

    is_mutated: Callable[[set[str]], bool]
    marker: str


PURE = Kind(lambda imported: not imported & REACHES_OUT, "not kafka and not spark")
SPARK = Kind(lambda imported: "pyspark" in imported, "not kafka")


def all_mutants(below: Path, kind: Kind) -> Iterator[Mutant]:
    """Of all modules of the kind at or below the path, in the order of the text."""
    for path in sorted((CHECKOUT / "kipctl").rglob("*.py")):
        module = path.relative_to(CHECKOUT)
        if below not in (module, *module.parents) or module.parts[1] in UNMUTATED_ROOMS:
            continue
        source = path.read_text(encoding="utf-8")
        if kind.is_mutated(_imports(source)):
            yield from mutants_of(module, source)


def mutants_of(module: Path, source: str) -> Iterator[Mutant]:
    places = _Places()
    places.visit(ast.parse(source))
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = source.splitlines()

    def offset(line: int, column: int) -> int:
        """`ast` counts columns in bytes of UTF-8."""
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    for node, text, run in places.changes:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = offset(node.lineno, node.col_offset)
        end = offset(node.end_lineno, node.end_col_offset)
        yield Mutant(module, node.lineno, start, end, text, source[start:end], run)


def first_lines(node: ast.stmt) -> range:
    """The lines of a statement, without those of the statements in it."""
    assert node.end_lineno is not None
    inner = [part for part in ast.walk(node) if isinstance(part, ast.stmt) and part is not node]
    end = min((part.lineno - 1 for part in inner), default=node.end_lineno)
    return range(node.lineno, max(node.lineno, end) + 1)


def lines_of_body(node: ast.FunctionDef | ast.AsyncFunctionDef) -> range:
    assert node.end_lineno is not None
    return range(node.body[0].lineno, node.end_lineno + 1)


def lines_of_functions(module: Path) -> list[int]:
    tree = ast.parse((CHECKOUT / module).read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]
    return [line for node in functions for line in lines_of_body(node)]


def _imports(source: str) -> set[str]:
    """The first parts of what it imports, wherever."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=imported):
                names |= {alias.name.split(".")[0] for alias in imported}
            case ast.ImportFrom(module=str(module)):
                names.add(module.split(".")[0])
    return names


def _short(text: str) -> str:
    return " ".join(text.split())[:100]
