"""A throttled drain with data, or elections, killed at random moments and ended by the next kipctl.

    python benchmarks/faults.py [--elections] [--moments 50] [--seed 1] [--megabytes 2]

On a lab of three brokers a topic of 8 partitions with two replicas each leaves broker 3, two
partitions at a time, throttled such that copying takes some 15 seconds. `kipctl reassign` is ended
by SIGKILL at a random moment of the time that it takes when it is left alone; then `kipctl changes
resume` or `kipctl undo`, in turn, has to end with status 0: every partition where it was to be, or
where it was before, and led as it was to be; no throttle left, and one that was set before as it
was before.
What was resumed is rolled back afterwards. `--seed N --moments 1` repeats moment N.

With --elections it is `kipctl elect preferred`, a partition at a time, after the order of replicas
was turned; `kipctl changes resume` has to end it, every partition led by its first replica, with no
entry left open. Rolls: `roll_faults.py`.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kipctl.changes.journal.journal import Journal, journal
from kipctl.changes.plans.kafka_json import reassignment_document
from kipctl.changes.throttle import (
    BROKER,
    TOPIC,
    Change,
    Setting,
    Throttle,
    read_settings,
    restore_throttle,
    set_throttle,
)
from kipctl.cluster.snapshot import PartitionId, take_snapshot
from kipctl.cluster.throttle_configs import LEADER_RATE, LEADER_REPLICAS, RATES
from kipctl.cluster.throttle_configs import REPLICAS as REPLICA_LISTS
from kipctl.cluster.topics import await_topic
from kipctl.lab.cluster import Lab
from kipctl.lab.properties import LabSpec
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Column, Report, Table
from kipctl.transport.request import Cluster

NAME = "faults"
REPLICAS = [[1, 2], [2, 3], [3, 1], [1, 3], [2, 1], [3, 2], [2, 3], [3, 1]]
MEGABYTES = 2
"""In each partition."""
RATE = "200kB/s"
"""The quota's window lets 11 s of it through at once: with 1 MB copying takes 2 seconds more."""
DRAIN = (
    "reassign",
    "--drain",
    "3",
    "--topic",
    NAME,
    "--batch",
    "2",
    "--between",
    "0s",
    "--throttle",
    RATE,
)
ELECT = ("elect", "preferred", "--topic", NAME, "--batch", "1", "--between", "1s")
RESUME, UNDO = "changes resume", "undo"
PATIENCE_S = 300.0
SETTLES_S = 60.0
"""How long brokers may take to hear of the last settings and leaders."""
OWN = Throttle(
    (
        Change(Setting(BROKER, "1", LEADER_RATE), None, "123456789"),
        Change(Setting(TOPIC, NAME, LEADER_REPLICAS), None, "0:2"),
    )
)
"""Set before by somebody else: to be as it was, afterwards."""


def throttles_set(cluster: Cluster) -> dict[Setting, str]:
    """Those of the topic and of all brokers."""
    settings = [Setting(TOPIC, NAME, config) for config in REPLICA_LISTS]
    settings += [Setting(BROKER, str(broker), rate) for broker in cluster.nodes for rate in RATES]
    return {setting: value for setting, value in read_settings(cluster, settings).items() if value}


@dataclass(frozen=True, slots=True)
class State:
    """What a change may change: replicas and leaders of the topic, and every throttle."""

    replicas: tuple[tuple[int, ...], ...]
    leaders: tuple[int, ...]
    throttles: tuple[tuple[Setting, str], ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """One moment: how long after its start it was killed, what ended it, and what was wrong."""

    seed: int
    after_s: float
    way: str
    found: str
    """The state of its entry as the kill left it; "nothing" when there was none."""
    throttled: bool
    """Whether the kill left throttles set."""
    fault: str = ""


class Bench:
    """A lab, and a topic on it, with a journal in a folder of its own."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.folder = folder
        self.before = self.look()

    def look(self) -> State:
        """The cluster as it is now."""
        with Cluster(self.lab.bootstrap_server, NAME, 30) as cluster:
            snapshot = take_snapshot(cluster, [NAME])
            throttles = throttles_set(cluster)
        return State(
            tuple(partition.replicas for partition in snapshot.partitions),
            tuple(partition.leader for partition in snapshot.partitions),
            tuple(sorted(throttles.items())),
        )

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start a command line."""
        return subprocess.Popen(
            [sys.executable, "-m", "kipctl", *" ".join(words).split(), "--yes"],
            env=os.environ
            | {
                "KIPCTL_BOOTSTRAP_SERVER": self.lab.bootstrap_server,
                "XDG_STATE_HOME": str(self.folder),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *words: str) -> tuple[int, str]:
        """Run it to its end; returns its status, and what it said."""
        with self.start(*words) as process:
            said, _ = process.communicate(timeout=PATIENCE_S)
            return process.returncode, said

    def difference(self, wanted: State) -> str:
        """How the cluster differs from this; "" once it does not, which may take a moment."""
        deadline = time.monotonic() + SETTLES_S
        while (now := self.look()) != wanted:
            if time.monotonic() > deadline:
                return f"{now} instead of {wanted}"
            time.sleep(0.2)
        return ""

    @property
    def journal(self) -> Journal:
        """That of the command lines."""
        with Cluster(self.lab.bootstrap_server, NAME, 30) as cluster:
            cluster_id = cluster.metadata(()).cluster_id or ""
        return journal(cluster_id, {"XDG_STATE_HOME": str(self.folder)})

    def newest(self) -> str:
        """The state of the newest entry."""
        entry = next(self.journal.entries(), None)
        return "nothing" if entry is None else str(entry.state)

    def finished(self) -> tuple[State, float]:
        """How it ends when it is left alone, and the seconds it takes; then it is rolled back."""
        began = time.monotonic()
        status, said = self.run(*DRAIN)
        seconds = time.monotonic() - began
        deadline = time.monotonic() + SETTLES_S
        while (planned := self.look()).throttles != self.before.throttles:  # a broker may be behind
            if time.monotonic() > deadline:
                raise RuntimeError(f"throttles are left: {planned}")
            time.sleep(0.2)
        if status or planned.replicas == self.before.replicas:
            raise RuntimeError(f"the drain itself: {status}: {said}")
        if fault := self.roll_back():
            raise RuntimeError(fault)
        return planned, seconds

    def roll_back(self) -> str:
        """Back to how it was at first; returns what is wrong then."""
        status, said = self.run(UNDO)
        return f"rollback: {status}: {said}" if status else self.difference(self.before)

    def kill(self, seed: int, way: str, planned: State, within_s: float) -> Ended:
        """One moment; afterwards all is as at first."""
        after_s = random.Random(seed).uniform(0, within_s)
        is_new = self.killed(DRAIN, after_s)
        state = self.newest() if is_new else "nothing"
        is_throttled = self.look().throttles != self.before.throttles
        fault = self._end(way, planned if is_new else self.before, is_new)
        return Ended(seed, after_s, way, state, is_throttled, fault)

    def killed(self, words: Sequence[str], after_s: float) -> bool:
        """Kill the command so long after its start; returns whether it has left an entry."""
        journaled = {*self.folder.rglob("*.entry.json")}
        with self.start(*words) as process:
            try:
                process.communicate(timeout=after_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
        return {*self.folder.rglob("*.entry.json")} != journaled

    def turn(self) -> State:
        """Turn the order of replicas, so that none is led by its first; returns what an election of
        all makes of it."""
        now = self.look()
        turned = tuple(replicas[1:] + replicas[:1] for replicas in now.replicas)
        plan = {PartitionId(NAME, number): replicas for number, replicas in enumerate(turned)}
        file = self.folder / "turned.json"
        file.write_text(json.dumps(reassignment_document(plan)))
        status, said = self.run("reassign", "--plan", str(file))
        if status:
            raise RuntimeError(said)
        return replace(now, replicas=turned, leaders=tuple(replicas[0] for replicas in turned))

    def kill_election(self, seed: int, within_s: float) -> Ended:
        """One moment of an election, which is ended then."""
        elected = self.turn()
        after_s = random.Random(seed).uniform(0, within_s)
        is_new = self.killed(ELECT, after_s)
        state = self.newest() if is_new else "nothing"
        status, said = self.run(RESUME) if is_new else self.run(*ELECT)
        fault = f"{status}: {said}" if status else self.difference(elected)
        if left := [entry.id for entry in self.journal.unfinished()]:
            fault += f" Left open: {left}."
        return Ended(seed, after_s, RESUME if is_new else "again", state, False, fault)

    def _end(self, way: str, planned: State, is_new: bool) -> str:
        if not is_new:
            return self.difference(self.before)
        status, said = self.run(way)
        if status:
            return f"{way}: {status}: {said}"
        if way == UNDO:
            return self.difference(self.before)
        return self.difference(planned) or self.roll_back()


@contextmanager
def bench(lab: Lab, folder: Path, megabytes: int) -> Iterator[Bench]:
    """The topic with its data, and a throttle of somebody else's; both are removed afterwards."""
    settings = {"bootstrap.servers": lab.bootstrap_server, "log_level": 0}
    admin = AdminClient(settings)
    topic = NewTopic(
        NAME, len(REPLICAS), replica_assignment=REPLICAS, config={"retention.bytes": "-1"}
    )
    admin.create_topics([topic])[NAME].result()
    try:
        with Cluster(lab.bootstrap_server, NAME, 30) as cluster:
            await_topic(cluster, NAME, len(REPLICAS))
            producer = Producer({**settings, "acks": "all"})
            for number in range(len(REPLICAS) * megabytes * 10):
                producer.produce(NAME, b"x" * 100_000, partition=number % len(REPLICAS))
                producer.poll(0)
            if producer.flush(120):
                raise RuntimeError("the topic cannot be filled")
            set_throttle(cluster, OWN)
            wanted = {(change.setting, change.during) for change in OWN.changes}
            while not wanted <= {*throttles_set(cluster).items()}:
                time.sleep(0.05)
            yield Bench(lab, folder)
            restore_throttle(cluster, OWN)
    finally:
        admin.delete_topics([NAME])[NAME].result()


def moments(
    lab: Lab, folder: Path, seeds: Sequence[int], megabytes: int = MEGABYTES
) -> Iterator[Ended]:
    """Kill it once for each seed: the odd ones are rolled back, the even ones resumed."""
    with bench(lab, folder, megabytes) as test_bench:
        planned, seconds = test_bench.finished()
        for seed in seeds:
            yield test_bench.kill(seed, (RESUME, UNDO)[seed % 2], planned, seconds)


def election_moments(lab: Lab, folder: Path, seeds: Sequence[int]) -> Iterator[Ended]:
    """Kill elections once for each seed."""
    with bench(lab, folder, 0) as test_bench:
        elected, began = test_bench.turn(), time.monotonic()
        status, said = test_bench.run(*ELECT)
        if status or test_bench.difference(elected):
            raise RuntimeError(f"the elections themselves: {status}: {said}")
        seconds = time.monotonic() - began
        for seed in seeds:
            yield test_bench.kill_election(seed, seconds)


def report(ended: Sequence[Ended]) -> Report:
    """How many there were of each, and the faults."""
    kinds = Counter((moment.way, moment.found, moment.throttled) for moment in ended)
    faults = [moment for moment in ended if moment.fault]
    rows = tuple((*kind, number) for kind, number in sorted(kinds.items()))
    columns = ("Ended by", "Its entry was", "Throttles were set", Column("Moments"))
    closing = f"{len(ended)} moments, {len(faults)} faults."
    return Report(
        NAME,
        {"moments": [asdict(moment) for moment in ended], "faults": len(faults)},
        (Table("Killed, and ended", columns, rows),),
        (closing, *(f"{moment.seed}: {moment.fault}" for moment in faults)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elections", action="store_true")
    parser.add_argument("--moments", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--megabytes", type=int, default=MEGABYTES, help="in each partition")
    parser.add_argument("--output", type=OutputFormat, default=OutputFormat.AUTO)
    options = parser.parse_args()
    unasked = (("leader.imbalance.check.interval.seconds", "86400"),)
    lab = Lab.up(LabSpec(name=NAME, c1_only=True, config=unasked), lambda text: None)
    ended = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            seeds = range(options.seed, options.seed + options.moments)
            tried = (
                election_moments(lab, Path(folder), seeds)
                if options.elections
                else moments(lab, Path(folder), seeds, options.megabytes)
            )
            for moment in tried:
                sys.stderr.write(f"{moment}\n")
                ended.append(moment)
    finally:
        lab.down()
        write(report(ended), options.output, sys.stdout, sys.stdout.isatty())
    sys.exit(any(moment.fault for moment in ended))


if __name__ == "__main__":
    main()
