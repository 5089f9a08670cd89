"""Two terminals: what `kipctl roll` has read before its question, or the lock, may have changed."""

import errno
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from commands import Commands
from on_lab import Ran
from one_process import in_this_process
from reassigning import Held, Reassigning, reassigning
from scripted_broker import Asked, ScriptedBroker

from kipctl.changes.guard_interface import RecordedGuard
from kipctl.changes.journal.entry import Origin
from kipctl.changes.journal.journal import Journal, journal
from kipctl.changes.journal.machine_lock import exclusive_lock, lock_path
from kipctl.cli.commands.roll import _FIELDS
from kipctl.cli.environment import Environment
from kipctl.cluster.snapshot import PartitionId
from kipctl.protocol.message import Response
from kipctl.protocol.metadata import MetadataRequest
from kipctl.roll.next_step import Phase
from kipctl.roll.plan import Risk
from kipctl.roll.record import (
    Restarter,
    RollOptions,
    RollRecord,
    RollState,
    begin_roll,
    read_roll,
    rolls,
    unfinished_roll,
)
from kipctl.state import write_whole

T0 = PartitionId("t", 0)


@dataclass
class World(Commands):
    """A cluster of three brokers, and the rolls of it that are written down."""

    fake: Reassigning
    broker: ScriptedBroker
    state: Path

    @property
    def bootstrap_server(self) -> str:
        return self.broker.address

    @property
    def kept(self) -> Journal:
        return journal("fake", {"XDG_STATE_HOME": str(self.state)})

    @property
    def ran(self) -> bool:
        """Whether a broker was restarted."""
        return (self.state / "ran").exists()

    @property
    def command(self) -> tuple[str, ...]:
        return ("touch", str(self.state / "ran"), "{broker}")

    def begun(self) -> RollRecord:
        steps = [Risk(id, "127.0.0.1", 9, None, "broker", 1, 1) for id in (1, 2, 3)]
        how = RollOptions(Restarter.EXEC, self.command, str(self.state), timeout_s=3)
        return begin_roll(self.kept, Origin(("roll",), "u", "h"), how, steps)

    def refused(self, words: str, meanwhile: Callable[[], object]) -> Ran:
        """Somebody does something else while the question stands, and then answers y."""
        ran = self.kipctl(f"roll {words}", typed="y\n", meanwhile=meanwhile, status=4)
        assert not self.ran
        return ran


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with reassigning({T0: (1, 2, 3)}) as (fake, broker):
        fake.brokers = (1, 2, 3)
        yield World(fake, broker, tmp_path)


def went_on(record: RollRecord) -> RollRecord:
    """Another terminal has finished broker 1, called for the restart of 2, and was interrupted."""
    record = record.changed(record.step(1).begin(Phase.DONE)).written()
    record = record.changed(record.step(2).begin(Phase.RESTARTING)).written()
    return record.mark(RollState.STOPPED, "interrupted")


PHASES = [Phase.DONE, Phase.RESTARTING, Phase.WAITING]
"""As `went_on` leaves them."""


def test_a_roll_that_went_on_while_the_question_stood_is_not_resumed_as_it_was(
    world: World,
) -> None:
    record = world.begun()
    ran = world.refused("--resume", lambda: went_on(record))
    assert "has gone on" in ran.err
    now = read_roll(record.path)
    assert [step.phase for step in now.steps] == PHASES
    assert now.state is RollState.STOPPED


def test_a_roll_is_resumed_with_what_is_given_now_and_all_else_as_it_was(world: World) -> None:
    record = world.begun()
    world.kipctl(
        "roll --resume --yes --exec false --timeout 70s --guard 'offline > 0' --force",
        "--guard-patience 5s",
        status=5,
    )
    assert read_roll(record.path).how == replace(
        record.how,
        command=("false",),
        folder=os.getcwd(),
        timeout_s=70,
        guard=RecordedGuard(("offline > 0",), patience_s=5),
        force=True,
    )


def test_a_guard_that_would_see_nothing_is_refused_before_the_question(world: World) -> None:
    ran = world.kipctl("roll --exec false --guard 'metric x > 5' --yes", status=2)
    assert "where metrics are is not known" in ran.err
    assert list(rolls(world.kept)) == []


def test_a_dry_run_names_the_guard_also_where_it_has_measured_nothing(world: World) -> None:
    ran = world.kipctl("roll --exec false --guard 'p99 > 50ms' --dry-run -o json")
    (shown,) = ran.document["guard"]["conditions"]
    assert (shown["condition"], shown["last"], shown["looks"]) == ("p99 > 50ms", None, 0)


def test_every_option_of_a_roll_may_be_given_anew() -> None:
    restarting = {"restarter", "command", "folder", "lab", "guard", "undisturbed"}
    known = {field.name for kind in (RollOptions, RecordedGuard) for field in fields(kind)}
    assert {*_FIELDS.values(), *restarting} == known


def test_a_program_that_is_not_there_is_told_before_the_question(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked for where the operator stands, who may stand elsewhere when it is resumed."""
    here, elsewhere = world.state / "here", world.state / "elsewhere"
    for folder in (here, elsewhere):
        folder.mkdir()
    monkeypatch.chdir(here)
    begin = "roll --exec ./restart.sh --broker 1 --timeout 3"
    ran = world.kipctl(begin, typed="", status=2)
    assert f"./restart.sh is no program that can be run in {here}" in ran.err
    assert "Restart brokers" not in ran.err
    assert not list(rolls(world.kept))
    program = here / "restart.sh"
    program.write_text("#!/bin/sh\npwd\nexit 7\n")
    program.chmod(0o755)
    assert f"\n  {here}\n" in world.kipctl(begin, "--yes", status=5).err
    monkeypatch.chdir(elsewhere)
    resume = "roll --resume --was-restarted no --yes"
    again = unfinished_roll(world.kept)
    assert again is not None
    again.changed(again.step(1).begin(Phase.LEADERS_OFF)).written()
    assert f"\n  {here}\n" in world.kipctl(resume, status=5).err
    assert "in " + str(elsewhere) in world.kipctl(resume, "--exec ./restart.sh", status=2).err
    program.unlink()
    assert "no program" in world.kipctl(resume, status=2).err


def test_a_roll_that_was_ended_while_the_question_stood_is_not_resumed(world: World) -> None:
    record = world.begun()
    world.refused("--resume", lambda: record.mark(RollState.ABANDONED, "by A"))
    assert read_roll(record.path).state is RollState.ABANDONED


def test_giving_up_keeps_what_another_has_written_meanwhile(world: World) -> None:
    record = world.begun()
    asked: list[MetadataRequest] = []

    def answer(received: Asked) -> Response | bytes | None:
        if isinstance(received.request, MetadataRequest):
            asked.append(received.request)
            if len(asked) == 1:
                went_on(record)
        return world.fake.answer(received)

    world.broker.answers = answer
    ran = world.kipctl("roll --abandon", typed="y\n")
    assert asked
    now = read_roll(record.path)
    assert [step.phase for step in now.steps] == PHASES
    assert now.state is RollState.ABANDONED
    assert "Broker 2 is as it was left (restarting)" in ran.out + ran.err


def test_a_disk_that_is_full_ends_it_with_5_once_anything_is_done(world: World) -> None:
    """From each write of the roll's record or the journal on; then it is given up."""
    for number in count(1):
        world.fake.altered.clear()
        world.fake.partitions = {T0: Held((1, 2, 3), 1)}
        with full_disk(number) as failed:
            ran = world.kipctl("roll --exec false --yes --broker 1 --timeout 3", status=(2, 5))
        is_moved = bool(world.fake.altered)
        assert ran.status == 5 or (failed and not is_moved), ran
        assert ("Go on: kipctl roll --resume" in ran.err) is (ran.status == 5)
        if not failed:
            break
        assert "No space left on device" in ran.err
        assert "Nothing was changed." not in ran.err or not is_moved
        world.kipctl("roll --abandon", status=(0, 4))
        assert unfinished_roll(world.kept) is None
    assert "its status is 1" in ran.err
    assert number > 5


@contextmanager
def full_disk(first: int) -> Iterator[list[int]]:
    """Nothing can be written from this write on; yields those that failed."""
    numbers, failed = count(1), list[int]()

    def write(path: Path, document: Mapping[str, Any]) -> None:
        if (number := next(numbers)) >= first:
            failed.append(number)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_whole(path, document)

    with pytest.MonkeyPatch.context() as patch:
        for module in ("roll.record", "changes.journal.journal", "changes.journal.entry"):
            patch.setattr(f"kipctl.{module}.write_whole", write)
        yield failed


@pytest.mark.parametrize("gone", [BrokenPipeError, OSError])
def test_a_report_that_nobody_reads_does_not_hide_that_it_stopped(
    world: World, monkeypatch: pytest.MonkeyPatch, gone: type[OSError]
) -> None:
    def report(*_: object) -> None:
        raise gone(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Environment, "report", report)
    monkeypatch.setattr(Environment, "stdout_is_closed", lambda _: True)
    ran = world.kipctl("roll --exec false --yes --broker 1 --timeout 3", status=5)
    assert "its status is 1" in ran.err


def test_a_kipctl_of_another_user_keeps_this_one_out(world: World) -> None:
    command = shlex.quote(" ".join(world.command))
    with exclusive_lock(lock_path("fake")):
        ran = world.kipctl(f"roll --exec {command} --yes", status=4)
    assert re.search(rf"of \S+ \(uid {os.getuid()}\), process {os.getpid()}\.", ran.err)
    assert not list(rolls(world.kept))


def test_a_roll_that_another_began_while_the_question_stood_refuses_this_one(world: World) -> None:
    command = shlex.quote(" ".join(world.command))
    ran = world.refused(f"--exec {command} --timeout 3", world.begun)
    assert "has not ended" in ran.err
    assert len(list(world.kept.folder.glob("*.roll.json"))) == 1


def test_metrics_are_asked_where_the_named_cluster_has_them(world: World) -> None:
    config = world.state / "config" / "kipctl" / "clusters.toml"
    config.parent.mkdir(parents=True)
    url = "http://127.0.0.1:9/metrics"
    config.write_text(
        f'["mine"]\nbootstrap_servers = "{world.bootstrap_server}"\nmetrics_urls = ["{url}"]\n'
    )
    said = in_this_process(
        *("roll", "--cluster", "mine", "--exec", "false", "--broker", "1", "--timeout", "3"),
        "--yes",
        XDG_CONFIG_HOME=str(world.state / "config"),
        XDG_STATE_HOME=str(world.state),
    )
    assert said.status == 5, said
    [record] = rolls(world.kept)
    assert record.how.guard.urls == (url,)
