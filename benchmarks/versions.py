"""What of kipctl works with which release of Kafka: each step on a lab of each release.

    python benchmarks/versions.py [VERSION ...] [--output json]

For each release a lab of 2 brokers and a controller, which is taken down before the next. Every
step is the command as a user gives it, and counts as ok when its status is 0 and its document says
what it should: every record acknowledged or read, every leader where it was to go, hints from the
brokers that speak a Produce with hints. Else the cell has the command's own words. "Kafka started
in" is the slowest node's, from the first line of its log to "Kafka Server started".
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import ne
from pathlib import Path
from typing import Any

from kipctl.cluster.inspect.leader_hint_check import Verdict
from kipctl.cluster.topics import await_topic, create_topics
from kipctl.errors import KipctlError
from kipctl.lab.cluster import Lab
from kipctl.lab.properties import LabSpec
from kipctl.protocol.leader_hints import FIRST_PRODUCE_WITH_HINTS
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Column, Report, Table
from kipctl.tap.process import running_tap
from kipctl.tap.spec import TapSpec
from kipctl.transport.request import Cluster

VERSIONS = ("3.3.2", "3.6.2", "3.9.2", "4.0.2", "4.2.1", "4.3.1", "4.4.0")
TOPIC = "orders"
PARTITIONS = 6
RECORDS = 600
ENDS = f"--num-records {RECORDS} --throughput {RECORDS // 5} --record-size 100"
LOAD = f"--topic {TOPIC} --force {ENDS}"
ROTATING = "--during rotate --every 0.3 --count 1 --yes"
PATIENCE_S = 120.0
STARTED = "Kafka Server started"
OK = "ok"


class WrongError(Exception):
    """A step did not do what it should; the message says so in a few words."""


Run = Callable[[Sequence[str], Mapping[str, str]], tuple[int, str, str]]
"""Runs kipctl with these words and variables: its status, and both streams."""


def in_a_process(words: Sequence[str], variables: Mapping[str, str]) -> tuple[int, str, str]:
    ran = subprocess.run(
        [sys.executable, "-m", "kipctl", *words],
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    return ran.returncode, ran.stdout, ran.stderr


@dataclass(frozen=True, slots=True)
class Place:
    """A lab with a topic, a folder for what the commands keep, and how they are run."""

    lab: Lab
    folder: Path
    run: Run = in_a_process

    def kipctl(self, words: str, bootstrap_server: str = "") -> Any:
        """The document of a command. Raises WrongError with what it said when it failed."""
        at = bootstrap_server or self.lab.bootstrap_server
        variables = {"KIPCTL_BOOTSTRAP_SERVER": at, "XDG_STATE_HOME": str(self.folder)}
        status, out, err = self.run([*words.split(), "--output", "json"], os.environ | variables)
        if status:
            said = re.search(r"^kipctl: (.*)", err, re.MULTILINE)
            last = (err.strip().splitlines() or ["it said nothing"])[-1]
            raise WrongError(f"{said[1] if said else last} (status {status})")
        return json.loads(out)

    def leaders(self) -> list[int]:
        """By partition."""
        return [partition["leader"] for partition in self._partitions()]

    def preferred_leaders(self) -> list[int]:
        return [partition["preferred_leader"] for partition in self._partitions()]

    def _partitions(self) -> Any:
        return self.kipctl(f"inspect leaders --topic {TOPIC}")["partitions"]


def require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise WrongError(otherwise)


def require_all_acknowledged(document: Mapping[str, Any]) -> None:
    counts = document["records"]
    require(counts["acknowledged"] == counts["sent"] == RECORDS, f"records: {counts}")


def require_moved(before: Sequence[int], after: Sequence[int]) -> None:
    require(len(after) == PARTITIONS and all(map(ne, before, after)), "a leader did not move")


def produce(place: Place) -> None:
    require_all_acknowledged(place.kipctl(f"perf produce {LOAD}"))


def produce_during_rotate(place: Place) -> None:
    before = place.leaders()
    require_all_acknowledged(place.kipctl(f"perf produce {LOAD} {ROTATING}"))
    require_moved(before, place.leaders())


def consume(place: Place) -> None:
    for rack in ("", "--client-rack rack-2"):
        document = place.kipctl(f"perf consume --topic {TOPIC} --num-records {RECORDS} {rack}")
        require(document["records"]["read"] >= RECORDS, f"records: {document['records']}")


def both_ends_during_rotate(place: Place) -> None:
    place.kipctl(f"perf e2e {ENDS} --client-rack rack-2 {ROTATING}")


def inspect_leaders(place: Place) -> None:
    require(len(place.leaders()) == PARTITIONS, "not every partition is shown")


def inspect_brokers(place: Place) -> None:
    brokers = place.kipctl("inspect brokers")["brokers"]
    require(all(broker["is_answering"] for broker in brokers), "a broker did not answer")


def inspect_metadata(place: Place) -> None:
    costs = place.kipctl("inspect metadata --measure-convergence --moves 1 --yes")["request_costs"]
    require(not any(cost["error"] for cost in costs), "a broker did not answer")


def inspect_hints(place: Place) -> None:
    for broker in place.kipctl(f"inspect hints --topic {TOPIC}")["brokers"]:
        newest = int(broker["produce_versions"].rpartition("-")[2])
        has_hints = newest >= FIRST_PRODUCE_WITH_HINTS
        expected = Verdict.AGREES if has_hints else Verdict.TOO_OLD
        require(broker["verdict"] == expected, f"{broker['verdict']}: {broker['detail']}")


def inspect_replica_selection(place: Place) -> None:
    partitions = place.kipctl(f"inspect replica-selection --topic {TOPIC}")["partitions"]
    require(all(partition["local"] for partition in partitions), "a reader is sent to another rack")


def rotate(place: Place) -> None:
    before = place.leaders()
    place.kipctl(f"reassign --rotate --topic {TOPIC} --yes")
    require_moved(before, place.leaders())


def plan(place: Place) -> None:
    """What a dry run prints is carried out; leaders stay, as with Kafka's own tool."""
    before = place.preferred_leaders()
    file = place.folder / "plan.json"
    dry = place.kipctl(f"reassign --rotate --topic {TOPIC} --dry-run")
    file.write_text(json.dumps(dry), encoding="utf-8")
    place.kipctl(f"reassign --plan {file} --yes")
    require_moved(before, place.preferred_leaders())
    place.kipctl(f"reassign --verify {file}")


def rollback(place: Place) -> None:
    """Of the plan, and of the rotation before it."""
    before = place.leaders()
    for entry in place.kipctl("changes list")["entries"][:2]:
        place.kipctl(f"undo {entry['id']} --yes")
    require_moved(before, place.leaders())


def elect_preferred(place: Place) -> None:
    """After a restart of one broker the other leads all."""
    place.lab.restart(1)
    with Cluster(place.lab.access) as cluster:
        await_topic(cluster, TOPIC, PARTITIONS)  # back in sync
    require(place.leaders() != place.preferred_leaders(), "no leader is to be elected")
    place.kipctl(f"elect preferred --topic {TOPIC} --yes")
    require(place.leaders() == place.preferred_leaders(), "others than the preferred leaders lead")


def tap(place: Place) -> None:
    with running_tap(TapSpec(access=place.lab.access), None) as running:
        words = f"perf produce {LOAD} {ROTATING}"
        require_all_acknowledged(place.kipctl(words, running.bootstrap_server))
        outcome = running.stop()
    require(not outcome.dropped, "; ".join(outcome.messages[:1]))


STEPS: Mapping[str, Callable[[Place], None]] = {
    "perf produce": produce,
    "perf produce --during rotate": produce_during_rotate,
    "perf consume": consume,
    "perf e2e --during rotate": both_ends_during_rotate,
    "inspect leaders": inspect_leaders,
    "inspect brokers": inspect_brokers,
    "inspect metadata": inspect_metadata,
    "inspect hints": inspect_hints,
    "inspect replica-selection": inspect_replica_selection,
    "reassign --rotate": rotate,
    "reassign --plan": plan,
    "undo": rollback,
    "elect preferred": elect_preferred,
    "tap": tap,
}


def outcomes(place: Place) -> dict[str, str]:
    """What came of each step, in their order: OK, or what was said."""
    create_topics(place.lab.access, [TOPIC], PARTITIONS, 2)
    with Cluster(place.lab.access) as cluster:
        await_topic(cluster, TOPIC, PARTITIONS)
    came_of = {}
    for name, step in STEPS.items():
        try:
            step(place)
            came_of[name] = OK
        except (WrongError, KipctlError) as wrong:
            came_of[name] = str(wrong).splitlines()[0]
        except subprocess.TimeoutExpired:
            came_of[name] = f"did not end in {PATIENCE_S:g} s"
    return came_of


def start_s(lab: Lab) -> float:
    """From the first line of the log of the slowest node to STARTED, which it says once."""
    return max(_start_s(node.log_path.read_text(encoding="utf-8")) for node in lab.nodes)


def _start_s(log: str) -> float:
    lines = [line for line in log.splitlines() if line.startswith("[")]
    started = next(line for line in lines if STARTED in line)
    first, last = (
        datetime.strptime(line[1:24], "%Y-%m-%d %H:%M:%S,%f") for line in (lines[0], started)
    )
    return (last - first).total_seconds()


def on_a_lab(version: str) -> dict[str, float | str | None]:
    """What came of starting this release and of each step, None where it was not come to."""
    nothing: dict[str, float | str | None] = dict.fromkeys(STEPS)
    spec = LabSpec(name=f"bench-{version}", brokers=2, racks=2, kafka_version=version, c1_only=True)
    try:
        lab = Lab.up(spec, lambda text: None)
    except KipctlError as wrong:
        return {STARTED: wrong.what} | nothing
    try:
        with tempfile.TemporaryDirectory() as folder:
            return {STARTED: start_s(lab)} | outcomes(Place(lab, Path(folder)))
    finally:
        lab.down()


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("versions", nargs="*", metavar="VERSION", default=VERSIONS)
    options.add_argument("--output", type=OutputFormat, default=OutputFormat.AUTO)
    chosen = options.parse_args()
    by_version = {}
    for version in chosen.versions:
        by_version[version] = on_a_lab(version)
        sys.stderr.write(f"{version}: {by_version[version]}\n")
    table = Table(
        "Releases of Kafka, on a lab of 2 brokers",
        ("", *(Column(version) for version in by_version)),
        tuple((step, *(by_version[v][step] for v in by_version)) for step in (STARTED, *STEPS)),
    )
    document = {"versions": by_version}
    write(Report("benchmark versions", document, (table,)), chosen.output, sys.stdout, False)
    sys.exit(any(steps[step] != OK for steps in by_version.values() for step in STEPS))


if __name__ == "__main__":
    main()
