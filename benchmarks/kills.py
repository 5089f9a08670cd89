"""Runs that are ended at a random moment in a random way: what is left must be a run, or nothing.

    python benchmarks/kills.py [--runs 200] [--minutes 25] [--labs 2] [--seed 1] [--output json]

`perf produce`, `perf e2e` and `perf consume`, in turn, with `--record`, on labs of one broker. Each
is ended 0.3 to 6 s after its start, or 0 to 4 s after its load began: by SIGTERM, SIGHUP, SIGINT or
two of these, sent to it alone or to its process group; by SIGKILL of one of its probes; or by
SIGKILL of kipctl itself, and then `runs repair`. Afterwards `runs show` must read the run, whose
result must say what its rows do; no topic of kipctl's may be left that it did not name, no file of
its in $TMPDIR, no process, no traceback. Moment and way are decided by the seed and the run's
number: `--seed N --runs 1` repeats run N.
"""

import argparse
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kipctl.cluster.topics import await_topic, create_topics, delete_topics
from kipctl.lab.cluster import Lab
from kipctl.lab.properties import LabSpec
from kipctl.own_topic_names import is_own
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Column, Report, Table
from kipctl.trace.store import ROWS_FOLDER, Run
from kipctl.trace.stored_runs import read_stored_run
from kipctl.transport.request import Cluster

TOPIC = "bench"
PARTITIONS = 3
LOAD = f"--num-records 1000000 --throughput 500 --record-size 100 --partitions {PARTITIONS}"
COMMANDS = {
    "produce": f"perf produce {LOAD}",
    "e2e": f"perf e2e {LOAD}",
    "consume": f"perf consume --topic {TOPIC} --num-records 1000000 --timeout 60000",
}
SIGNALS = {
    "SIGTERM": (signal.SIGTERM,),
    "SIGHUP": (signal.SIGHUP,),
    "SIGINT": (signal.SIGINT,),
    "two SIGINT": (signal.SIGINT, signal.SIGINT),
}
PROBE, KIPCTL = "SIGKILL of a probe", "SIGKILL of kipctl"
WAYS = (*SIGNALS, PROBE, KIPCTL)
NOTHING, STOPPED, FAILED = "nothing begun", "a run, stopped", "a run, failed"
UNMEASURED, REPAIRED, FAULT = "killed before its load", "repaired", "FAULT"
STARTED, LOAD_BEGAN = "started", "began its load"
OUTCOMES = (NOTHING, STOPPED, FAILED, UNMEASURED, REPAIRED, FAULT)
PATIENCE_S = 90.0


class WrongError(Exception):
    """What is left is not what was promised."""


@dataclass(frozen=True, slots=True)
class Ended:
    """One run that was ended; `fault` says what was wrong."""

    seed: int
    command: str
    way: str
    after_s: float
    since: str
    outcome: str
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run is: its lab, and a folder of its own."""

    lab: Lab
    folder: Path

    @property
    def record(self) -> Path:
        return self.folder / "run"

    def start(self, words: str) -> subprocess.Popen[str]:
        (self.folder / "tmp").mkdir(exist_ok=True)
        return subprocess.Popen(
            [sys.executable, "-m", "kipctl", *shlex.split(words)],
            env=os.environ
            | {
                "KIPCTL_BOOTSTRAP_SERVER": self.lab.bootstrap_server,
                "TMPDIR": str(self.folder / "tmp"),
                "KIPCTL_RUNS": str(self.folder),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def said(self, words: str) -> tuple[int, str, str]:
        process = self.start(words)
        out, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out, err


def children(pid: int) -> list[int]:
    """Those that are probes: what a process started by multiprocessing's spawn is called."""
    probes = []
    with suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with suppress(OSError):
                if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                    probes.append(int(child))
    return probes


def await_load(process: subprocess.Popen[str], record: Path, probes: int) -> None:
    """Wait until so many probes of the run have begun, or it has ended."""
    deadline = time.monotonic() + PATIENCE_S
    rows = record / ROWS_FOLDER
    while process.poll() is None and len([*rows.glob("*/begun")]) < probes:
        if time.monotonic() > deadline:
            raise WrongError(f"its load has not begun after {PATIENCE_S:g} s")
        time.sleep(0.02)


def end(process: subprocess.Popen[str], way: str, choose: random.Random) -> str:
    """End it; returns the way, which is another one when there is no probe yet."""
    if way == KIPCTL:
        process.kill()
        return way
    if way == PROBE:
        if probes := children(process.pid):
            os.kill(choose.choice(probes), signal.SIGKILL)
            return way
        way = "SIGTERM"
    send = os.killpg if choose.random() < 0.5 else os.kill
    for number, sent in enumerate(SIGNALS[way]):
        if number:
            time.sleep(choose.uniform(0, 0.5))
        with suppress(ProcessLookupError):
            send(process.pid, sent)
    return way


def processes_in(folder: Path) -> Iterator[int]:
    """Processes that were started with this folder as their $TMPDIR."""
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"TMPDIR={folder / 'tmp'}".encode() in (path / "environ").read_bytes():
                yield int(path.name)


def check_rows(run: Run, summary: Mapping[str, Any]) -> None:
    """Raise WrongError when what the run came to is not what its rows say."""
    records = summary["records"]
    if "acknowledged" in records:
        batches = run.read("batches").to_pylist()
        acknowledged = [batch for batch in batches if not batch["error"]]
        counted = sum(batch["records"] for batch in acknowledged)
        if counted != records["acknowledged"]:
            raise WrongError(f"{counted} acknowledged, said to be {records['acknowledged']}")
        seqs = Counter(
            batch["first_seq"] + number * batch["seq_stride"]
            for batch in acknowledged
            for number in range(batch["records"])
        )
        offsets = Counter((batch["partition"], batch["base_offset"]) for batch in acknowledged)
        if max(seqs.values(), default=1) > 1 or max(offsets.values(), default=1) > 1:
            raise WrongError("a record was acknowledged twice")
        if records.get("delivered", 0) > counted:
            raise WrongError(f"{records['delivered']} delivered of {counted}")
    else:
        read = sum(row["records"] for row in run.read("reads").to_pylist())
        if read != records["read"]:
            raise WrongError(f"{read} read, said to be {records['read']}")


def check_run(place: Place) -> str:
    """The outcome of the run there. Raises WrongError when it is none, or not read."""
    status, out, err = place.said(f"runs show {place.record} --output json")
    if status:
        raise WrongError(f"runs show: {status}: {err.strip()}")
    summary = json.loads(out)["summary"]
    check_rows(Run(place.record), summary)
    if (place.record / ROWS_FOLDER).exists():
        raise WrongError("its rows are still there")
    flaw = read_stored_run(place.record).flaw
    if flaw.startswith("it failed"):
        return FAILED
    if flaw.startswith("interrupted"):
        return STOPPED
    raise WrongError(f"it does not say how it ended: {flaw!r}")


def repaired(place: Place) -> tuple[str, str]:
    """What a killed kipctl left, and what is said of it."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        status, _, err = place.said(f"runs repair {place.record} --output json")
        if status != 2 or "is being recorded" not in err:
            break
        if time.monotonic() > deadline:
            raise WrongError(f"still being recorded after {PATIENCE_S:g} s")
        time.sleep(0.2)
    if status == 2 and "nothing to repair" in err:
        return UNMEASURED, err
    if status:
        raise WrongError(f"runs repair: {status}: {err.strip()}")
    check_run(place)
    return REPAIRED, err


def check_left(place: Place, way: str, outcome: str, said: str) -> None:
    """Raise WrongError for what is left on the cluster and on this machine."""
    deadline = time.monotonic() + 15
    while left := [*processes_in(place.folder)]:
        if time.monotonic() > deadline:
            raise WrongError(f"processes are left: {left}")
        time.sleep(0.1)
    if left_files := [path.name for path in (place.folder / "tmp").iterdir()]:
        raise WrongError(f"left in $TMPDIR: {left_files}")
    if outcome == NOTHING and place.record.exists():
        raise WrongError("a folder is left of a run that did not begin")
    with Cluster(place.lab.bootstrap_server, "kills", 30) as cluster:
        topics = {topic.name or "" for topic in cluster.metadata(None).topics}
    for topic in filter(is_own, topics):
        delete_topics(place.lab.bootstrap_server, [topic])
        if topic not in said and not (way == KIPCTL and outcome in (NOTHING, UNMEASURED)):
            raise WrongError(f"topic {topic} is left, and was not named")


def outcome_of(place: Place, way: str, status: int, err: str) -> str:
    """What has become of it. Raises WrongError."""
    said = err
    shell_status = status if status >= 0 else 128 - status
    if way == KIPCTL:
        if place.record.exists():
            outcome, told = repaired(place)
            said += told
        else:
            outcome = NOTHING
    else:
        expected = {5} if way == PROBE else {128 + SIGNALS[way][0]}
        if place.record.exists():
            outcome = check_run(place)
        else:
            outcome = NOTHING
            expected |= {1, 5}  # a probe that was killed before its load began: it cannot begin
        if shell_status not in expected:
            raise WrongError(f"status {status}")
    if "Traceback" in said:
        raise WrongError("a traceback")
    check_left(place, way, outcome, said)
    return outcome


def run(number: int, lab: Lab, folder: Path) -> Ended:
    """Start one, end it, and look at what is left."""
    choose = random.Random(number)
    place = Place(lab, folder / str(number))
    place.folder.mkdir()
    command = [*COMMANDS][number % len(COMMANDS)]
    way, since = choose.choice(WAYS), choose.choice((STARTED, LOAD_BEGAN, LOAD_BEGAN))
    after_s = choose.uniform(0.3, 6) if since == STARTED else choose.uniform(0, 4)
    process = place.start(f"{COMMANDS[command]} --record {place.record}")
    err = ""
    try:
        if since == LOAD_BEGAN:
            await_load(process, place.record, probes=2 if command == "e2e" else 1)
        with suppress(subprocess.TimeoutExpired):
            process.wait(after_s)
        if process.returncode is not None:
            raise WrongError(f"it had ended already, with {process.returncode}")
        way = end(process, way, choose)
        _, err = process.communicate(timeout=PATIENCE_S)
        outcome = outcome_of(place, way, process.returncode, err)
        return Ended(number, command, way, after_s, since, outcome)
    except (WrongError, OSError, subprocess.TimeoutExpired, KeyError, ValueError) as wrong:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            _, err = process.communicate()
        (place.folder / "stderr").write_text(err)
        fault = f"{wrong}" or type(wrong).__name__
        return Ended(number, command, way, after_s, since, FAULT, fault)


def fill(lab: Lab) -> None:
    """Make the topic that is consumed, and produce to it."""
    create_topics(lab.bootstrap_server, [TOPIC], PARTITIONS, 1)
    with Cluster(lab.bootstrap_server, "kills", 30) as cluster:
        await_topic(cluster, TOPIC, PARTITIONS)
    words = (
        f"{sys.executable} -m kipctl perf produce --topic {TOPIC} --num-records 100000 "
        f"--throughput -1 --record-size 100 --bootstrap-server {lab.bootstrap_server}"
    )
    subprocess.run(shlex.split(words), stdout=subprocess.DEVNULL, check=True)


def on_a_lab(name: str, numbers: Iterator[int], until: float, folder: Path) -> list[Ended]:
    """Runs one after the other on a lab of their own, until there are no more, or no time."""
    ended = []
    lab = Lab.up(LabSpec(name=name, brokers=1, racks=0), lambda text: None)
    try:
        fill(lab)
        for number in numbers:
            result = run(number, lab, folder)
            sys.stderr.write(
                f"{result.seed}: {result.command}, {result.way} {result.after_s:.2f} s "
                f"after it {result.since}: {result.outcome} {result.fault}\n"
            )
            ended.append(result)
            if time.monotonic() > until:
                break
    finally:
        lab.down()
    return ended


def main() -> None:
    # In the background, or under nohup, they are ignored; and whoever is started inherits that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--runs", type=int, default=200)
    options.add_argument("--minutes", type=float, default=25, help="begin no run after so many")
    options.add_argument("--labs", type=int, default=2, help="that are worked on at once")
    options.add_argument("--seed", type=int, default=1, help="number of the first run")
    options.add_argument("--folder", type=Path, help="where runs are kept; none by default")
    options.add_argument("--output", type=OutputFormat, default=OutputFormat.AUTO)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(chosen.labs) as threads:
        folder = (chosen.folder or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        numbers = iter(range(chosen.seed, chosen.seed + chosen.runs))
        until = time.monotonic() + chosen.minutes * 60
        working = [
            threads.submit(on_a_lab, f"bench-kills-{lab}", numbers, until, folder)
            for lab in range(chosen.labs)
        ]
        ended = sorted((run for job in working for run in job.result()), key=lambda run: run.seed)
    counted = Counter((run.way, run.outcome) for run in ended)
    ways = Table(
        f"{len(ended)} runs, by the way they were ended",
        (Column("ended by"), *(Column(outcome) for outcome in OUTCOMES)),
        tuple((way, *(counted[way, outcome] for outcome in OUTCOMES)) for way in WAYS),
    )
    faults = Table(
        "Faults",
        (
            Column("seed"),
            Column("command"),
            Column("ended by"),
            Column("s", 2),
            Column("after it"),
            Column("what"),
        ),
        tuple(
            (str(run.seed), run.command, run.way, run.after_s, run.since, run.fault)
            for run in ended
            if run.fault
        ),
    )
    document = {
        "runs": [{name: getattr(run, name) for name in Ended.__dataclass_fields__} for run in ended]
    }
    write(Report("benchmark kills", document, (ways, faults)), chosen.output, sys.stdout, False)
    sys.exit(any(run.fault for run in ended))


if __name__ == "__main__":
    main()
