"""Small analyses, as commands beside a bare session of the same Spark, and what they ask of it.

    python benchmarks/analyze.py [--rounds 5] [--warm] [--tables]

What is run, each a process of its own, with its default settings:

- *bare session*: PySpark as it comes: start a local session, count the lines of a small file, stop;
- *analyze, plain run*: `kipctl analyze` of 20,000 records without incidents;
- *analyze, all tables*: of 20,000 records that were written and read while leaders moved;
- *compare 3 v 3*: `kipctl runs compare` of three such runs with three others;
- *analyze request-log*: `kipctl analyze request-log` of a sample of a request log.

Rounds are interleaved: in each, everybody has its turn; the first does not count, so the archive of
Spark's classes is there. Ratios are of seconds, and of the CPU seconds of all processes, taken
round by round against that round's bare session. `--warm` first starts `kipctl spark start`, which
the commands then use, and ends it.

`--tables` shows, in one session, what each table asks of Spark: DataFrames made (each is analysed),
executions and jobs, exchanges, and where the milliseconds go: Spark's own account of analysis,
optimisation and planning, and what is left. Each is made twice; the second time counts.
"""

import argparse
import contextlib
import ctypes
import gzip
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.plans import PHASES, Plans, plans_of
from benchmarks.sample_runs import experiment_run, plain_run
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Cell, Column, Report, Table

BARE = "bare session"
_COUNT = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[*]").getOrCreate()
spark.read.text(sys.argv[1]).count()
spark.stop()
"""
_PR_SET_CHILD_SUBREAPER = 36
_SAMPLE = Path(__file__).parent / "data" / "request.log.gz"


@dataclass(frozen=True, slots=True)
class Turn:
    """One command's turn in a round; the seconds by the clock, and of CPU."""

    name: str
    round: int
    seconds: float
    cpu_seconds: float


def made(folder: Path) -> dict[str, list[str]]:
    """Make what is analysed; returns the words of each command by its name."""
    plain_run(folder / "plain")
    experiment_run(folder / "experiment")
    sides = [[experiment_run(folder / f"{side}{n}", seed=n) for n in range(3)] for side in "ab"]
    log = folder / "request.log"
    log.write_bytes(gzip.decompress(_SAMPLE.read_bytes()))
    small = folder / "small.txt"
    small.write_text("a line\n" * 100)
    kipctl = [sys.executable, "-m", "kipctl"]
    a, b = (",".join(str(run.folder) for run in side) for side in sides)
    return {
        BARE: [sys.executable, "-c", _COUNT, str(small)],
        "analyze, plain run": [*kipctl, "analyze", str(folder / "plain")],
        "analyze, all tables": [*kipctl, "analyze", str(folder / "experiment")],
        "compare 3 v 3": [*kipctl, "runs", "compare", a, b],
        "analyze request-log": [*kipctl, "analyze", "request-log", str(log)],
    }


def adopt_orphans() -> None:
    """Be the parent of what a command leaves behind: of a JVM that it does not wait for."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def await_orphans() -> None:
    """Only what was waited for counts in `os.times`."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def timed(name: str, number: int, words: Sequence[str], environment: dict[str, str]) -> Turn:
    """Run the command; ends the program when it fails."""
    before = os.times()
    begun = time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    seconds = time.monotonic() - begun
    await_orphans()
    after = os.times()
    if done.returncode:
        raise SystemExit(f"{name} failed: {done.stderr}")
    cpu = after.children_user + after.children_system
    return Turn(name, number, seconds, cpu - before.children_user - before.children_system)


def rounds(commands: dict[str, list[str]], count: int, state: Path) -> Iterator[Turn]:
    environment = os.environ | {"XDG_STATE_HOME": str(state)}
    for number in range(count + 1):
        for name, words in commands.items():
            turn = timed(name, number, words, environment)
            sys.stderr.write(f"round {number}: {name}: {turn.seconds:.1f} s\n")
            if number:
                yield turn


COLUMNS = (
    "command",
    Column("s", 2),
    Column("of bare", 2),
    Column("least", 2),
    Column("greatest", 2),
    Column("CPU s", 2),
    Column("of bare's", 2),
    Column("least of CPU", 2),
    Column("greatest of CPU", 2),
)


def ratios(turns: list[Turn]) -> list[tuple[Cell, ...]]:
    bare = {turn.round: turn for turn in turns if turn.name == BARE}
    rows: list[tuple[Cell, ...]] = []
    for name in dict.fromkeys(turn.name for turn in turns):
        own = [turn for turn in turns if turn.name == name]
        cells: list[Cell] = [name]
        for measure in ("seconds", "cpu_seconds"):
            values = [getattr(turn, measure) for turn in own]
            of_bare = [getattr(turn, measure) / getattr(bare[turn.round], measure) for turn in own]
            spread = (statistics.median(of_bare), min(of_bare), max(of_bare))
            cells += [statistics.median(values), *spread]
        rows.append(tuple(cells))
    return rows


PLAN_COLUMNS = (
    "of",
    "table",
    *(Column(name, right=True) for name in ("frames", "executions", "jobs", "exchanges")),
    *(Column(f"{phase} ms", 0) for phase in PHASES),
    Column("rest ms", 0),
    Column("CPU ms", 0),
)


def plan_rows(folder: Path) -> Iterator[tuple[Cell, ...]]:
    """What is asked of Spark, table by table and command by command."""
    from kipctl.pipeline.analysis import Question, analyse_runs, makes
    from kipctl.pipeline.compare import compare
    from kipctl.pipeline.inputs import open_runs
    from kipctl.pipeline.request_log import analyse, read_request_log
    from kipctl.pipeline.session import spark_session
    from kipctl.pipeline.table import Source

    with spark_session(is_light=True) as spark:
        for name in ("plain", "experiment"):
            for _ in range(2):
                whole: dict[str, Plans] = {}
                with plans_of(spark) as whole["whole command"]:
                    analyse_runs(spark, [str(folder / name)])
                source = Source(open_runs(spark, [str(folder / name)]))
                for table, make in makes(source, Question()).items():
                    with plans_of(spark) as whole[table]:
                        make().collect()
            yield from (plan_row(name, *each) for each in whole.items())
        for _ in range(2):
            with plans_of(spark) as asked:
                sides = ([str(folder / f"{side}{n}") for n in range(3)] for side in "ab")
                compare(*(open_runs(spark, paths) for paths in sides))
        yield plan_row("compare 3 v 3", "whole command", asked)
        for _ in range(2):
            with plans_of(spark) as asked:
                analyse(read_request_log(spark, [str(folder / "request.log")]))
        yield plan_row("request log", "whole command", asked)


def plan_row(command: str, table: str, asked: Plans) -> tuple[Cell, ...]:
    counts = (asked.frames, asked.executions, asked.jobs, asked.exchanges)
    phases = (asked.phases_ms[phase] for phase in PHASES)
    return (command, table, *counts, *phases, asked.rest_ms, asked.cpu_ms)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--warm", action="store_true")
    options.add_argument("--tables", action="store_true")
    options.add_argument("--output", type=OutputFormat, default=OutputFormat.AUTO)
    chosen = options.parse_args()
    turns: list[Turn] = []
    if not chosen.warm:  # the JVM that is kept warm is not to be waited for
        adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="kipctl-bench-") as scratch:
        folder = Path(scratch)
        commands = made(folder)
        if chosen.tables:
            rows = tuple(plan_rows(folder))
            table = Table("What is asked of Spark", PLAN_COLUMNS, rows)
        else:
            warm = [sys.executable, "-m", "kipctl", "spark"]
            environment = os.environ | {"XDG_STATE_HOME": str(folder / "state")}
            if chosen.warm:
                subprocess.run([*warm, "start"], check=True, env=environment)
            try:
                turns = list(rounds(commands, chosen.rounds, folder / "state"))
            finally:
                if chosen.warm:
                    subprocess.run([*warm, "stop"], check=True, env=environment)
            title = f"Whole commands, {'with' if chosen.warm else 'without'} a warm JVM"
            table = Table(f"{title}; rounds: {chosen.rounds}", COLUMNS, tuple(ratios(turns)))
    document = {"turns": [asdict(turn) for turn in turns]}
    report = Report("benchmark analyze", document, (table,))
    write(report, chosen.output, sys.stdout, sys.stdout.isatty())


if __name__ == "__main__":
    main()
