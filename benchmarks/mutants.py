"""How many small faults the tests notice: mutants of pure modules, each against tests that run it.

    python benchmarks/mutants.py [--mutants 300] [--seed 1] [--in kipctl/probe] [--tests TREE]

A mutant is one change of one expression: a comparison, an operator, a bound, a constant, a returned
value. They are drawn from all such places of the modules that import nothing with which to reach
out of the process; the same seed and the same `kipctl/` give the same mutants. Each is put into a
copy of this checkout, and meets the tests that need no cluster and no Spark and run its line: those
of the file named after the module first, the quickest first, until one fails; of its folder all, of
others the quickest 200. Which tests run a line is seen beforehand, in one run of them all
(`lines_run.py`); `--lines FOLDER` keeps that for the next time. `--below tests/changes` takes only
tests of such folders. `--tests` takes `tests/` from another checkout, so that two states of the
tests meet the same mutants. With `--spark` they are drawn from the modules that import PySpark, and
meet the tests that need it.

What runs when a module is imported (constants, defaults of fields) meets the tests that run any
function of the module, and all of its folder.

Printed are the share that was caught, by folder, and every mutant that lived: a test is missing
there, or the change makes no difference (`<` for `<=` where both sides are never equal).
"""

import argparse
import json
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
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

from lines_run import IN_CHILDREN, LinesRun, combine
from mutations import CHECKOUT, PURE, SPARK, Mutant, all_mutants, lines_of_functions

COPIED = ("kipctl", "tests", "benchmarks", "docs", "man", "completions", "pyproject.toml")
ALSO_COPIED = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile", ".ci", "constraints.txt")

MOST_ELSEWHERE = 200
"""Thousands of tests may run a line: of those of other folders a mutant meets the quickest."""

MEMORY = 12 << 30
"""Of address space: a mutant that fills memory for ever ends."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant: the first test that failed, or None when it lived."""

    mutant: Mutant
    caught_by: str | None
    tests: int
    took_s: float


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--in", dest="only", default="kipctl", help="modules below this folder")
    parser.add_argument("--spark", action="store_true", help="modules that import PySpark")
    parser.add_argument("--tests", type=Path, default=CHECKOUT, help="the checkout with the tests")
    parser.add_argument("--below", nargs="+", default=["tests"], help="tests below these folders")
    parser.add_argument("--lines", type=Path, help="keeps which tests run which lines, or has it")
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
        lines = (asked.lines or Path(folder, "lines")).absolute()
        if not lines.exists():
            record(asked.below, lines, copies, kind.marker)
        chooser = Chooser(LinesRun(lines))
        bench = Bench(copies, kind.marker, asked.timeout, chooser.lines)
        if failing := [name for name, test in chooser.lines.tests.items() if not test.passed]:
            print(f"Left out, as they fail without a mutant: {', '.join(failing)}")
        with ThreadPoolExecutor(asked.workers) as pool:
            chosen = list(map(chooser.tests_for, drawn))
            outcomes = []
            for outcome in pool.map(bench.tried, drawn, chosen):
                outcomes.append(outcome)
                result = outcome.caught_by or "LIVED"
                print(
                    f"{outcome.took_s:6.1f} s {outcome.tests:5} {result:60.60}  {outcome.mutant}",
                    flush=True,
                )
    _report(outcomes)


class Chooser:
    """Which tests a mutant has to meet, by which run its lines."""

    def __init__(self, lines: LinesRun) -> None:
        self.lines = lines

    def tests_for(self, mutant: Mutant) -> tuple[list[str], list[str]]:
        """Those of the files named after its module, and the others; each the quickest first."""
        module = mutant.module
        of_folder = self._of_folder(module.parent.relative_to("kipctl"))
        tests, at_import = self.lines.by(module, mutant.lines or ())
        if at_import or mutant.lines is None:
            tests |= self.lines.by(module, lines_of_functions(module))[0] | of_folder
        quickest = sorted(tests, key=lambda test: (self.lines.tests[test].seconds, test))
        left_out = {*[test for test in quickest if test not in of_folder][MOST_ELSEWHERE:]}
        quickest = [test for test in quickest if test not in left_out]
        named = [test for test in quickest if module.stem in test.split("::")[0].rpartition("/")[2]]
        of_others = dict.fromkeys(quickest)
        for test in named:
            del of_others[test]
        return named, [*of_others]

    def _of_folder(self, folder: Path) -> set[str]:
        """The tests in the folder that mirrors the module's, or the nearest above that there is."""
        begins = f"tests/{folder}/" if folder.name else "tests/test_"
        tests = {test for test in self.lines.passed if test.startswith(begins)}
        return tests or self._of_folder(folder.parent)


def record(tests: list[str], lines: Path, copies: "Queue[Path]", marker: str) -> None:
    """Run all tests below the folders on what is not mutated; see which lines each runs."""
    lines.mkdir(parents=True)
    (lines / "sitecustomize.py").write_text(IN_CHILDREN, encoding="utf-8")
    workers = ("-n", str(copies.qsize())) if copies.qsize() > 1 else ()
    copy = copies.get()
    environment = {"KIPCTL_LINES": str(lines), "PYTHONPATH": str(lines)}
    with pytest_in(copy, environment, {}, "-m", marker, *workers, *tests) as process:
        print(process.communicate()[0].splitlines()[-1], flush=True)
    copies.put(copy)
    combine(lines)


@dataclass(frozen=True, slots=True)
class Bench:
    """Runs tests in copies of the checkout, one mutant at a time in each."""

    copies: "Queue[Path]"
    marker: str
    timeout_s: float
    lines: LinesRun

    def tried(self, mutant: Mutant, tests: tuple[list[str], list[str]]) -> Outcome:
        """Run the tests on the mutant until one fails."""
        begun = time.monotonic()
        with self._copy() as copy:
            path = copy / mutant.module
            source = path.read_text(encoding="utf-8")
            _write_module(path, mutant.applied(source))
            try:
                runs = (self._first_failure(copy, names) for names in filter(None, tests))
                caught_by = next(filter(None, runs), None)
            finally:
                _write_module(path, source)
        return Outcome(mutant, caught_by, sum(map(len, tests)), time.monotonic() - begun)

    @contextmanager
    def _copy(self) -> Iterator[Path]:
        copy = self.copies.get()
        try:
            yield copy
        finally:
            self.copies.put(copy)

    def _first_failure(self, copy: Path, names: list[str]) -> str | None:
        chosen = copy.with_suffix(".chosen")
        chosen.write_text(json.dumps(names), encoding="utf-8")
        files = dict.fromkeys(name.split("::")[0] for name in names)
        # Of processor time: how much else goes on here says nothing of the mutant.
        least_s = 30 + 10 * round(sum(self.lines.tests[name].seconds for name in names))
        limits = {resource.RLIMIT_AS: MEMORY, resource.RLIMIT_CPU: least_s}
        environment = {"KIPCTL_CHOSEN": str(chosen)}
        with pytest_in(copy, environment, limits, "-m", self.marker, "-x", *files) as process:
            try:
                printed, _ = process.communicate(timeout=self.timeout_s)
            except subprocess.TimeoutExpired:
                return "(did not end)"
        if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return "(did not end)"
        if process.returncode in (0, 5):  # all passed, or none of them is here
            return None
        failed = [line for line in printed.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return failed[0].split(" - ")[0].split(" ")[1] if failed else printed[-300:]


@contextmanager
def pytest_in(
    copy: Path, environment: dict[str, str], limits: dict[int, int], *arguments: str
) -> Iterator["subprocess.Popen[str]"]:
    """Pytest in a copy of the checkout; whatever it has started is ended with it."""
    paths = (copy, copy / "benchmarks", environment.get("PYTHONPATH", copy))
    of_copy = {"PYTHONPATH": os.pathsep.join(map(str, paths)), "KIPCTL_SEED": "1"}

    def limit() -> None:
        for kind, most in limits.items():
            resource.setrlimit(kind, (most, most))

    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "lines_run"),
            *("-p", "no:cacheprovider", "-o", "addopts=", *arguments),
        ],
        cwd=copy,
        env=os.environ | environment | of_copy,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=limit,
    )
    try:
        yield process
    finally:
        _end_group(process)


def _write_module(path: Path, source: str) -> None:
    """Python takes a compiled module for the source when second and size are the same."""
    path.write_text(source, encoding="utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


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


if __name__ == "__main__":
    main()
