"""Rolls that are killed, and rolls and drains of clusters whose nodes are killed under load.

    python benchmarks/roll_faults.py --kills 30 --seed 1 [--output json]
    python benchmarks/roll_faults.py --moments 20 --seed 1 [--output json]

`--kills`: on a lab of three brokers `kipctl roll --lab` is ended by SIGKILL when a random broker
has come to a random phase, up to a second later; one `--resume` in three is killed too. The last
`--resume` has to end with status 0 (or say which broker to look at: then it is told what its log
says): each broker has started once, replicas and leaders are as before.

`--moments`: on a lab of four brokers and three controllers, under an acks=all load, a random node
is killed, paused or restarted at a random moment of a throttled drain or of a roll with
`--controllers`, and comes back after some seconds. kipctl has to end. What it says is held beside
what is to be seen: with status 0 the drained broker has no replica, or every rolled node is a new
process; otherwise the nodes that it says are done are, and the command that it names ends it with
status 0. Every record that was acknowledged is in the log once, read by another client.

`--seed` with what it was plus N, and 1, repeats moment N.
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
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

from acknowledged import Reader, check, load
from confluent_kafka import ElectionType, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kipctl.changes.journal.journal import journal
from kipctl.cluster.topics import await_topic
from kipctl.errors import KipctlError
from kipctl.lab.cluster import Lab
from kipctl.lab.node import NodeState
from kipctl.lab.properties import LabSpec, Role
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Column, Report, Table
from kipctl.roll.next_step import Phase
from kipctl.roll.record import RollRecord, rolls
from kipctl.transport.request import Cluster

NAME = "roll-faults"
STARTED = "Kafka Server started"
PARTITIONS = 8
MEGABYTES = 2
"""In each partition, for a drain to copy."""
RATE = "400kB/s"
RECORDS_PER_SECOND = 50.0
UNASKED = (("leader.imbalance.check.interval.seconds", "86400"),)
PATIENCE_S = 900.0
SETTLES_S = 120.0
POLL_S = 0.01
TIMEOUT = ("--timeout", "240")
ROLL = ("roll", "--lab", *TIMEOUT)
DRAINED = 4
DRAIN = (
    *("reassign", "--drain", str(DRAINED), "--topic", NAME),
    *("--batch", "2", "--between", "0s", "--throttle", RATE, *TIMEOUT),
)
DRAINS_S = 15.0
RESTARTS_S = 3.0
"""How long a drain, and the restart of a broker, take at least: by the throttle, and by the session
of a broker, which has to end before it is registered again."""
RESUMES = 3
"""One in so many resumes is killed too."""
PHASES = (Phase.LEADERS_OFF, Phase.RESTARTING, Phase.RESTARTED, Phase.LEADERS_BACK)
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
            document, _ = json.JSONDecoder().raw_decode(self.said[max(start, 0) :].lstrip())
            return dict(document)
        return {}

    def __str__(self) -> str:
        return f"status {self.status}: {self.said.strip()[-600:]}"


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment, how kipctl ended, and what was wrong; times are seconds."""

    number: int
    what: str
    node: str
    after_s: float
    status: int
    ended_by: str
    took_s: float
    acknowledged: int = 0
    fault: str = ""


def starts(lab: Lab) -> frozenset[tuple[int, str]]:
    """What the brokers' logs tell of their starts: the broker, and the line with its time.

    A log that has grown too large is rolled over: that of before is read too.
    """
    told = set()
    for node in lab.nodes:
        for path in (node.log_path, node.log_path.with_name(f"{node.log_path.name}.1")):
            with suppress(FileNotFoundError):
                lines = path.read_text(errors="replace").splitlines()
                told.update((node.id, line) for line in lines if STARTED in line)
    return frozenset(start for start in told if lab.node(start[0]).role is Role.BROKER)


def started(lab: Lab, before: Set[tuple[int, str]]) -> Counter[int]:
    """How often each broker has started since."""
    return Counter(broker for broker, _ in starts(lab) - before)


class Bench:
    """A lab with a topic on it; kipctl's records are where the lab's are."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.brokers = [node.id for node in lab.nodes if node.role is Role.BROKER]
        self.admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
        self.before = self.layout()

    def layout(self) -> Layout:
        """As another client than kipctl sees it."""
        partitions = self.admin.list_topics(NAME, timeout=30).topics[NAME].partitions
        parts = [partitions[number] for number in sorted(partitions)]
        return Layout(
            tuple(tuple(partition.replicas) for partition in parts),
            tuple(partition.leader for partition in parts),
            all(sorted(partition.replicas) == sorted(partition.isrs) for partition in parts),
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

    def kill(
        self, after_s: float, *words: str, phase: Phase | None = None, broker: int = 0
    ) -> bool:
        """Kill it so long after a broker has come to a phase; False when it had ended before.

        Without a phase it is so long after its start.
        """
        earlier = self.last_roll
        with self.start(*words) as process:
            while phase and not self._has_come(earlier, phase, broker) and process.poll() is None:
                time.sleep(POLL_S)
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=after_s)
                return False
            process.kill()
            process.communicate()
            return True

    def _has_come(self, earlier: RollRecord | None, phase: Phase, broker: int) -> bool:
        """Whether a roll that is not the earlier one has come to this phase of this broker."""
        record = self.last_roll
        is_new = record is not None and (earlier is None or record.id != earlier.id)
        return is_new and str(phase) in record.step(broker).at

    @property
    def processes(self) -> dict[int, int | None]:
        return {node.id: node.pid for node in self.lab.nodes}

    @property
    def last_roll(self) -> RollRecord | None:
        return next(rolls(journal(self.lab.cluster_id)), None)

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


def kills(lab: Lab, chances: Iterable[random.Random], brokers: Sequence[int]) -> Iterator[Moment]:
    """kipctl is killed once for each chance while it restarts these brokers, and some resumes."""
    roll = [*ROLL]
    for broker in brokers:
        roll += ("--broker", str(broker))
    with bench(lab) as test_bench:
        for number, chance in enumerate(chances):
            yield _killed(test_bench, number, chance, roll, brokers)


def _killed(
    bench: Bench, number: int, chance: random.Random, roll: Sequence[str], brokers: Sequence[int]
) -> Moment:
    phase, broker = chance.choice((None, *PHASES)), chance.choice(brokers)
    after_s = chance.uniform(0, 1)
    before, earlier, began = starts(bench.lab), bench.last_roll, time.monotonic()
    bench.kill(after_s, *roll, phase=phase, broker=broker)
    record = bench.last_roll
    if record is None or (earlier and record.id == earlier.id):
        is_same = starts(bench.lab) == before
        fault = bench.difference(_as_before(bench)) or ("" if is_same else "a broker was restarted")
        return Moment(number, "killed", "kipctl", after_s, 0, "nothing was begun", 0, fault=fault)
    how = "--resume"
    state = "done"
    if left := record.left:
        state = str(left[0].phase)
    while record.may_be_resumed and not chance.randrange(RESUMES):
        how = "--resume, killed too"
        bench.kill(chance.uniform(0, RESTARTS_S * len(brokers)), "roll", "--resume")
        record = bench.last_roll or record
    fault, status = "", 0
    if record.may_be_resumed:
        ran = bench.run("roll", "--resume")
        if ran.status == 5 and UNABLE in ran.said:
            how, ran = "--was-restarted", _told(bench, before, ran)
        status = ran.status
        fault = f"{ran}" if status else ""
    times = started(bench.lab, before)
    if not fault and times != Counter(brokers):
        fault = f"started: {dict(times)}"
    fault = fault or bench.difference(_as_before(bench))
    took_s = time.monotonic() - began
    return Moment(number, "killed", f"kipctl ({state})", after_s, status, how, took_s, fault=fault)


def _told(bench: Bench, before: Set[tuple[int, str]], ran: Ran) -> Ran:
    """Say what the log of the broker in hand says."""
    asked = re.search(r"Stopped at broker (\d+)", ran.said)
    if asked is None:
        return ran
    was_restarted = "yes" if started(bench.lab, before)[int(asked[1])] else "no"
    return bench.run("roll", "--resume", "--was-restarted", was_restarted)


def _as_before(bench: Bench) -> Callable[[Layout], str]:
    return lambda now: "" if now == bench.before else f"{now} instead of {bench.before}"


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


def moments(lab: Lab, chances: Iterable[random.Random], rolled: int) -> Iterator[Moment]:
    """A drain, or a roll of so many brokers and all controllers, with one fault for each chance."""
    with bench(lab) as test_bench:
        _fill(lab)
        reader = Reader(lab.bootstrap_server, NAME, PARTITIONS)
        for number, chance in enumerate(chances):
            yield _struck(test_bench, reader, number, chance, rolled)


def _fill(lab: Lab) -> None:
    settings = {"bootstrap.servers": lab.bootstrap_server, "log_level": 0, "acks": "all"}
    producer = Producer(settings)
    for number in range(PARTITIONS * MEGABYTES * 10):
        producer.produce(NAME, b"x" * 100_000, partition=number % PARTITIONS)
        producer.poll(0)
    if producer.flush(120):
        raise RuntimeError("the topic cannot be filled")


def _struck(
    bench: Bench, reader: Reader, number: int, chance: random.Random, rolled: int
) -> Moment:
    node = chance.choice(bench.lab.nodes)
    what = chance.choice((KILL, PAUSE, RESTART))
    words, within_s = DRAIN, DRAINS_S
    if not chance.randrange(2):
        brokers = chance.sample(bench.brokers, rolled)
        chosen = (word for broker in brokers for word in ("--broker", str(broker)))
        words, within_s = (*ROLL, "--controllers", *chosen), RESTARTS_S * rolled
    fault = Fault(what, node.id, chance.uniform(0, within_s), chance.uniform(1, 10))
    before, began = bench.processes, time.monotonic()
    striker = Striker(bench.lab, fault)
    wrong: list[str] = []
    with load(
        *(bench.lab.bootstrap_server, NAME, PARTITIONS),
        rate=RECORDS_PER_SECOND,
        prefix=f"{number}-",
    ) as settled:
        striker.start()
        ran, how = Ran(-1, ""), ""
        try:
            ran = bench.run(*words)
            how = words[0]
            striker.join()
            wrong.append(bench.mend())
            checks = _drain_is_true if words is DRAIN else _roll_is_true
            how = checks(bench, words, ran, before, wrong)
        except subprocess.TimeoutExpired as stuck:
            wrong.append(f"it did not end: {stuck}")
        striker.join()
        wrong.append(bench.mend())
    wrong.append(check(settled, reader))
    wrong += (
        [f"{len(settled.failed)} records failed: {settled.failed[0]}"] if settled.failed else []
    )
    bench.elect()
    wrong.append(bench.difference(_as_before(bench)))
    return Moment(
        number,
        f"{words[0]}: {fault.what}",
        node.spec.label,
        fault.after_s,
        ran.status,
        how,
        time.monotonic() - began,
        sum(settled.acknowledged.values()),
        "; ".join(filter(None, wrong)),
    )


def _drain_is_true(
    bench: Bench, words: Sequence[str], ran: Ran, before: dict[int, int | None], wrong: list[str]
) -> str:
    """Hold what a drain has said beside the cluster, end it, and undo it; how it was ended."""
    how, undos = "itself", 1
    if ran.status:
        how = "nothing was changed"
        if "Nothing was changed" in ran.said:
            wrong.append(bench.difference(_replicas_as_before(bench)))
        elif not re.search(
            r"kipctl (changes (resume|cancel|clear-throttles)|undo|reassign .*--verify)"
            r"|[Rr]epeat the command",
            ran.said,
        ):
            wrong.append(f"it does not say what is left to do: {ran}")
        again = bench.run("changes", "resume", *TIMEOUT)
        if "othing is left to resume" in again.said:
            again = bench.run(*words)
            # One that left replicas, as a broker for them was away, is a change of its own.
            is_begun = '"entry": "' in ran.said
            undos += is_begun and bool(re.search("[Rr]epeat the command", ran.said))
        else:
            how = "--resume"
        if again.status:
            wrong.append(f"resumed: {again}")
    wrong.append(bench.difference(_drained))
    for _ in range(undos):
        back = bench.run("undo", *TIMEOUT)
        if back.status:
            wrong.append(f"rollback: {back}")
    return how


def _drained(now: Layout) -> str:
    return f"not drained: {now}" if any(DRAINED in replicas for replicas in now.replicas) else ""


def _replicas_as_before(bench: Bench) -> Callable[[Layout], str]:
    return lambda now: "" if now.replicas == bench.before.replicas else f"changed: {now}"


def _roll_is_true(
    bench: Bench, words: Sequence[str], ran: Ran, before: dict[int, int | None], wrong: list[str]
) -> str:
    """Hold what a roll has said beside the processes, and end it; how it was ended."""
    how = "itself"
    wrong.append(_steps_are_true(bench, ran, before))
    for _ in range(5):
        if not ran.status:
            break
        if "kipctl roll --resume" not in ran.said:
            how = "the same again"  # it was refused before it began
            if ran.status != 4:
                wrong.append(f"it does not say what is left to do: {ran}")
            ran = bench.run(*words)
            continue
        asked = re.search(r"Stopped at (?:broker|controller) (\d+) \((.*?)\)", ran.said)
        if asked is None:
            wrong.append(f"it does not say at which node: {ran}")
            break
        node, how = int(asked[1]), "--resume"
        said: tuple[str, ...] = ()
        if UNABLE in ran.said:
            how = "--was-restarted"
            said = ("--was-restarted", "yes" if bench.processes[node] != before[node] else "no")
        ran = bench.run("roll", "--resume", *said)
        wrong.append(bench.mend())
    if ran.status:
        wrong.append(f"not ended: {ran}")
    else:
        record = bench.last_roll
        rolled = [step.broker for step in record.steps] if record else []
        same = [node for node in rolled if bench.processes[node] == before[node]]
        wrong.append(f"not restarted: {same}" if same or not rolled else "")
    wrong.append(bench.difference(_replicas_as_before(bench)))
    return how


def _steps_are_true(bench: Bench, ran: Ran, before: dict[int, int | None]) -> str:
    """Nodes that are said to be done are new processes."""
    now = bench.processes
    steps = ran.document.get("steps", ())
    old = [
        s["broker"]
        for s in steps
        if s["phase"] == "done" and now[s["broker"]] == before[s["broker"]]
    ]
    return f"said to be done, and not restarted: {old}" if old else ""


def report(ended: Sequence[Moment]) -> Report:
    """How many there were of each, and the faults."""
    kinds = Counter(
        (moment.what, moment.node, str(moment.status), moment.ended_by) for moment in ended
    )
    faults = [moment for moment in ended if moment.fault]
    rows = tuple((*kind, number) for kind, number in sorted(kinds.items()))
    columns = ("What", "Of", "Status", "Ended by", Column("Moments"))
    acknowledged = sum(moment.acknowledged for moment in ended)
    read = f" {acknowledged:,} records were acknowledged." if acknowledged else ""
    return Report(
        NAME,
        {"moments": [asdict(moment) for moment in ended], "faults": len(faults)},
        (Table("Killed, and ended", columns, rows),),
        (
            f"{len(ended)} moments, {len(faults)} faults.{read}",
            *(f"{moment.number}: {moment.fault}" for moment in faults),
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
            chances = map(random.Random, seeds)
            tried = kills(lab, chances, (1, 2, 3)) if options.kills else moments(lab, chances, 4)
            for moment in tried:
                sys.stderr.write(f"{moment}\n")
                ended.append(moment)
        finally:
            lab.down()
            write(report(ended), options.output, sys.stdout, sys.stdout.isatty())
    sys.exit(any(moment.fault for moment in ended))


if __name__ == "__main__":
    main()
