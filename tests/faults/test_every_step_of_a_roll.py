"""kipctl killed, or out of disk, at any step of a roll of two brokers.

Whatever it left, `kipctl changes resume` ends it: each broker was restarted once, and leads as
before. `kipctl undo` of what is left brings the leaders back. A few steps are taken each time,
others than the time before; in soak all of them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import pytest
from campaigns import as_many, campaign, chance
from faulty import Victims, World, victims, world
from scripted_broker import Asked

from kipctl.process import is_alive
from kipctl.protocol.api import ApiKey
from kipctl.protocol.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kipctl.protocol.message import Response
from kipctl.protocol.metadata import MetadataRequest
from kipctl.roll.process_identity import BLOCK
from kipctl.roll.record import RollState, rolls

pytestmark = [campaign, pytest.mark.timeout(3600)]

LOOKS = 4
"""So often a broker that was restarted is not listed."""


@dataclass
class Restarts:
    """Brokers of a world that are restarted by a command: it writes their ids into `ran`."""

    world: World
    away: int = 0
    seen: int = 0

    @property
    def ran(self) -> Path:
        return self.world.fake.state / "ran"

    @property
    def ids(self) -> list[int]:
        return [int(line) for line in self.ran.read_text().split()] if self.ran.exists() else []

    @property
    def roll(self) -> tuple[str, ...]:
        for broker in (1, 2):
            script = self.ran.with_name(f"restart-{broker}")
            script.write_text(f"#!/bin/sh\necho {broker} >> {self.ran}\n")
            script.chmod(0o755)
        restart = str(self.ran.with_name("restart-{broker}"))
        return ("roll", "--broker", "1", "--broker", "2", "--exec", restart)

    def answer(self, asked: Asked) -> Response | bytes | None:
        """As a cluster whose restarted broker is a new process, and was away for a while."""
        fake = self.world.fake
        match asked.request:
            case InitProducerIdRequest():
                return InitProducerIdResponse(producer_id=(1 + len(self.ids)) * BLOCK)
            case MetadataRequest():
                ids = self.ids
                if len(ids) > self.seen:
                    self.seen, self.away = len(ids), LOOKS
                self.away -= self.away > 0
                fake.brokers = tuple(id for id in (1, 2, 3, 4) if not (self.away and id == ids[-1]))
        return fake.answer(asked)


@contextmanager
def rolled(runner: Victims) -> Iterator[tuple[World, Restarts]]:
    with world(runner) as cluster:
        restarts = Restarts(cluster)
        cluster.fake.configs.clear()
        cluster.broker.answers = restarts.answer
        cluster.broker.versions = {**cluster.broker.versions, ApiKey.INIT_PRODUCER_ID: (0, 4)}
        yield cluster, restarts


@pytest.fixture(scope="module")
def runner() -> Iterator[Victims]:
    with victims() as started:
        with rolled(started) as (cluster, restarts):
            cut = cluster.cut(restarts.roll, 0, "rehearsal")
            assert cut.status == 0, cut.said
        yield started


@pytest.fixture(scope="module")
def steps(runner: Victims) -> dict[str, int]:
    """How many there are of a roll when nothing goes wrong."""
    counts = {}
    for fault in ("kill", "full"):
        with rolled(runner) as (cluster, restarts):
            before = cluster.state
            cut = cluster.cut(restarts.roll, 0, fault)
            assert cut.status == 0, cut.said
            assert cluster.state == before
            assert restarts.ids == [1, 2]
            counts[fault] = cut.steps
    assert counts["kill"] > 200
    assert counts["full"] > 40
    return counts


def spread(name: str, number: int, few: int) -> range:
    apart = -(-number // as_many(few, number))
    return range(chance(name).randint(1, apart), number, apart)


def await_command(cluster: World) -> None:
    """A command that goes on has time of its own: the clock of these tests passes too fast."""
    for record in rolls(cluster.fake.kept):
        for _ in range(6_000):
            if not any(step.process and is_alive(step.process) for step in record.left):
                break
            Event().wait(0.01)
        else:
            pytest.fail("a restart command goes on for more than a minute")


def require_ended(cluster: World, restarts: Restarts, before: object) -> None:
    """Go on with what was cut off; what was cut off before it was written down did nothing."""
    await_command(cluster)
    [*records] = rolls(cluster.fake.kept)
    if not records or records[0].state in (RollState.DONE, RollState.ABANDONED):
        assert restarts.ids == ([1, 2] if records and not records[0].left else []), cluster.log
    else:
        ran = cluster.run("changes resume", "--yes")
        assert ran.status == 0, cluster.log
        assert restarts.ids == [1, 2], cluster.log
    assert cluster.state == before, cluster.log
    assert list(cluster.fake.kept.unfinished()) == [], cluster.log
    ran = cluster.run("changes resume", "--yes")
    assert "othing is left to resume" in ran.err, cluster.log


def test_killed_at_any_step_it_is_ended_by_the_next(runner: Victims, steps: dict[str, int]) -> None:
    for step in spread("a roll", steps["kill"], 6):
        with rolled(runner) as (cluster, restarts):
            before = cluster.state
            cut = cluster.cut(restarts.roll, step)
            assert cut.is_killed or cut.status == 0, cluster.log
            require_ended(cluster, restarts, before)


def test_killed_at_any_step_its_leaders_come_back_by_undo(
    runner: Victims, steps: dict[str, int]
) -> None:
    for step in spread("a roll is undone", steps["kill"], 4):
        with rolled(runner) as (cluster, restarts):
            before = cluster.state
            cluster.cut(restarts.roll, step)
            await_command(cluster)
            for record in rolls(cluster.fake.kept):
                undo = f"undo {record.id} --yes"
                ran = cluster.fake.kipctl(undo, status=(0, 4, 5))
                if "not in sync" in ran.err:  # the broker is away, and in sync a few looks later
                    ran = cluster.fake.kipctl(undo)
                assert ran.status == 0 or "moved are back" in ran.err, (ran, cluster.log)
            assert cluster.state == before, cluster.log


def test_out_of_disk_at_any_write_it_says_so_and_is_gone_on_with(
    runner: Victims, steps: dict[str, int]
) -> None:
    for step in spread("a roll without room", steps["full"], 4):
        with rolled(runner) as (cluster, restarts):
            before = cluster.state
            cut = cluster.cut(restarts.roll, step, "full")
            assert "Traceback" not in cut.said
            assert cut.status in (0, 2, 5), cluster.log
            assert "No space left on device" in cut.said or cut.status == 0, cluster.log
            if cut.status == 2:
                assert (restarts.ids, cluster.state) == ([], before), cluster.log
            require_ended(cluster, restarts, before)
