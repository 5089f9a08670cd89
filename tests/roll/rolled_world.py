"""A cluster that is not there, for rolls whose kipctl is killed: its brokers count their restarts.

Commands are real processes, which write down that they ran.
"""

import io
import os
import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

from plan_worlds import cluster_of

from kipctl.changes.context import ChangeContext
from kipctl.changes.guard_interface import ChangeGuard, RecordedGuard
from kipctl.changes.journal.entry import Origin
from kipctl.changes.journal.journal import Journal
from kipctl.cluster.snapshot import Snapshot
from kipctl.errors import UnreachableError
from kipctl.guard.conditions import Guard
from kipctl.guard.exporters import Exporters
from kipctl.guard.monitor import GivenUpError, GuardMonitor
from kipctl.protocol.address import Address
from kipctl.roll.execution import Roll
from kipctl.roll.move_leaders import LeaderMover
from kipctl.roll.node_watch import ClusterWatch, ControllerWatch, NodeWatch
from kipctl.roll.plan import Facts, plan_roll
from kipctl.roll.process_identity import BLOCK, ProcessMark
from kipctl.roll.quorum import Quorum, Voter, quorum_problem
from kipctl.roll.record import Restarter, RollOptions, RollRecord, begin_roll, read_roll
from kipctl.transport.request import Cluster

SCRIPT = 'echo "$1" >> "$2"; exit "$3"'


class KilledError(BaseException):
    """kipctl is gone, at this very moment."""


@dataclass
class World:
    """Three brokers, each leading one partition of three, and three controllers; 101 is active.

    `dies_at` is the number of the moment at which kipctl is killed; `tells_ids` whether brokers
    give producer ids, `tells_starts` whether controllers have metrics, and `brings_back`
    whether somebody moves leaders back at once. The guard gives up when it is asked for the
    time `gives_up_at`; Ctrl-C comes at moment `interrupted_at`. An operator who is asked for a
    restart does it, and presses Enter by the descriptor `types_to`. For so many looks,
    `late_looks`, controller 103 is not caught up. Look by look, a broker that is restarted
    still `copies` this. In the `short_looks` of the last `looks` before restarts a replica is
    not in sync; in the `silent_looks` nobody answers. The guard pauses the roll for
    `guard_pause_s` each time it is asked. The world has a clock of its own, `now_s`.
    """

    folder: Path
    status: int = 0
    tells_ids: bool = True
    tells_starts: bool = True
    late_looks: int = 0
    copies: list[str] = field(default_factory=list)
    short_looks: range = range(0)
    silent_looks: range = range(0)
    looks: int = 0
    guard_pause_s: float = 0.0
    now_s: float = 0.0
    brings_back: bool = False
    gives_up_at: int = -1
    interrupted_at: int = -1
    stdin: TextIO = field(default_factory=io.StringIO)
    types_to: int = -1
    dies_at: int = -1
    moments: int = 0
    off: set[int] = field(default_factory=set)
    not_known: tuple[str, ...] = ()
    said: list[str] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    rolls: list[Roll] = field(default_factory=list)

    @property
    def quorum(self) -> Quorum:
        """Whoever is active when it is restarted hands over to the next one."""
        leader, epoch = 101, 1
        for node in self.restarts:
            if node == leader:
                leader, epoch = (node - 100) % 3 + 101, epoch + 1
        voters = tuple(Voter(controller, "c", 9, 0, 0) for controller in (101, 102, 103))
        return Quorum(leader, epoch, voters)

    @property
    def facts(self) -> Facts:
        quorum = self.quorum
        least: dict[str, int | None] = {"t": 2}
        return Facts(
            self.snapshot,
            quorum.ids,
            quorum.active,
            min_insync=least,
            not_known=self.not_known,
            quorum=quorum,
        )

    @property
    def journal(self) -> Journal:
        return Journal(self.folder / "journal", "c")

    @property
    def ran(self) -> Path:
        return self.folder / "ran"

    @property
    def restarts(self) -> list[int]:
        return [int(line) for line in self.ran.read_text().split()] if self.ran.exists() else []

    @property
    def snapshot(self) -> Snapshot:
        leaders = [broker if broker not in self.off else broker % 3 + 1 for broker in (1, 2, 3)]
        return cluster_of((1, 2, 3), (2, 3, 1), (3, 1, 2), brokers=(1, 2, 3), leaders=leaders)

    def still_copied(self) -> str:
        """What a broker that has been restarted lacks, of whatever topic; "" when it is whole."""
        copied = self.copies[:1] if self.restarts else []
        del self.copies[: len(copied)]
        return "".join(copied)

    def monotonic(self) -> float:
        """With `sleep` in place of those of `time`."""
        return self.now_s

    def sleep(self, seconds: float) -> None:
        """The time passes at once, and in it a restart that was called comes to its end."""
        self.now_s += seconds
        for step in self.rolls[-1].record.left if self.rolls else ():
            if step.process:
                with suppress(ChildProcessError):
                    os.waitid(os.P_PID, step.process.pid, os.WEXITED | os.WNOWAIT)

    def moment(self) -> None:
        """Something could happen to kipctl here."""
        self.moments += 1
        if self.moments == self.dies_at:
            raise KilledError
        if self.moments == self.interrupted_at:
            raise KeyboardInterrupt

    def begin(
        self,
        *command: str,
        timeout_s: float = 60.0,
        brokers: tuple[int, ...] | None = (),
        controllers: bool = False,
        guard_action: str = "stop",
        restarter: Restarter = Restarter.EXEC,
    ) -> RollRecord:
        """Write a roll down, of all three brokers or of these (None: none), and of the controllers;
        `command` is one that restarts, or this."""
        words = ("sh", "-c", SCRIPT, "sh", "{broker}", str(self.ran), str(self.status))
        guard = RecordedGuard(action=guard_action)
        folder = str(self.folder)
        how = RollOptions(restarter, command or words, folder, guard=guard, timeout_s=timeout_s)
        steps = plan_roll(self.facts, brokers, controllers=controllers).steps
        return begin_roll(self.journal, Origin(("roll",)), how, steps)

    def roll(self, record: RollRecord, said: bool | None = None) -> Roll:
        cluster = Cluster("127.0.0.1:9", "test", 1)
        exporters = Exporters()
        roll = Roll(
            record,
            SeenWorld(cluster, exporters, world=self),
            LedWorld(ChangeContext(cluster=cluster), record, self.said.append, world=self),
            GuardingWorld(cluster, Guard(), exporters, self.said.append, world=self),
            self.stdin,
            self.hear,
            self.said.append,
            said,
        )
        self.rolls.append(roll)
        return roll

    def hear(self, text: str) -> None:
        """What the operator is told."""
        self.said.append(text)
        if self.types_to >= 0 and (asked := re.match(r"Restart \w+ (\d+)", text)):
            with self.ran.open("a") as ran:
                ran.write(f"{asked[1]}\n")
            os.write(self.types_to, b"\n")

    def again(self, record: RollRecord) -> RollRecord:
        """What the next kipctl reads."""
        return read_roll(record.path)


class SeesRestarts:
    """A node is up, and was away if one has been restarted since it was forgotten."""

    __slots__ = ()
    world: World
    known: int
    was_away: bool

    def forget(self) -> None:
        self.was_away = False
        self.known = len(self.world.restarts)

    def is_up(self, node: int) -> bool:
        self.world.moment()
        self.was_away = len(self.world.restarts) > self.known
        return True


@dataclass(slots=True)
class SeenWorld(SeesRestarts, ClusterWatch):
    """Looks at the world instead of brokers."""

    world: World = field(kw_only=True)
    known: int = 0

    def cluster_state(self) -> tuple[Snapshot, str]:
        self.world.moment()
        return self.world.snapshot, self.world.still_copied()

    def facts(self) -> Facts:
        self.world.moment()
        facts = self.world.facts
        self.world.looks += 1
        if self.world.looks - 1 in self.world.silent_looks:
            raise UnreachableError("No broker answered.")
        if self.world.looks - 1 in self.world.short_looks:
            first, *others = facts.snapshot.partitions
            short = (replace(first, isr=first.isr[:1]), *others)
            facts = replace(facts, snapshot=replace(facts.snapshot, partitions=short))
        return facts

    def quorum_unmet(self) -> str:
        self.world.moment()
        quorum = self.world.quorum
        if self.world.late_looks:
            self.world.late_looks -= 1
            quorum = replace(quorum, voters=(*quorum.voters[:2], Voter(103)))
        return quorum_problem(quorum)

    def active_controller(self) -> int | None:
        self.world.moment()
        return self.world.quorum.active

    def controller(self, place: Address | None) -> NodeWatch:
        return SeenController(self.cluster, self.exporters, place, world=self.world)

    def mark(self, broker: int) -> ProcessMark:
        self.world.moment()
        lives = self.world.restarts.count(broker)
        return ProcessMark((10 * lives + broker) * BLOCK if self.world.tells_ids else None)


@dataclass(slots=True)
class SeenController(SeesRestarts, ControllerWatch):
    """Looks at a controller of the world, as at a broker, but that it gives no producer ids."""

    world: World = field(kw_only=True)
    known: int = 0

    def mark(self, node: int) -> ProcessMark:
        self.world.moment()
        quorum = self.world.quorum
        started = 1000.0 * self.world.restarts.count(node) if self.world.tells_starts else None
        return ProcessMark(None, started, quorum.epoch if quorum.active == node else None)


@dataclass(frozen=True, slots=True)
class LedWorld(LeaderMover):
    """Moves the world's leaders; it is killed before it does, or before it can say so."""

    world: World = field(kw_only=True)

    def move_off(self, broker: int, guard: ChangeGuard) -> int:
        guard.require_quiet()
        self.world.moment()
        if not self.world.brings_back:
            self.world.off.add(broker)
        self.world.history.append(f"off {broker}")
        self.world.moment()
        return 1

    def bring_back(self, guard: ChangeGuard) -> int:
        self.world.moment()
        brought = len(self.world.off)
        self.world.off.clear()
        self.world.moment()
        return brought


@dataclass(slots=True)
class GuardingWorld(GuardMonitor):
    """Gives up when the world says so."""

    world: World = field(kw_only=True)
    asked: int = 0

    @property
    def given_up(self) -> str:
        return "Given up." if self.asked == self.world.gives_up_at else ""

    def require_quiet(self, away: int | None = None, **_: object) -> None:
        self.asked += 1
        if self.given_up:
            raise GivenUpError(self.given_up)
        self.world.sleep(self.world.guard_pause_s)
