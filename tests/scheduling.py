"""Gives tests to processes so that both cores are busy until the end: the longest first, and tests
that use the same lab, the same JVM or the same analysis to the same process.

How long each file took is in `durations.json`, written anew by `make durations`. A file that takes
longer than a unit should is given away function by function, unless they share what a fixture of
the file made.
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
LONG_S = 20.0
UNKNOWN_S = 1.0


class Kind(StrEnum):
    """What a file's tests need most of all."""

    SPARK = "spark"
    LAB = "lab"
    """The session's lab, which they leave as it was."""
    STRUCK = "struck"
    """Labs whose brokers they stop, kill or pause."""
    SECURED = "secured"
    """The session's secured lab."""
    FAST = "fast"


# Each process takes from the first of these kinds that has any left. Two of them start Spark, as
# the whole waited for one that had all of its tests to itself; the secured lab is started late by
# others, as it costs more than it brings.
ROLES = (
    (Kind.SPARK, Kind.FAST, Kind.LAB, Kind.STRUCK, Kind.SECURED),
    (Kind.STRUCK, Kind.LAB, Kind.FAST, Kind.SECURED),
    (Kind.SECURED, Kind.LAB, Kind.STRUCK, Kind.FAST),
    (Kind.FAST, Kind.SPARK, Kind.LAB, Kind.STRUCK, Kind.SECURED),
)


# What a process makes once for several files, by what they name it: they are the unit of the first.
TOGETHER = {
    r"\b(spark_master|cluster_of_spark)\b": "tests/pipeline/test_on_spark_cluster.py",
    r"\banalysed_log\b": "tests/pipeline/test_request_log_lines.py",
}


@cache
def text_of(file: str) -> str:
    return (TESTS.parent / file).read_text(encoding="utf-8")


def kind_of(file: str) -> Kind:
    """By the markers and fixtures that the file names."""
    text = text_of(file)
    if "mark.kafka" in text and re.search(r"\bsecured_lab\b", text):
        return Kind.SECURED
    if "mark.spark" in text:
        return Kind.SPARK
    if "mark.kafka" not in text:
        return Kind.FAST
    return Kind.STRUCK if re.search(r"\b(struck_lab|make_lab)\b", text) else Kind.LAB


class Scheduling(LoadScopeScheduling):
    """A unit is a file, a function of a long one, or several files that share what they make."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        self._durations: dict[str, float] = json.loads(DURATIONS.read_text(encoding="utf-8"))
        self._indices: dict[str, int] = {}
        self._roles: dict[Any, Sequence[Kind]] = {}

    def _split_scope(self, nodeid: str) -> str:
        file, _, rest = nodeid.partition("::")
        for named, first in TOGETHER.items():
            if re.search(named, text_of(file)):
                return first
        # A second process, or the same one later, would make a module's fixtures again.
        is_shared = 'scope="module"' in text_of(file)
        if self._durations.get(file, 0) > LONG_S and not is_shared:
            return f"{file}::{rest.partition('[')[0]}"
        return file

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
        return self._durations.get(scope, UNKNOWN_S)


class Stopwatch:
    """Adds up what files and functions take, and writes it down at the end."""

    def __init__(self) -> None:
        self._took: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file, _, rest = report.nodeid.partition("::")
        for scope in (file, f"{file}::{rest.partition('[')[0]}"):
            self._took[scope] += report.duration

    def pytest_sessionfinish(self) -> None:
        long = {file for file, took in self._took.items() if took > LONG_S}
        kept = {
            scope: round(took, 1)
            for scope, took in sorted(self._took.items())
            if "::" not in scope or scope.partition("::")[0] in long
        }
        DURATIONS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-durations", action="store_true", help=f"write {DURATIONS.name} anew")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.write_durations and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Stopwatch())


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    return Scheduling(config, log)
