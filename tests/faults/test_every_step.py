"""kipctl killed, or out of disk, at any step of a throttled reassignment, or of elections.

Whatever it left, `kipctl changes resume` ends it as planned and `kipctl undo` as before, with every
throttle as it was before; elections are ended by `changes resume`. A few steps are taken each time,
others than the time before; in soak all of them.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from campaigns import as_many, campaign, chance
from faulty import DRAIN, ELECT, PHASES, REPLICAS, Victims, World, victims, world, world_astray

pytestmark = [campaign, pytest.mark.timeout(3600)]

WAYS = ("changes resume", "undo")

State = tuple[object, ...]


class Whole(NamedTuple):
    """A change when nothing goes wrong: the cluster before and after, its steps, and writes."""

    before: State
    after: State
    steps: int
    writes: int


@pytest.fixture(scope="module")
def runner() -> Iterator[Victims]:
    with victims() as started:
        with world(started) as cluster:
            for words in (DRAIN, WAYS[:1], WAYS[1:]):
                cut = cluster.cut(words, 0, "rehearsal")
                assert cut.status == 0, cut.said
        yield started


@pytest.fixture(scope="module")
def whole(runner: Victims) -> Whole:
    counts = {}
    for fault in ("kill", "full"):
        with world(runner) as cluster:
            before = cluster.state
            cut = cluster.cut(DRAIN, 0, fault)
            assert cut.status == 0, cut.said
            after, counts[fault] = cluster.state, cut.steps
    assert after[0] != before[0]
    assert after[2:] == before[2:]
    assert counts["kill"] > 150
    assert counts["full"] > 15
    return Whole(before, after, counts["kill"], counts["full"])


@pytest.fixture(scope="module")
def elected(runner: Victims) -> Whole:
    counts = {}
    for fault in ("kill", "full"):
        with world_astray(runner) as cluster:
            before = cluster.state
            cut = cluster.cut(ELECT, 0, fault)
            assert cut.status == 0, cut.said
            after, counts[fault] = cluster.state, cut.steps
    assert (after[0], after[2:]) == (before[0], before[2:])
    assert after[1] != before[1]
    assert counts["kill"] > 50
    assert counts["full"] > 5
    return Whole(before, after, counts["kill"], counts["full"])


@pytest.fixture(scope="module")
def phased(runner: Victims) -> Whole:
    with world(runner) as cluster:
        before = cluster.state
        cut = cluster.cut(cluster.phased, 0)
        assert cut.status == 0, cut.said
        after = cluster.state
    assert after[0] == REPLICAS | PHASES[0] | PHASES[1]
    assert after[2:] == before[2:]
    assert cut.steps > 100
    return Whole(before, after, cut.steps, 0)


def spread(name: str, steps: int, few: int) -> range:
    """A few of the steps, evenly apart; in soak every one. How many requests it takes to see what
    all brokers know is not the same each time: it goes on a little beyond."""
    apart = -(-steps // as_many(few, steps))
    return range(chance(name).randint(1, apart), steps + 10, apart)


def require_over(cluster: World) -> None:
    """Nothing is left to be done, or to be put back, and that is said."""
    assert list(cluster.fake.kept.unfinished()) == [], cluster.log
    ran = cluster.run("changes resume", "--yes")
    assert (ran.status, "othing is left to resume" in ran.err) == (0, True), cluster.log


def require_ended(cluster: World, way: str, whole: Whole) -> None:
    """End what was cut off; what was cut off before it was written down has changed nothing."""
    if not cluster.fake.kept.count():
        assert cluster.state == whole.before, cluster.log
        return
    is_over = cluster.fake.kept.last_change()[0] is None
    if way == "undo" and is_over:  # it was over before it was killed
        assert cluster.state == whole.before, cluster.log
        require_over(cluster)
        return
    ran = cluster.run(way, "--yes")
    assert ran.status == 0, cluster.log
    assert cluster.state == (whole.after if way == "changes resume" else whole.before), cluster.log
    require_over(cluster)


@pytest.mark.parametrize("way", WAYS)
def test_killed_at_any_step_it_is_ended_by_the_next(
    runner: Victims, whole: Whole, way: str
) -> None:
    for step in spread(way, whole.steps, 4):
        with world(runner) as cluster:
            cut = cluster.cut(DRAIN, step)
            assert cut.is_killed or cut.status == 0, cluster.log
            require_ended(cluster, way, whole)


@pytest.mark.parametrize("way", WAYS)
def test_killed_at_any_step_of_its_phases_it_is_ended_in_the_right_one(
    runner: Victims, phased: Whole, way: str
) -> None:
    for step in spread(f"phases {way}", phased.steps, 8):
        with world(runner) as cluster:
            cut = cluster.cut(cluster.phased, step)
            assert cut.is_killed or cut.status == 0, cluster.log
            if chance(f"phases {way} {step}").randrange(2) and cluster.fake.kept.count():
                cluster.cut((way,), chance(f"phases again {way} {step}").randint(1, 60))
            require_ended(cluster, way, phased)


@pytest.mark.parametrize("way", WAYS)
def test_what_ends_it_may_be_killed_at_any_step_too(
    runner: Victims, whole: Whole, way: str
) -> None:
    """Killed first when it has begun to copy data, and after that when the first batch is over."""
    drawn = chance(f"twice {way}")
    for number in range(as_many(2, 300)):
        first, step = drawn.randint(105, 150), drawn.randint(1, 20 if number % 2 else 100)
        with world(runner) as cluster:
            assert cluster.cut(DRAIN, first).is_killed
            cut = cluster.cut((way,), step)
            # It takes more than 20 steps, whichever it is.
            assert cut.is_killed or (cut.status == 0 and step > 20), cluster.log
            require_ended(cluster, way, whole)


@pytest.mark.parametrize("way", WAYS)
def test_out_of_disk_at_any_write_it_says_so_and_tells_the_truth(
    runner: Victims, whole: Whole, way: str
) -> None:
    for step in spread(f"full {way}", whole.writes, 3):
        with world(runner) as cluster:
            cut = cluster.cut(DRAIN, step, "full")
            assert "Traceback" not in cut.said
            if cut.status in (0, 5):
                assert cluster.state == whole.after, cluster.log
                assert "Nothing was changed." not in cut.said, cluster.log
                assert ("cannot be written" in cut.said) == (cut.status == 5), cluster.log
            else:
                assert cut.status == 2, cluster.log
                assert "No space left on device" in cut.said, cluster.log
                assert "Nothing was changed." in cut.said, cluster.log
                assert cluster.state == whole.before, cluster.log
            if any(cluster.fake.kept.unfinished()):
                require_ended(cluster, way, whole)
            else:
                require_over(cluster)


def require_elected(cluster: World, elected: Whole) -> None:
    """Go on with what was cut off; what was not written down has elected nobody."""
    if not cluster.fake.kept.count():
        assert cluster.state == elected.before, cluster.log
        return
    ran = cluster.run("changes resume", "--yes")
    assert ran.status == 0, cluster.log
    assert cluster.state == elected.after, cluster.log
    require_over(cluster)


def test_elections_killed_at_any_step_are_ended_by_the_next(
    runner: Victims, elected: Whole
) -> None:
    for step in spread("elections", elected.steps, 6):
        with world_astray(runner) as cluster:
            cut = cluster.cut(ELECT, step)
            assert cut.is_killed or cut.status == 0, cluster.log
            if chance(f"elections {step}").randrange(2) and cluster.fake.kept.count():
                cluster.cut(("changes resume",), chance(f"again {step}").randint(1, 30))
            require_elected(cluster, elected)


def test_elections_out_of_disk_at_any_write_tell_the_truth(runner: Victims, elected: Whole) -> None:
    for step in spread("full elections", elected.writes, 4):
        with world_astray(runner) as cluster:
            cut = cluster.cut(ELECT, step, "full")
            assert "Traceback" not in cut.said
            if cut.status in (0, 5):
                assert cluster.state == elected.after, cluster.log
                assert ("cannot be written" in cut.said) == (cut.status == 5), cluster.log
            else:
                assert cut.status == 2, cluster.log
                assert "Nothing was changed." in cut.said, cluster.log
                assert cluster.state == elected.before, cluster.log
            if any(cluster.fake.kept.unfinished()):
                require_elected(cluster, elected)
