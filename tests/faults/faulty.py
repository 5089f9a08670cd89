"""A cluster on loopback, and a kipctl that changes it and is cut off at any step of its way."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from pathlib import Path

from on_lab import Ran
from passing_clock import __file__ as clock_file
from passing_clock import passing_clock
from reassigning import Reassigning, reassigning
from scripted_broker import ScriptedBroker
from victims import Order

from kipctl.changes.plans.kafka_json import reassignment_document
from kipctl.cluster.snapshot import PartitionId
from kipctl.protocol.describe_configs import ResourceType

VICTIMS = Path(__file__).with_name("victims.py")
T = [PartitionId("t", n) for n in range(5)]
REPLICAS = dict(zip(T, [(1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 3, 2), (2, 1, 3)], strict=True))
CONFIGS = {
    (int(ResourceType.TOPIC), "t"): {"leader.replication.throttled.replicas": "*"},
    (int(ResourceType.BROKER), "1"): {"leader.replication.throttled.rate": "7"},
}
DRAIN = ("reassign", "--drain", "3", "--batch", "2", "--between", "0s", "--throttle", "50MB/s")
PHASES = (
    dict(zip(T, [(1, 2, 4), (2, 4, 1), (4, 1, 2)], strict=False)),
    dict(zip(T[1:], [(2, 4, 3), (4, 1, 3), (1, 4, 2)], strict=False)),
)
ELECT = ("elect", "preferred", "--topic", "t", "--batch", "2")
LOOKS = 3
"""So often a move is listed before it has arrived."""


@dataclass(frozen=True)
class Cut:
    """How a run ended: its status, negative when a signal ended it, its steps, and what it said."""

    status: int
    steps: int
    said: str

    @property
    def is_killed(self) -> bool:
        return self.status < 0


class Victims:
    """Runs command lines in processes of their own, each with its fault."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def run(self, order: Order) -> Cut:
        """Run one, to its end."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(asdict(order)) + "\n")
        stdin.flush()
        answer = json.loads(stdout.readline())
        return Cut(answer["status"], answer["steps"], Path(order.log).read_text())


@contextmanager
def victims() -> Iterator[Victims]:
    """Ends with the block: its input does."""
    with subprocess.Popen(
        [sys.executable, str(VICTIMS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(clock_file).parent)},
    ) as process:
        yield Victims(process)


@dataclass
class World:
    """One cluster, its journal, and the commands given to it."""

    fake: Reassigning
    broker: ScriptedBroker
    victims: Victims
    log: list[str] = field(default_factory=list)

    @property
    def state(self) -> tuple[object, ...]:
        """All of the cluster that kipctl changes."""
        configs = {name: own for name, own in self.fake.configs.items() if own}
        busy = [p for p, held in self.fake.partitions.items() if held.target]
        return self.fake.replicas(), self.fake.leaders(), configs, busy

    @property
    def phased(self) -> tuple[str, ...]:
        """A change in phases, some partitions in both."""
        words = ["reassign", *DRAIN[3:]]
        for number, target in enumerate(PHASES, 1):
            path = self.fake.state / f"{number}.json"
            path.write_text(json.dumps(reassignment_document(target)))
            words += ["--plan", str(path)]
        return tuple(words)

    def cut(self, arguments: Sequence[str], step: int, fault: str = "kill") -> Cut:
        """Run a command line, with its fault at this step; returns when all it sent has come."""
        order = Order(
            [*" ".join(arguments).split(), "--yes", "--timeout", "60"],
            {
                "KIPCTL_BOOTSTRAP_SERVER": self.broker.address,
                "XDG_STATE_HOME": str(self.fake.state),
            },
            str(self.fake.state / "log"),
            step,
            fault,
        )
        cut = self.victims.run(order)
        self.broker.await_end()
        self.log.append(f"{' '.join(arguments)}: {cut}")
        return cut

    def run(self, *arguments: str) -> Ran:
        """Run a command line in this process, without a fault."""
        ran = self.fake.kipctl(*arguments, "--timeout", "60")
        self.log.append(f"{' '.join(arguments)}: {ran}")
        return ran


@contextmanager
def world(victims: Victims) -> Iterator[World]:
    """A new one, whose moves of data take a while, though nobody has to wait for it."""
    with passing_clock(), reassigning(REPLICAS) as (fake, broker):
        fake.configs = deepcopy(CONFIGS)
        fake.moves_at_once, fake.looks = False, LOOKS
        yield World(fake, broker, victims)


@contextmanager
def world_astray(victims: Victims) -> Iterator[World]:
    """The same, with most partitions led by their second replica."""
    with world(victims) as cluster:
        for partition in T[:4]:
            held = cluster.fake.partitions[partition]
            held.leader = held.replicas[1]
        yield cluster
