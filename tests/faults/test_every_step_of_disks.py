"""kipctl killed at any step of a throttled move from disk to disk: gone on with, or undone."""

import json
from collections.abc import Iterator

import pytest
from campaigns import as_many, campaign, chance
from faulty import CONFIGS, REPLICAS, T, Victims, World, victims, world

pytestmark = [campaign, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def runner() -> Iterator[Victims]:
    with victims() as started:
        with world(started) as one:
            one.cut(to_other_disks(one), 0, "rehearsal")
            assert set(one.fake.located.values()) == {"/data2"}, one.log
        yield started


def to_other_disks(one: World) -> tuple[str, ...]:
    """The command that moves a replica of each partition."""
    one.fake.log_dirs, one.fake.disk_looks = ("/data", "/data2"), 3
    entries = [
        {**p._asdict(), "replicas": REPLICAS[p], "log_dirs": ["/data2", "any", "any"]} for p in T
    ]
    path = one.fake.state / "disks.json"
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    return ("reassign", "--plan", str(path), "--throttle", "50MB/s")


@pytest.mark.parametrize(("way", "where"), [("changes resume", "/data2"), ("undo", "/data")])
def test_killed_at_any_step_it_is_ended_by_the_next(runner: Victims, way: str, where: str) -> None:
    with world(runner) as one:
        steps = one.cut(to_other_disks(one), 0).steps
        assert set(one.fake.located.values()) == {"/data2"}
    assert steps > 50
    apart = -(-steps // as_many(8, steps))
    for step in range(chance(f"disks {way}").randint(1, apart), steps, apart):
        with world(runner) as one:
            cut = one.cut(to_other_disks(one), step)
            # How many requests it takes to see what all brokers know is not the same each time.
            assert cut.is_killed or cut.status == 0, one.log
            if not one.fake.kept.count():
                assert (one.fake.located, one.fake.futures) == ({}, {}), one.log
                continue
            one.run(way, "--yes")
            assert {one.fake.located.get(p, "/data") for p in T} == {where}, one.log
            assert one.state == (REPLICAS, {p: REPLICAS[p][0] for p in T}, CONFIGS, []), one.log
            assert list(one.fake.kept.unfinished()) == [], one.log
