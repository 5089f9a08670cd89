"""Gives tests to processes so that both cores are busy until the end: the longest first, and tests
that use the same lab, the same JVM or the same analysis to the same process.

How long each file took is in `durations.json`, written anew by `make durations`: fast ones of a
second at most stay out. A file that takes longer than a unit should is given away function by
function, unless they share what a fixture of the file made.
"""

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

TESTS = Path(__file__).parent
DURATIONS = TESTS / "durations.json"
SLOW_S = 0.3
"""Fast functions with a case that takes so long have durations too: `--brief` leaves them out."""
LONG_S = 20.0
UNKNOWN_FAST_S, UNKNOWN_S = 1.0, 20.0
"""For files that came after the durations were written: most that start brokers or Spark take long,
and one that is begun last keeps the whole waiting."""


class Kind(StrEnum):
    """What a file's tests need most of all."""

    FRAMES = "frames"
    """Spark's session in the process itself."""
    COMMANDS = "commands"
    """kipctl's commands on Spark, in a process of theirs, or a JVM for one test."""
    SPARK_ON_LAB = "spark on a lab"
    """Spark, and the session's labs: these idle beside no others of Spark."""
    LAB = "lab"
    """The session's lab, which they leave as it was."""
    STRUCK = "struck"
    """The session's lab whose brokers they stop, kill or pause."""
    OWN = "own"
    """Labs that a file or a test has for itself."""
    SECURED = "secured"
    """The session's secured lab."""
    FAST = "fast"


# Each process takes from the first of these kinds that has any left; a lab that files share ends
# with their kind. Two of them start Spark, as the whole waited for one that had all of its tests to
# itself: one for frames and one for commands, as each is a JVM that has to become warm. The secured
# lab is started late by others, as it costs more than it brings.
REST = (Kind.FAST, Kind.OWN, Kind.LAB, Kind.STRUCK, Kind.SECURED)
ROLES = (
    (Kind.COMMANDS, Kind.SPARK_ON_LAB, Kind.FRAMES, *REST),
    (Kind.STRUCK, Kind.OWN, Kind.LAB, Kind.FAST, Kind.SECURED),
    (Kind.SECURED, Kind.LAB, Kind.OWN, Kind.STRUCK, Kind.FAST),
    (Kind.FAST, Kind.FRAMES, Kind.SPARK_ON_LAB, Kind.COMMANDS, *REST),
)


# What a process makes once for several files, by what they name it: they are the unit of the first.
TOGETHER = {
    r"\b(spark_master|cluster_of_spark)\b": "tests/pipeline/test_on_spark_cluster.py",
    r"\banalysed_log\b": "tests/pipeline/test_request_log_lines.py",
    r"\bfrom own_source import\b": "tests/test_commands_named.py",
}


@cache
def text_of(file: str) -> str:
    return (TESTS.parent / file).read_text(encoding="utf-8")


@cache
def kind_of(file: str) -> Kind:
    """By the markers and fixtures that the file names."""
    text = text_of(file)
    if "mark.kafka" in text and re.search(r"\bsecured_lab\b", text):
        return Kind.SECURED
    if "mark.spark" in text:
        if re.search(r"\b(struck_lab|lab: Lab)\b", text) and "Lab.up(" not in text:
            return Kind.SPARK_ON_LAB
        return Kind.FRAMES if "spark: SparkSession" in text else Kind.COMMANDS
    if "mark.kafka" not in text:
        return Kind.FAST
    if "struck_lab" in text:
        return Kind.STRUCK
    return Kind.OWN if "make_lab" in text or "Lab.up(" in text else Kind.LAB


@cache
def shares(file: str) -> str | None:
    """The unit that all tests of the file belong to, if they share what is made once."""
    text = text_of(file)
    for named, first in TOGETHER.items():
        if re.search(named, text):
            return first
    # A second process, or the same one later, would make a module's fixtures again.
    return file if 'scope="module"' in text else None


class Scheduling(LoadScopeScheduling):
    """A unit is a file, a function of a long one, or several files that share what they make."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        self._durations: dict[str, float] = json.loads(DURATIONS.read_text(encoding="utf-8"))
        self._indices: dict[str, int] = {}
        self._roles: dict[Any, Sequence[Kind]] = {}

    def _split_scope(self, nodeid: str) -> str:
        file, _, rest = nodeid.partition("::")
        if unit := shares(file):
            return unit
        is_long = self._durations.get(file, 0) > LONG_S
        return f"{file}::{rest.partition('[')[0]}" if is_long else file

    def _assign_work_unit(self, node: Any) -> None:
        if not self._indices:
            self._indices = {nodeid: at for at, nodeid in enumerate(self.collection)}
            self._roles = {node: ROLES[at % len(ROLES)] for at, node in enumerate(self.nodes)}
        scope = self._next_for(self._roles.get(node, ROLES[0]))  # one that crashed is replaced
        if scope is None:
            node.shutdown()
            return
        unit = self.workqueue.pop(scope)
        self.assigned_work[node][scope] = unit
        waiting = [self._indices[nodeid] for nodeid, is_done in unit.items() if not is_done]
        node.send_runtest_some(waiting)

    def _next_for(self, role: Sequence[Kind]) -> str | None:
        waiting: dict[Kind, list[str]] = defaultdict(list)
        for scope in self.workqueue:
            waiting[kind_of(scope.partition("::")[0])].append(scope)
        for kind in role:
            if waiting[kind]:
                return max(waiting[kind], key=self._duration_of)
        return None

    def _duration_of(self, scope: str) -> float:
        is_fast = kind_of(scope.partition("::")[0]) is Kind.FAST
        return self._durations.get(scope, UNKNOWN_FAST_S if is_fast else UNKNOWN_S)


class Stopwatch:
    """Adds up what files and functions take, and writes it down at the end."""

    def __init__(self) -> None:
        self._took: dict[str, float] = defaultdict(float)
        self._cases: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file, _, rest = report.nodeid.partition("::")
        for scope in (file, f"{file}::{rest.partition('[')[0]}"):
            self._took[scope] += report.duration
        self._cases[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        slow = {case.partition("[")[0] for case, took in self._cases.items() if took >= SLOW_S}

        def is_kept(scope: str, took: float) -> bool:
            file, _, function = scope.partition("::")
            if kind_of(file) is Kind.FAST:
                return scope in slow if function else took > UNKNOWN_FAST_S
            return not function or self._took[file] > LONG_S

        kept = {
            scope: round(took, 1)
            for scope, took in sorted(self._took.items())
            if is_kept(scope, took)
        }
        DURATIONS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-durations", action="store_true", help=f"write {DURATIONS.name} anew")
    parser.addoption("--brief", action="store_true", help="without slow functions")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.write_durations and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Stopwatch())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.brief:
        durations = json.loads(DURATIONS.read_text(encoding="utf-8"))
        slow = {item for item in items if item.nodeid.partition("[")[0] in durations}
        config.hook.pytest_deselected(items=list(slow))
        items[:] = [item for item in items if item not in slow]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    return Scheduling(config, log)
