"""What a computation asks of Spark: how many plans and jobs, and where their time goes."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

_LENGTH = "spark.sql.maxPlanStringLength"
"""Plans are kept as text, and counted in: they are needed whole."""
PHASES = ("analysis", "optimization", "planning")


@dataclass(slots=True)
class Plans:
    """What was asked of Spark in a block; the times are milliseconds, and sums over threads.

    `frames` are DataFrames made (each is analysed), `executions` those that were computed, `jobs`
    what Spark made of them, `exchanges` the shuffles and broadcasts in their plans. `rest_ms` is
    what is left of `wall_ms`: execution, and calls of the JVM. `cpu_ms` is of the JVM.
    """

    frames: int = 0
    executions: int = 0
    jobs: int = 0
    exchanges: int = 0
    wall_ms: float = 0
    cpu_ms: float = 0
    phases_ms: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PHASES, 0))
    plans: list[str] = field(default_factory=list)

    @property
    def rest_ms(self) -> float:
        return self.wall_ms - sum(self.phases_ms.values())


@contextmanager
def plans_of(spark: SparkSession) -> Iterator[Plans]:
    """Count what is asked of this session while inside; it is told when the block is left."""
    counts = Plans()
    made: list[Any] = []
    original = ClassicDataFrame.__init__

    def init(self: DataFrame, jdf: Any, session: Any) -> None:
        made.append(jdf)
        original(self, jdf, session)

    jobs, executions = jobs_so_far(spark), _executions(spark)
    pid = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    cpu_ms = _cpu_ms(pid)
    begun = time.perf_counter()
    length = spark.conf.get(_LENGTH)
    spark.conf.set(_LENGTH, 1_000_000)
    ClassicDataFrame.__init__ = init  # type: ignore[method-assign,assignment]
    try:
        yield counts
    finally:
        ClassicDataFrame.__init__ = original  # type: ignore[method-assign]
        spark.conf.set(_LENGTH, str(length))
    counts.wall_ms = 1000 * (time.perf_counter() - begun)
    counts.cpu_ms = _cpu_ms(pid) - cpu_ms
    counts.frames = len(made)
    counts.jobs = jobs_so_far(spark) - jobs
    for jdf in made:
        spent = jdf.queryExecution().tracker().phases()
        for phase in PHASES:
            if spent.contains(phase):
                counts.phases_ms[phase] += spent.apply(phase).durationMs()
    store = spark._jsparkSession.sharedState().statusStore()
    counts.executions = _executions(spark) - executions
    if counts.executions:
        listed = store.executionsList(executions, counts.executions)
        for position in range(listed.size()):
            counts.plans.append(listed.apply(position).physicalPlanDescription())
    counts.exchanges = sum(map(exchanges, counts.plans))


def jobs_so_far(spark: SparkSession) -> int:
    """How many jobs the session's scheduler was given since it began."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def exchanges(plan: str) -> int:
    """The shuffles and broadcasts of a plan, each once."""
    return sum("Exchange" in line and "Reused" not in line for line in tree(plan).splitlines())


def tree(plan: str) -> str:
    """The tree of a plan as Spark prints it: as it was executed, not as it began."""
    return plan.partition("== Initial Plan ==")[0].partition("\n\n")[0]


def _executions(spark: SparkSession) -> int:
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    return int(spark._jsparkSession.sharedState().statusStore().executionsCount())


def _cpu_ms(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
