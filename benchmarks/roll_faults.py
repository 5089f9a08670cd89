"""Rolls that are killed, and rolls and drains of clusters whose nodes are killed under load.

    python benchmarks/roll_faults.py --kills 30 --seed 1 [--output json]
    python benchmarks/roll_faults.py --moments 20 --seed 1 [--output json]

`--kills`: on a lab of three brokers `kipctl roll --lab` is ended by SIGKILL at a random moment of
the time that it takes when it is left alone; one `--resume` in three is killed at a random moment
too. The last `--resume` has to end with status 0 (or say which broker to look at: then it is told
what its log says): each broker has started once, replicas and leaders are as before.

`--moments`: on a lab of four brokers and three controllers, under an acks=all load, a random node
is killed, paused or restarted at a random moment of a throttled drain or of a roll with
`--controllers`, and comes back after some seconds. kipctl has to end. What it says is held beside
what is to be seen: with status 0 the drained broker has no replica, or every node is a new process;
otherwise the nodes that it says are done are, and the command that it names ends it with status 0.
Every record that was acknowledged is in the log once, read by another client.

`--seed N` with 1 repeats moment N.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

from acknowledged import Reader, check, load
from confluent_kafka import ElectionType, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kipctl.cluster.topics import await_topic
from kipctl.errors import KipctlError
from kipctl.lab.cluster import Lab
from kipctl.lab.node import NodeState
from kipctl.lab.properties import LabSpec, Role
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Column, Report, Table
from kipctl.roll.record import RollRecord, rolls
from kipctl.transport.request import Cluster

NAME = "roll-faults"
STARTED = "Kafka Server started"
PARTITIONS = 8
MEGABYTES = 2
"""In each partition, for a drain to copy."""
RATE = "400kB/s"
UNASKED = (("leader.imbalance.check.interval.seconds", "86400"),)
PATIENCE_S = 900.0
SETTLES_S = 120.0
TIMEOUT = ("--timeout", "240")
ROLL = ("roll", "--lab", *TIMEOUT)
ROLL_ALL = (*ROLL, "--controllers")
DRAINED = 4
DRAIN = (
    *("reassign", "--drain", str(DRAINED), "--topic", NAME),
    *("--batch", "2", "--between", "0s", "--throttle", RATE, *TIMEOUT),
)
RESUMES = 3
"""One in so many resumes is killed too."""
KILL, PAUSE, RESTART = "kill", "pause", "restart"
UNABLE = "whether it has been restarted cannot be seen"


@dataclass(frozen=True, slots=True)
class Layout:
    """The topic as librdkafka shows it: replicas in their order, and leaders."""

    replicas: tuple[tuple[int, ...], ...]
    leaders: tuple[int, ...]
    in_sync: bool


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that has ended."""

    status: int
    said: str

    @property
    def document(self) -> dict[str, Any]:
        """What it printed as JSON; nothing when it came to none."""
        start = self.said.find("\n{")
        with suppress(ValueError):
            found, _ = json.JSONDecoder().raw_decode(self.said[max(start, 0) :].lstrip())
            return dict(found)
        return {}

    def __str__(self) -> str:
        return f"status {self.status}: {self.said.strip()[-600:]}"


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment, how kipctl ended, and what was wrong; times are seconds."""

    seed: int
    what: str
    node: str
    after_s: float
    status: int
    ended_by: str
    took_s: float
    acknowledged: int = 0
    fault: str = ""


class Bench:
    """A lab with a topic on it; kipctl's records are where the lab's are."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.brokers = [node.id for node in lab.nodes if node.role is Role.BROKER]
        self.admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
        self.before = self.layout()

    def layout(self) -> Layout:
        """As another client than kipctl sees it."""
        found = self.admin.list_topics(NAME, timeout=30).topics[NAME].partitions
        parts = [found[number] for number in sorted(found)]
        return Layout(
            tuple(tuple(one.replicas) for one in parts),
            tuple(one.leader for one in parts),
            all(sorted(one.replicas) == sorted(one.isrs) for one in parts),
        )

    def difference(self, holds: Callable[[Layout], str]) -> str:
        """What does not hold; "" once it does, which may take a moment."""
        deadline = time.monotonic() + SETTLES_S
        while True:
            try:
                wrong = holds(self.layout())
            except KafkaException as failed:
                wrong = str(failed)
            if not wrong or time.monotonic() > deadline:
                return wrong
            time.sleep(0.5)

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start kipctl."""
        return subprocess.Popen(
            [sys.executable, "-m", "kipctl", *words, "--yes", "--output", "json"],
            env=os.environ | {"KIPCTL_BOOTSTRAP_SERVER": self.lab.bootstrap_server},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *words: str) -> Ran:
        """Run it to its end. Raises TimeoutExpired when it does not come."""
        with self.start(*words) as process:
            try:
                said, _ = process.communicate(timeout=PATIENCE_S)
            except BaseException:
                process.kill()
                raise
            return Ran(process.returncode, said)

    def kill(self, after_s: float, *words: str) -> bool:
        """Kill it at that moment; False when it had ended before."""
        with self.start(*words) as process:
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=after_s)
                return False
            process.kill()
            process.communicate()
            return True

    @property
    def starts(self) -> Counter[int]:
        """How often each broker has started, by its own log."""
        return Counter(
            {
                node: self.lab.log_path(node).read_text(errors="replace").count(STARTED)
                for node in self.brokers
            }
        )

    @property
    def processes(self) -> dict[int, int | None]:
        return {node.id: node.pid for node in self.lab.nodes}

    @property
    def last_roll(self) -> RollRecord | None:
        return rolls(self.lab.cluster_id).last()

    def elect(self) -> None:
        """Preferred leaders lead, whoever was struck."""
        every = [TopicPartition(NAME, number) for number in range(PARTITIONS)]
        with suppress(KafkaException):
            self.admin.elect_leaders(ElectionType.PREFERRED, every).result()

    def mend(self) -> str:
        """All nodes run again, and all is in sync; returns what is not."""
        deadline = time.monotonic() + SETTLES_S
        while time.monotonic() < deadline:
            states = {node: node.state for node in self.lab.nodes}
            with suppress(KipctlError):
                for node, state in states.items():
                    if state is NodeState.PAUSED:
                        node.resume()
                self.lab.start(*(node.id for node in self.lab.nodes))
                self.lab.wait_ready()
                return self.difference(lambda now: "" if now.in_sync else f"not in sync: {now}")
            time.sleep(0.5)
        return f"nodes do not come back: {self.lab.status()}"


@contextmanager
def bench(lab: Lab) -> Iterator[Bench]:
    """The topic with its data on a lab; it is removed afterwards."""
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    brokers = [node.id for node in lab.nodes if node.role is Role.BROKER]
    replicas = [
        [brokers[(number + step) % len(brokers)] for step in range(3)]
        for number in range(PARTITIONS)
    ]
    config = {"min.insync.replicas": "2", "retention.bytes": "-1"}
    topic = NewTopic(NAME, PARTITIONS, replica_assignment=replicas, config=config)
    admin.create_topics([topic])[NAME].result()
    try:
        with Cluster(lab.bootstrap_server, NAME, 30) as cluster:
            await_topic(cluster, NAME, PARTITIONS)
        yield Bench(lab)
    finally:
        with suppress(KafkaException):
            admin.delete_topics([NAME])[NAME].result()


def kills(lab: Lab, seeds: Sequence[int], brokers: str = "") -> Iterator[Moment]:
    """kipctl is killed once for each seed, and some of its resumes."""
    roll = [*ROLL]
    for broker in filter(None, brokers.split(",")):
        roll += ("--broker", broker)
    with bench(lab) as one:
        chosen = [int(broker) for broker in brokers.split(",")] if brokers else one.brokers
        began = time.monotonic()
        if (ran := one.run(*roll)).status:
            raise RuntimeError(f"the roll itself: {ran}")
        seconds = time.monotonic() - began
        for seed in seeds:
            yield _killed(one, seed, roll, chosen, seconds)


def _killed(
    one: Bench, seed: int, roll: Sequence[str], brokers: Sequence[int], within_s: float
) -> Moment:
    chance = random.Random(seed)
    after_s = chance.uniform(0, within_s)
    before, earlier, began = one.starts, one.last_roll, time.monotonic()
    one.kill(after_s, *roll)
    record = one.last_roll
    if record is None or (earlier and record.id == earlier.id):
        is_same = one.starts == before
        fault = one.difference(_as_before(one)) or ("" if is_same else "a broker was restarted")
        return Moment(seed, "killed", "kipctl", after_s, 0, "nothing was begun", 0, fault=fault)
    how = "--resume"
    found = "done"
    if left := record.left:
        found = str(left[0].phase)
    while record.may_be_resumed and not chance.randrange(RESUMES):
        how = "--resume, killed too"
        one.kill(chance.uniform(0, within_s), "roll", "--resume")
        record = one.last_roll or record
    fault, status = "", 0
    if record.may_be_resumed:
        ran = one.run("roll", "--resume")
        if ran.status == 5 and UNABLE in ran.said:
            how, ran = "--was-restarted", _told(one, before, ran)
        status = ran.status
        fault = f"{ran}" if status else ""
    started = one.starts - before
    if not fault and started != Counter(dict.fromkeys(brokers, 1)):
        fault = f"started: {dict(started)}"
    fault = fault or one.difference(_as_before(one))
    took_s = time.monotonic() - began
    return Moment(seed, "killed", f"kipctl ({found})", after_s, status, how, took_s, fault=fault)


def _told(one: Bench, before: Counter[int], ran: Ran) -> Ran:
    """Say what the log of the broker in hand says."""
    asked = re.search(r"Stopped at broker (\d+)", ran.said)
    if asked is None:
        return ran
    was_restarted = one.starts[int(asked[1])] > before[int(asked[1])]
    return one.run("roll", "--resume", "--was-restarted", "yes" if was_restarted else "no")


def _as_before(one: Bench) -> Callable[[Layout], str]:
    return lambda now: "" if now == one.before else f"{now} instead of {one.before}"


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to a node, when, and for how long; seconds."""

    what: str
    node: int
    after_s: float
    for_s: float


class Striker(threading.Thread):
    """Lets the fault happen, and ends it."""

    def __init__(self, lab: Lab, fault: Fault) -> None:
        super().__init__(daemon=True)
        self.lab, self.fault = lab, fault
        self.has_struck = threading.Event()

    def run(self) -> None:
        time.sleep(self.fault.after_s)
        node = self.fault.node
        self.has_struck.set()
        with suppress(KipctlError):  # a roll may have stopped it just now
            match self.fault.what:
                case "kill":
                    self.lab.kill(node)
                case "pause":
                    self.lab.pause(node)
                case _:
                    self.lab.stop(node)
        time.sleep(self.fault.for_s)
        deadline = time.monotonic() + SETTLES_S
        while time.monotonic() < deadline:
            with suppress(KipctlError):
                if self.lab.node(node).state is NodeState.PAUSED:
                    self.lab.resume(node)
                self.lab.start(node)
                return
            time.sleep(0.5)


def moments(lab: Lab, seeds: Sequence[int]) -> Iterator[Moment]:
    """A drain or a roll with one fault, for each seed."""
    with bench(lab) as one:
        _fill(lab)
        reader = Reader(lab.bootstrap_server, NAME, PARTITIONS)
        seconds = {}
        for words in (DRAIN, ROLL_ALL):
            began = time.monotonic()
            if (ran := one.run(*words)).status:
                raise RuntimeError(f"{words[0]} itself: {ran}")
            seconds[words] = time.monotonic() - began
            if words is DRAIN and (back := one.run("reassign", "--rollback")).status:
                raise RuntimeError(f"rollback itself: {back}")
        for seed in seeds:
            words = (DRAIN, ROLL_ALL)[seed % 2]
            yield _struck(one, reader, seed, words, seconds[words])


def _fill(lab: Lab) -> None:
    settings = {"bootstrap.servers": lab.bootstrap_server, "log_level": 0, "acks": "all"}
    producer = Producer(settings)
    for number in range(PARTITIONS * MEGABYTES * 10):
        producer.produce(NAME, b"x" * 100_000, partition=number % PARTITIONS)
        producer.poll(0)
    if producer.flush(120):
        raise RuntimeError("the topic cannot be filled")


def _struck(one: Bench, reader: Reader, seed: int, words: Sequence[str], within_s: float) -> Moment:
    chance = random.Random(seed)
    node = chance.choice(one.lab.nodes)
    what = chance.choice((KILL, PAUSE, RESTART))
    fault = Fault(what, node.id, chance.uniform(0, within_s), chance.uniform(1, 10))
    before, began = one.processes, time.monotonic()
    striker = Striker(one.lab, fault)
    wrong: list[str] = []
    with load(one.lab.bootstrap_server, NAME, PARTITIONS, prefix=f"{seed}-") as settled:
        striker.start()
        ran, how = Ran(-1, ""), ""
        try:
            ran = one.run(*words)
            how = words[0]
            striker.join()
            wrong.append(one.mend())
            checks = _drain_is_true if words is DRAIN else _roll_is_true
            how = checks(one, ran, before, wrong)
        except subprocess.TimeoutExpired as stuck:
            wrong.append(f"it did not end: {stuck}")
        striker.join()
        wrong.append(one.mend())
    wrong.append(check(settled, reader))
    wrong += (
        [f"{len(settled.failed)} records failed: {settled.failed[0]}"] if settled.failed else []
    )
    one.elect()
    wrong.append(one.difference(_as_before(one)))
    return Moment(
        seed,
        f"{words[0]}: {fault.what}",
        node.spec.label,
        fault.after_s,
        ran.status,
        how,
        time.monotonic() - began,
        sum(settled.acknowledged.values()),
        "; ".join(filter(None, wrong)),
    )


def _drain_is_true(one: Bench, ran: Ran, before: dict[int, int | None], wrong: list[str]) -> str:
    """Hold what a drain has said beside the cluster, end it, and undo it; how it was ended."""
    how = "itself"
    if ran.status:
        how = "nothing was changed"
        if "Nothing was changed" in ran.said:
            wrong.append(one.difference(_replicas_as_before(one)))
        elif not re.search(
            r"kipctl reassign .*--(resume|rollback|verify|cancel|clear-throttles)", ran.said
        ):
            wrong.append(f"it does not say what is left to do: {ran}")
        again = one.run("reassign", "--resume", *TIMEOUT)
        if "othing is left to resume" in again.said:
            again = one.run(*DRAIN)
        else:
            how = "--resume"
        if again.status:
            wrong.append(f"resumed: {again}")
    wrong.append(one.difference(_drained))
    back = one.run("reassign", "--rollback", *TIMEOUT)
    if back.status:
        wrong.append(f"rollback: {back}")
    return how


def _drained(now: Layout) -> str:
    return f"not drained: {now}" if any(DRAINED in one for one in now.replicas) else ""


def _replicas_as_before(one: Bench) -> Callable[[Layout], str]:
    return lambda now: "" if now.replicas == one.before.replicas else f"changed: {now}"


def _roll_is_true(one: Bench, ran: Ran, before: dict[int, int | None], wrong: list[str]) -> str:
    """Hold what a roll has said beside the processes, and end it; how it was ended."""
    how = "itself"
    wrong.append(_steps_are_true(one, ran, before))
    for _ in range(5):
        if not ran.status:
            break
        if "kipctl roll --resume" not in ran.said:
            how = "the same again"  # it was refused before it began
            if ran.status != 4:
                wrong.append(f"it does not say what is left to do: {ran}")
            ran = one.run(*ROLL_ALL)
            continue
        asked = re.search(r"Stopped at (?:broker|controller) (\d+) \((.*?)\)", ran.said)
        if asked is None:
            wrong.append(f"it does not say at which node: {ran}")
            break
        node, how = int(asked[1]), "--resume"
        said: tuple[str, ...] = ()
        if UNABLE in ran.said:
            how = "--was-restarted"
            said = ("--was-restarted", "yes" if one.processes[node] != before[node] else "no")
        ran = one.run("roll", "--resume", *said)
        wrong.append(one.mend())
    if ran.status:
        wrong.append(f"not ended: {ran}")
    else:
        same = [node for node, pid in one.processes.items() if pid == before[node]]
        wrong.append(f"not restarted: {same}" if same else "")
    wrong.append(one.difference(_replicas_as_before(one)))
    return how


def _steps_are_true(one: Bench, ran: Ran, before: dict[int, int | None]) -> str:
    """Nodes that are said to be done are new processes."""
    now = one.processes
    steps = ran.document.get("steps", ())
    old = [
        s["broker"]
        for s in steps
        if s["phase"] == "done" and now[s["broker"]] == before[s["broker"]]
    ]
    return f"said to be done, and not restarted: {old}" if old else ""


def report(ended: Sequence[Moment]) -> Report:
    """How many there were of each, and the faults."""
    kinds = Counter((one.what, one.node, str(one.status), one.ended_by) for one in ended)
    faults = [one for one in ended if one.fault]
    rows = tuple((*kind, number) for kind, number in sorted(kinds.items()))
    columns = ("What", "Of", "Status", "Ended by", Column("Moments"))
    acknowledged = sum(one.acknowledged for one in ended)
    read = f" {acknowledged:,} records were acknowledged." if acknowledged else ""
    return Report(
        NAME,
        {"moments": [asdict(one) for one in ended], "faults": len(faults)},
        (Table("Killed, and ended", columns, rows),),
        (
            f"{len(ended)} moments, {len(faults)} faults.{read}",
            *(f"{one.seed}: {one.fault}" for one in faults),
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--kills", type=int)
    what.add_argument("--moments", type=int)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--output", type=OutputFormat, default=OutputFormat.AUTO)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    ended: list[Moment] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        size = {"brokers": 3} if options.kills else {"brokers": 4, "controllers": 3}
        lab = Lab.up(LabSpec(name=NAME, c1_only=True, config=UNASKED, **size), lambda text: None)
        try:
            seeds = range(options.seed, options.seed + (options.kills or options.moments))
            for one in (kills if options.kills else moments)(lab, seeds):
                sys.stderr.write(f"{one}\n")
                ended.append(one)
        finally:
            lab.down()
            write(report(ended), options.output, sys.stdout, sys.stdout.isatty())
    sys.exit(any(one.fault for one in ended))


if __name__ == "__main__":
    main()
