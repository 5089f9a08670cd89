"""Two terminals: what `kipctl roll` has read before its question, or the lock, may have changed."""

import io
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import pytest
from on_lab import Ran
from reassigning import Reassigning, reassigning
from scripted_broker import ScriptedBroker

from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.cli.roll import _FIELDS
from kipctl.cluster.moves.journal_entry import Origin
from kipctl.cluster.snapshot import PartitionId
from kipctl.protocol.metadata import MetadataRequest
from kipctl.roll.next_step import Phase
from kipctl.roll.plan import Risk
from kipctl.roll.record import RollOptions, RollRecord, Rolls, RollState, read_roll, rolls

T0 = PartitionId("t", 0)


@dataclass
class Terminal(io.StringIO):
    """Somebody who does something else while the question stands, and then answers y."""

    meanwhile: Callable[[], object]

    def isatty(self) -> bool:
        return True

    def readline(self, _: int | None = -1) -> str:
        self.meanwhile()
        return "y\n"


@dataclass
class World:
    """A cluster of three brokers, and the rolls of it that are written down."""

    fake: Reassigning
    broker: ScriptedBroker
    folder: Path
    variables: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.variables = {
            "KIPCTL_BOOTSTRAP_SERVER": self.broker.address,
            "XDG_STATE_HOME": str(self.folder),
        }

    @property
    def kept(self) -> Rolls:
        return rolls("fake", self.variables)

    @property
    def ran(self) -> bool:
        """Whether a broker was restarted."""
        return (self.folder / "ran").exists()

    @property
    def command(self) -> tuple[str, ...]:
        return ("touch", str(self.folder / "ran"), "{broker}")

    def begun(self) -> RollRecord:
        steps = [Risk(id, "127.0.0.1", 9, None, "broker", 1, 1) for id in (1, 2, 3)]
        how = RollOptions("exec", self.command, timeout_s=3)
        return self.kept.begin(Origin(("roll",), "u", "h"), how, steps)

    def kipctl(self, *words: str, meanwhile: Callable[[], object] = lambda: None) -> Ran:
        out, err = io.StringIO(), io.StringIO()
        environment = Environment(Terminal(meanwhile), out, err, self.variables)
        return Ran(run(["roll", *words], environment), out.getvalue(), err.getvalue())


@pytest.fixture
def world(tmp_path: Path):  # type: ignore[no-untyped-def]
    with reassigning({T0: (1, 2, 3)}) as (fake, broker):
        fake.brokers = (1, 2, 3)
        yield World(fake, broker, tmp_path)


def went_on(record: RollRecord) -> RollRecord:
    """Another terminal has finished broker 1, called for the restart of 2, and was interrupted."""
    record = record.with_step(record.step(1).begin(Phase.DONE))
    record = record.with_step(record.step(2).begin(Phase.RESTARTING))
    return record.mark(RollState.STOPPED, "interrupted")


def test_a_roll_that_went_on_while_the_question_stood_is_not_resumed_as_it_was(
    world: World,
) -> None:
    record = world.begun()
    ran = world.kipctl("--resume", meanwhile=lambda: went_on(record))
    assert ran.status == 4, ran.err
    assert "has gone on" in ran.err
    now = read_roll(record.path)
    assert [step.phase for step in now.steps] == [Phase.DONE, Phase.RESTARTING, Phase.WAITING]
    assert now.state is RollState.STOPPED
    assert not world.ran


def test_a_roll_is_resumed_with_what_is_given_now_and_all_else_as_it_was(world: World) -> None:
    record = world.begun()
    before = record.how
    words = ("--resume", "--exec", "false", "--timeout", "70s", "--guard", "offline > 0", "--force")
    ran = world.kipctl(*words, "--guard-patience", "5s", "--yes")
    assert ran.status == 5, ran.err
    assert read_roll(record.path).how == replace(
        before,
        command=("false",),
        timeout_s=70,
        guards=("offline > 0",),
        guard_patience_s=5,
        force=True,
    )


def test_every_option_of_a_roll_may_be_given_anew() -> None:
    ways = {"way", "command", "lab"}
    assert {*_FIELDS.values(), *ways} == {field.name for field in fields(RollOptions)}


def test_a_roll_that_was_ended_while_the_question_stood_is_not_resumed(world: World) -> None:
    record = world.begun()
    ran = world.kipctl("--resume", meanwhile=lambda: record.mark(RollState.ABANDONED, "by A"))
    assert ran.status == 4, ran.err
    assert read_roll(record.path).state is RollState.ABANDONED
    assert not world.ran


def test_giving_up_keeps_what_another_has_written_meanwhile(world: World) -> None:
    record = world.begun()
    asked: list[MetadataRequest] = []

    def answer(one):  # type: ignore[no-untyped-def]
        if isinstance(one.request, MetadataRequest):
            asked.append(one.request)
            if len(asked) == 2:
                went_on(record)
        return world.fake.answer(one)

    world.broker.answers = answer
    ran = world.kipctl("--abandon")
    assert ran.status == 0, ran.err
    assert len(asked) > 1
    now = read_roll(record.path)
    assert [step.phase for step in now.steps] == [Phase.DONE, Phase.RESTARTING, Phase.WAITING]
    assert now.state is RollState.ABANDONED
    assert "Broker 2 is as it was left (restarting)" in ran.out + ran.err


def test_a_roll_that_another_began_while_the_question_stood_refuses_this_one(
    world: World,
) -> None:
    ran = world.kipctl("--exec", " ".join(world.command), "--timeout", "3", meanwhile=world.begun)
    assert ran.status == 4, ran.err
    assert "has not ended" in ran.err
    assert len(list(world.kept.folder.glob("*.roll.json"))) == 1
    assert not world.ran
