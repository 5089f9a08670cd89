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
        with world(started) as cluster:
            cluster.cut(to_other_disks(cluster), 0, "rehearsal")
            assert set(cluster.fake.located.values()) == {"/data2"}, cluster.log
        yield started


def to_other_disks(cluster: World) -> tuple[str, ...]:
    """The command that moves a replica of each partition."""
    cluster.fake.log_dirs, cluster.fake.disk_looks = ("/data", "/data2"), 3
    entries = [
        {**p._asdict(), "replicas": REPLICAS[p], "log_dirs": ["/data2", "any", "any"]} for p in T
    ]
    path = cluster.fake.state / "disks.json"
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    return ("reassign", "--plan", str(path), "--throttle", "50MB/s")


@pytest.mark.parametrize(("way", "where"), [("changes resume", "/data2"), ("undo", "/data")])
def test_killed_at_any_step_it_is_ended_by_the_next(runner: Victims, way: str, where: str) -> None:
    with world(runner) as cluster:
        steps = cluster.cut(to_other_disks(cluster), 0).steps
        assert set(cluster.fake.located.values()) == {"/data2"}
    assert steps > 50
    apart = -(-steps // as_many(8, steps))
    leaders = {p: REPLICAS[p][0] for p in T}
    for step in range(chance(f"disks {way}").randint(1, apart), steps, apart):
        with world(runner) as cluster:
            cut = cluster.cut(to_other_disks(cluster), step)
            # How many requests it takes to see what all brokers know is not the same each time.
            assert cut.is_killed or cut.status == 0, cluster.log
            if not cluster.fake.kept.count():
                assert (cluster.fake.located, cluster.fake.futures) == ({}, {}), cluster.log
                continue
            cluster.run(way, "--yes")
            assert {cluster.fake.located.get(p, "/data") for p in T} == {where}, cluster.log
            assert cluster.state == (REPLICAS, leaders, CONFIGS, []), cluster.log
            assert list(cluster.fake.kept.unfinished()) == [], cluster.log
