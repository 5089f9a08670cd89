"""Which tests run which lines of kipctl/, and how long each test takes.

As a plugin of pytest (`-p lines_run`, this folder on PYTHONPATH) it writes that down (KIPCTL_LINES
is the folder), or runs tests that were chosen by it (KIPCTL_CHOSEN is a file with their ids), in
their order. What a fixture of a file or a session does counts for every test that asks for it, and
what a process of a test does, for the test.
"""

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import pytest
from coverage import Coverage, CoverageData

DATA = "lines"
"""Name of the files of coverage in the folder."""

IN_CHILDREN = """
import atexit, os
if test := os.environ.get("KIPCTL_TEST"):
    import lines_run
    measured = lines_run.measuring(os.environ["KIPCTL_LINES"], test)
    measured.start()
    atexit.register(lambda: (measured.stop(), measured.save()))
"""
"""What Python runs when it starts (`sitecustomize`)."""


@dataclass(frozen=True, slots=True)
class Test:
    """A test that was run: its time, whether it passed, what it shares with others (fixtures)."""

    seconds: float
    passed: bool
    fixtures: list[str]


class LinesRun:
    """What was written down in a folder."""

    def __init__(self, folder: Path) -> None:
        self._data = CoverageData(str(folder / DATA))
        self._data.read()
        self.tests: dict[str, Test] = {}
        self._sharing = defaultdict[str, set[str]](set)
        for path in folder.glob("tests-*.json"):
            for name, test in json.loads(path.read_text(encoding="utf-8")).items():
                self.tests[name] = Test(**test)
                for fixture in test["fixtures"]:
                    self._sharing[f"fixture {fixture}"].add(name)
        self.passed = {name for name, test in self.tests.items() if test.passed}
        self._by_line = cache(self._by_line_of)

    def by(self, module: Path, lines: Iterable[int]) -> tuple[set[str], bool]:
        """The tests that run any of a module's lines, and pass; whether one runs in no test."""
        by_line = self._by_line(module)
        who = {context for line in lines for context in by_line.get(line, ())}
        tests = set[str]().union(*(self._sharing.get(context, {context}) for context in who))
        return tests & self.passed, "" in who

    def _by_line_of(self, module: Path) -> dict[int, list[str]]:
        return self._data.contexts_by_lineno(str(module))


def measuring(folder: str, test: str | None = None) -> Coverage:
    """Measures kipctl/ of the working directory; with `test`, for it alone."""
    measured = Coverage(
        f"{folder}/{DATA}", data_suffix=True, source=["kipctl"], config_file=False,
        context=test, messages=False,
    )  # fmt: skip
    measured.set_option("run:relative_files", True)
    measured.set_option("run:disable_warnings", ["no-data-collected", "module-not-imported"])
    return measured


def combine(folder: Path) -> None:
    """What processes wrote becomes one file."""
    combined = Coverage(f"{folder}/{DATA}", config_file=False, messages=False)
    combined.combine([str(folder)])
    combined.save()


class Recording:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._measured = measuring(folder)
        self._measured.start()
        self._shared: set[str] = set()
        self._items: dict[str, pytest.Item] = {}
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()

    def _is_run(self, context: str) -> None:
        self._measured.switch_context(context)
        os.environ["KIPCTL_TEST"] = context

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._is_run(item.nodeid)
        begun = time.monotonic()
        result = yield
        self._items[item.nodeid] = item
        self._seconds[item.nodeid] = time.monotonic() - begun
        self._is_run("")
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef, request) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        self._shared.add(fixturedef.argname)
        before = os.environ["KIPCTL_TEST"]
        self._is_run(f"fixture {fixturedef.argname}")
        try:
            return (yield)
        finally:
            self._is_run(before)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not (report.passed):
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._measured.stop()
        self._measured.save()
        tests = {
            name: asdict(
                Test(
                    self._seconds[name],
                    name not in self._failed,
                    sorted(self._shared & set(getattr(item, "fixturenames", ()))),
                )
            )
            for name, item in self._items.items()
        }
        path = Path(self._folder, f"tests-{os.getpid()}.json")
        path.write_text(json.dumps(tests), encoding="utf-8")


class Choice:
    def __init__(self, names: list[str]) -> None:
        self._place = {name: place for place, name in enumerate(names)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._place),
            key=lambda item: self._place[item.nodeid],
        )


def pytest_configure(config: pytest.Config) -> None:
    if folder := os.environ.get("KIPCTL_LINES"):
        config.pluginmanager.register(Recording(folder))
    if chosen := os.environ.get("KIPCTL_CHOSEN"):
        names = json.loads(Path(chosen).read_text(encoding="utf-8"))
        config.pluginmanager.register(Choice(names))
