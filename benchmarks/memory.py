"""What a long run takes: memory of each of kipctl's processes, and room on the disk.

    python benchmarks/memory.py [--minutes 60] [--rate 20000] [--folder DIR] [--output json]

`perf e2e --record` of 100-byte records on a lab of 3 brokers, whose logs are cut at 32 MiB a
partition. Once a second the resident and the proportional memory (RSS, PSS) of every process are
read. The table has them after 1, 10 and all minutes; and the greatest while the record is written,
and while it is evaluated. The lines on stderr say the same as it happens.
"""

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from kipctl.lab.cluster import Lab
from kipctl.lab.properties import LabSpec
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Column, Report, Table
from kipctl.trace.store import ROWS_FOLDER, RUN_FILE

MINUTES = (1, 10, 60)
RECORDING, EVALUATING = "recording", "evaluating"
PROBES = {"0": "consumer", "1": "producer"}
"""By the folder of their rows."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Memory of one process, in bytes, `at_s` seconds after the load began."""

    at_s: float
    phase: str
    process: str
    rss: int
    pss: int


def descendants(pid: int) -> Iterator[int]:
    """The process and those that it has started."""
    yield pid
    with suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            yield from descendants(int(child))


def memory(pid: int) -> tuple[int, int]:
    """RSS and PSS in bytes. Raises OSError when the process is gone."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    said = {name: int(value.split()[0]) for name, value in (line.split(":") for line in lines)}
    return said["Rss"] << 10, said["Pss"] << 10


def role(pid: int, kipctl: int, rows: Path) -> str:
    """Which of kipctl's processes it is: a probe has its rows open. Raises OSError."""
    if pid == kipctl:
        return "kipctl"
    files = (os.path.realpath(path) for path in Path(f"/proc/{pid}/fd").iterdir())
    parents = {Path(file).parent for file in files}
    return next((name for number, name in PROBES.items() if rows / number in parents), "other")


def phase(record: Path, is_loaded: bool) -> str:
    if (record / RUN_FILE).exists():
        return EVALUATING
    if (record / "rpcs").exists():
        return RECORDING
    return "load" if is_loaded else "start"


def size(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.glob(pattern))


def watched(kipctl: subprocess.Popen[bytes], record: Path) -> tuple[list[Sample], dict[str, float]]:
    """Its samples until it has ended, and what they are told with: seconds, bytes."""
    samples: list[Sample] = []
    rows = record / ROWS_FOLDER
    marks = [minute * 60 for minute in MINUTES]
    now, began, began_phase = "start", time.monotonic(), time.monotonic()
    facts: dict[str, float] = {}
    roles: dict[int, str] = {}
    while kipctl.poll() is None:
        is_loaded = size(rows, "*/batches.i64") > 0
        if (then := phase(record, is_loaded)) != now:
            facts[now] = time.monotonic() - began_phase
            sys.stderr.write(f"{now} took {facts[now]:,.1f} s; {then}\n")
            now, began_phase = then, time.monotonic()
            if now == "load":
                began = began_phase
        at_s = time.monotonic() - began
        facts["bytes_of_rows"] = max(facts.get("bytes_of_rows", 0), size(rows, "*/*.i64"))
        latest = []
        for pid in descendants(kipctl.pid):
            with suppress(OSError, KeyError):
                if roles.get(pid, "other") == "other":
                    roles[pid] = role(pid, kipctl.pid, rows)
                latest.append(Sample(at_s, now, roles[pid], *memory(pid)))
        samples += latest
        if now == "load" and marks and at_s >= marks[0]:
            marks.pop(0)
            told = ", ".join(f"{sample.process} {sample.rss / 1e6:,.0f} MB" for sample in latest)
            written = size(rows, "*/*.i64") / 1e6
            sys.stderr.write(f"after {at_s / 60:.1f} min: {told}; rows {written:,.0f} MB\n")
        time.sleep(1 if now == "load" else 0.2)
    facts[now] = time.monotonic() - began_phase
    return samples, facts


def columns_of(samples: list[Sample]) -> dict[str, dict[str, Sample]]:
    """By column and process, the sample that stands there."""
    load = [sample for sample in samples if sample.phase == "load"]
    last_s = max((sample.at_s for sample in load), default=0.0)
    columns: dict[str, dict[str, Sample]] = {}
    for at_s in (*(60.0 * minute for minute in MINUTES if 60 * minute < last_s), last_s):
        near = {sample.process: sample for sample in load if at_s - 5 < sample.at_s <= at_s}
        columns[f"{at_s / 60:.0f} min"] = near
    for name in (RECORDING, EVALUATING):
        columns[name] = {}
        for sample in sorted(samples, key=lambda sample: sample.rss):
            if sample.phase == name:
                columns[name][sample.process] = sample
    return columns


@contextmanager
def a_folder(given: Path | None) -> Iterator[Path]:
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--minutes", type=float, default=60)
    options.add_argument("--rate", type=int, default=20_000, help="records/s")
    options.add_argument("--folder", type=Path, help="where the record is kept")
    options.add_argument("--output", type=OutputFormat, default=OutputFormat.AUTO)
    chosen = options.parse_args()
    lab = Lab.up(LabSpec(name="bench-memory"), lambda text: sys.stderr.write(text + "\n") and None)
    try:
        with a_folder(chosen.folder) as folder, (folder / "said").open("wb") as said:
            record = folder.resolve() / "run"
            command = (
                f"{sys.executable} -m kipctl perf e2e --record {record} --record-size 100 "
                f"--num-records {round(chosen.minutes * 60 * chosen.rate)} "
                f"--throughput {chosen.rate} --bootstrap-server {lab.bootstrap_server} "
                "--output json"
            )
            kipctl = subprocess.Popen(shlex.split(command), stdout=said)
            samples, facts = watched(kipctl, record)
            facts["bytes_of_record"] = size(record, "*/*.parquet")
            if kipctl.returncode:
                raise SystemExit(f"kipctl ended with {kipctl.returncode}")
    finally:
        lab.down()
    columns = columns_of(samples)
    names = sorted({name for cells in columns.values() for name in cells})
    tables = tuple(
        Table(
            f"{what}, MB",
            (Column("process"), *(Column(name, right=True) for name in columns)),
            tuple(
                (
                    name,
                    *(
                        f"{getattr(cells[name], field) / 1e6:,.0f}" if name in cells else ""
                        for cells in columns.values()
                    ),
                )
                for name in names
            ),
        )
        for what, field in (("RSS", "rss"), ("PSS", "pss"))
    )
    took = Table(
        "Seconds, and MB on the disk",
        (Column("what"), Column("value", right=True)),
        tuple(
            (name, f"{value / 1e6:,.0f} MB" if "bytes" in name else f"{value:,.1f} s")
            for name, value in facts.items()
        ),
    )
    document = {
        "facts": facts,
        "memory": {
            column: {name: asdict(sample) for name, sample in cells.items()}
            for column, cells in columns.items()
        },
    }
    report = Report("benchmark memory", document, (*tables, took))
    write(report, chosen.output, sys.stdout, False)


if __name__ == "__main__":
    main()
