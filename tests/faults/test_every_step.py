"""kipctl killed, or out of disk, at every step of a throttled reassignment in batches.

Whatever it left, `--resume` ends it as planned and `--rollback` as before, with every throttle as
it was before. Here every few steps are taken, from a random one on; KIPCTL_FAULTS=all takes all.
KIPCTL_FAULTS_SEED has the seed of a run to be repeated.
"""

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random

import pytest
from faulty import DRAIN, Victims, World, victims, world

WAYS = ("--resume", "--rollback")
SEED = os.environ.get("KIPCTL_FAULTS_SEED") or str(Random().randrange(10**6))

State = tuple[object, ...]


@pytest.fixture(scope="module")
def runner() -> Iterator[Victims]:
    with victims() as started:
        yield started


@pytest.fixture
def planned(runner: Victims, tmp_path: Path) -> State:
    """How the cluster is when nothing goes wrong."""
    with world(tmp_path / "planned", runner) as one:
        before = one.state
        cut = one.cut(DRAIN, 0)
        assert cut.status == 0, cut.said
        assert one.state[0] != before[0]
        assert one.state[2:] == before[2:]
        return one.state


def steps(name: str, stride: int) -> Iterator[int]:
    """The steps to be taken, without an end; the seed is shown when one of them fails."""
    if os.environ.get("KIPCTL_FAULTS") == "all":
        yield from count(1)
    print(f"KIPCTL_FAULTS_SEED={SEED}")
    yield from count(Random(SEED + name).randrange(stride) + 1, stride)


def require_over(one: World) -> None:
    """Nothing is left to be done, or to be put back, and that is said."""
    assert list(one.journal.unfinished()) == [], one.log
    ran = one.run("--resume", "--yes")
    assert (ran.status, "othing is left to resume" in ran.err) == (0, True), one.log


def require_ended(one: World, way: str, before: State, planned: State) -> None:
    """End what was cut off; what was cut off before it was written down has changed nothing."""
    if not one.journal.count():
        assert one.state == before, one.log
        return
    is_over = one.journal.last_change()[0] is None
    if way == "--rollback" and is_over:  # it was over before it was killed
        assert one.state == before, one.log
        require_over(one)
        return
    ran = one.run(way, "--yes")
    assert ran.status == 0, one.log
    assert one.state == (planned if way == "--resume" else before), one.log
    require_over(one)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", WAYS)
def test_killed_at_every_step_it_is_ended_by_the_next(
    runner: Victims, tmp_path: Path, planned: State, way: str
) -> None:
    for step in steps(way, 9):
        with world(tmp_path / str(step), runner) as one:
            before = one.state
            cut = one.cut(DRAIN, step)
            if not cut.is_killed:
                assert step > 150, one.log
                return
            require_ended(one, way, before, planned)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", [105, 150])
@pytest.mark.parametrize("way", WAYS)
def test_what_ends_it_may_be_killed_at_every_step_too(
    runner: Victims, tmp_path: Path, planned: State, way: str, first: int
) -> None:
    for step in steps(f"{way}{first}", 19):
        with world(tmp_path / str(step), runner) as one:
            before = one.state
            assert one.cut(DRAIN, first).is_killed
            cut = one.cut((way,), step)
            if not cut.is_killed:
                assert cut.status == 0, one.log
                assert step > 20, one.log
                return
            require_ended(one, way, before, planned)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", WAYS)
def test_out_of_disk_at_every_write_it_says_so_and_tells_the_truth(
    runner: Victims, tmp_path: Path, planned: State, way: str
) -> None:
    for step in steps(way, 2):
        with world(tmp_path / str(step), runner) as one:
            before = one.state
            cut = one.cut(DRAIN, step, "full")
            if step > cut.steps:
                assert cut.status == 0, one.log
                assert step > 15, one.log
                return
            assert "Traceback" not in cut.said
            assert cut.status in (0, 2), one.log
            if cut.status == 2:
                assert "No space left on device" in cut.said, one.log
                assert "Nothing was changed." in cut.said, one.log
                assert one.state == before, one.log
            else:
                assert one.state == planned, one.log
            if any(one.journal.unfinished()):
                require_ended(one, way, before, planned)
            else:
                require_over(one)
