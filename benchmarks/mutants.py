"""How many small faults the tests notice: mutants of pure modules, each against its folder's tests.

    python benchmarks/mutants.py [--mutants 300] [--seed 1] [--in kipctl/probe] [--tests TREE]

A mutant is one change of one expression: a comparison, an operator, a bound, a constant, a returned
value. They are drawn from all such places of the modules that import nothing with which to reach
out of the process; the same seed and the same `kipctl/` give the same mutants. Each is put into a
copy of this checkout, and the tests of its folder that need no cluster and no Spark run until the
first that fails: those of the file named after the module first. `--tests` takes `tests/` from
another checkout, so that two states of the tests meet the same mutants. With `--spark` they are
drawn from the modules that import PySpark, and meet the tests that need it.

Printed are the share that was caught, by folder, and every mutant that lived: a test is missing
there, or the change makes no difference (`<` for `<=` where both sides are never equal).
"""

import argparse
import ast
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

CHECKOUT = Path(__file__).parents[1]
COPIED = ("kipctl", "tests", "benchmarks", "docs", "man", "completions", "pyproject.toml")
ALSO_COPIED = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile", ".ci", "constraints.txt")

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
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}

MEMORY = 12 << 30
"""Of address space: a mutant that fills memory for ever ends."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """The text from `start` to `end` (offsets in characters) of a module becomes `text`."""

    module: Path
    line: int
    start: int
    end: int
    text: str
    before: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {_short(self.before)}  ->  {_short(self.text)}"

    def applied(self, source: str) -> str:
        return source[: self.start] + self.text + source[self.end :]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant: the first test that failed, or None when it lived."""

    mutant: Mutant
    caught_by: str | None
    took_s: float


class _Places(ast.NodeVisitor):
    """Collects, for each place of a module, the expressions that may stand there instead."""

    def __init__(self) -> None:
        self.changes: list[tuple[ast.expr, str]] = []

    def _change(self, node: ast.expr, *changed: ast.expr | str) -> None:
        for other in changed:
            text = other if isinstance(other, str) else ast.unparse(other)
            self.changes.append((node, f"({text})"))

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
        for part in (*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body):
            self.visit(part)

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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--in", dest="only", default="kipctl", help="modules below this folder")
    parser.add_argument("--spark", action="store_true", help="modules that import PySpark")
    parser.add_argument("--tests", type=Path, default=CHECKOUT, help="the checkout with the tests")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for a mutant's tests")
    asked = parser.parse_args()

    kind = SPARK if asked.spark else PURE
    places = list(all_mutants(Path(asked.only), kind))
    drawn = random.Random(asked.seed).sample(places, min(asked.mutants, len(places)))
    print(f"{len(drawn)} of {len(places)} mutants, seed {asked.seed}.", flush=True)
    with tempfile.TemporaryDirectory(prefix="kipctl-mutants-") as folder:
        copies: Queue[Path] = Queue()
        for number in range(asked.workers):
            copies.put(_copy(asked.tests, Path(folder) / str(number)))
        bench = Bench(copies, kind.marker, asked.timeout)
        with ThreadPoolExecutor(asked.workers) as pool:
            folders = sorted({mutant.module.parent for mutant in drawn})
            for broken in filter(None, pool.map(bench.unmutated, folders)):
                raise SystemExit(f"It fails without a mutant: {broken}")
            outcomes = []
            for outcome in pool.map(bench.tried, drawn):
                outcomes.append(outcome)
                result = outcome.caught_by or "LIVED"
                print(f"{outcome.took_s:6.1f} s  {result:60.60}  {outcome.mutant}", flush=True)
    _report(outcomes)


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

    for node, text in places.changes:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = offset(node.lineno, node.col_offset)
        end = offset(node.end_lineno, node.end_col_offset)
        yield Mutant(module, node.lineno, start, end, text, source[start:end])


@dataclass(frozen=True, slots=True)
class Bench:
    """Runs the tests of a folder in copies of the checkout, one at a time in each."""

    copies: "Queue[Path]"
    marker: str
    timeout_s: float

    def tried(self, mutant: Mutant) -> Outcome:
        """Run the tests of its folder on the mutant until one fails."""
        begun = time.monotonic()
        with self._copy() as copy:
            path = copy / mutant.module
            source = path.read_text(encoding="utf-8")
            path.write_text(mutant.applied(source), encoding="utf-8")
            try:
                caught_by = self._first_failure(copy, mutant.module)
            finally:
                path.write_text(source, encoding="utf-8")
        return Outcome(mutant, caught_by, time.monotonic() - begun)

    def unmutated(self, folder: Path) -> str | None:
        """A test of the folder that fails by itself: it would be taken for one that catches."""
        with self._copy() as copy:
            return self._first_failure(copy, folder / "any.py")

    @contextmanager
    def _copy(self) -> Iterator[Path]:
        copy = self.copies.get()
        try:
            yield copy
        finally:
            self.copies.put(copy)

    def _first_failure(self, copy: Path, module: Path) -> str | None:
        tests = tests_of(module, copy)
        named = [path for path in tests if module.stem in Path(path).stem]
        others = [path for path in tests if path not in named]
        for paths in filter(None, (named, others)):
            if failed := self._run(copy, paths):
                return failed
        return None

    def _run(self, copy: Path, tests: list[str]) -> str | None:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "pytest", "-x", "-q", "--no-header"),
                *("-p", "no:cacheprovider", "-o", "addopts=", "-m", self.marker, *tests),
            ],
            cwd=copy,
            env=os.environ | {"PYTHONPATH": str(copy)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
        )
        try:
            printed, _ = process.communicate(timeout=self.timeout_s)
        except subprocess.TimeoutExpired:
            return "(did not end)"
        finally:
            _end_group(process)
        if process.returncode in (0, 5):  # all passed, or none is of these markers
            return None
        failed = [line for line in printed.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return failed[0].split(" - ")[0].split(" ")[1] if failed else printed[-300:]


def tests_of(module: Path, copy: Path) -> list[str]:
    """The tests in the folder that mirrors the module's own, or the nearest above that there is."""
    folder = copy / "tests" / module.parent.relative_to("kipctl")
    while not folder.is_dir():
        folder = folder.parent
    files = folder.glob("test_*.py") if folder == copy / "tests" else folder.rglob("test_*.py")
    return sorted(str(path.relative_to(copy)) for path in files)


def _end_group(process: "subprocess.Popen[str]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _copy(tests: Path, copy: Path) -> Path:
    """This checkout, with the tests of another."""
    copy.mkdir()
    for name in (*COPIED, *ALSO_COPIED):
        source = (tests if name in ("tests", "pyproject.toml") else CHECKOUT) / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, copy / name)
    return copy


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


def _report(outcomes: list[Outcome]) -> None:
    folders = Counter(str(outcome.mutant.module.parent) for outcome in outcomes)
    caught = Counter(str(o.mutant.module.parent) for o in outcomes if o.caught_by is not None)
    print()
    for folder, count in sorted(folders.items()):
        print(f"{folder:40} {caught[folder]:4} of {count:4} caught")
    total = sum(caught.values())
    print(f"{'All':40} {total:4} of {len(outcomes):4} caught ({total / len(outcomes):.1%})")
    print("\nLived:")
    for outcome in outcomes:
        if outcome.caught_by is None:
            print(f"  {outcome.mutant}")


def _short(text: str) -> str:
    return " ".join(text.split())[:100]


if __name__ == "__main__":
    main()
