"""Plans that move replicas between the disks of their brokers: carried out, stopped, taken back."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from reassigning import Reassigning

from kipctl.changes.execution.disk_moves import NO_REPLICA, disk_moves, require_room
from kipctl.changes.plans.disks import DiskMove
from kipctl.changes.plans.kafka_json import read_reassignment
from kipctl.cluster.log_dirs import BrokerDirs, Located
from kipctl.cluster.snapshot import PartitionId
from kipctl.errors import RefusedError

T0, T1 = PartitionId("t", 0), PartitionId("t", 1)
REPLICAS = {T0: (1, 2), T1: (2, 3)}
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
USABLE = {"/a": 100, "/b": 50}


@pytest.mark.parametrize(
    ("found", "moves", "skipped"),
    [
        (Located("/b", 9), (), []),
        (Located("/a", 9), (DiskMove(T0, 1, "/a", "/b", 9),), []),
        (Located("/a", 9, "/b", 4), (DiskMove(T0, 1, "/a", "/b", 9),), []),
        # It is there, and is being copied away: that copy is to be given up.
        (Located("/b", 9, "/a", 4), (DiskMove(T0, 1, "/b", "/b", 9),), []),
        (None, (), [f"broker 1: {NO_REPLICA}"]),
    ],
)
def test_what_is_not_in_the_directory_that_is_wanted_is_a_move(
    found: Located | None, moves: tuple[DiskMove, ...], skipped: list[str]
) -> None:
    seen = {1: BrokerDirs(USABLE, {T0: found} if found else {})}
    done, left = disk_moves({T0: {1: "/b"}}, seen)
    assert (done, [one.reason for one in left]) == (moves, skipped)


@pytest.mark.parametrize(
    ("moves", "force", "refused"),
    [
        ([DiskMove(T0, 1, "/a", "/b", 50)], False, ""),
        ([DiskMove(T0, 1, "/a", "/b", 30), DiskMove(T1, 1, "/a", "/b", 30)], False, "too little"),
        ([DiskMove(T0, 1, "/a", "/b", 60)], True, ""),
        ([DiskMove(T0, 1, "/a", "/c", 1)], True, "no log directory /c in use"),
    ],
)
def test_there_has_to_be_room_in_a_directory_of_the_broker(
    moves: list[DiskMove], force: bool, refused: str
) -> None:
    seen = {1: BrokerDirs(USABLE, {})}
    if not refused:
        require_room(moves, seen, force=force)
        return
    with pytest.raises(RefusedError, match=refused):
        require_room(moves, seen, force=force)


def plan(
    fake: Reassigning,
    log_dirs: Mapping[PartitionId, list[str]],
    replicas: Mapping[PartitionId, tuple[int, ...]] = REPLICAS,
) -> str:
    path = fake.state / "disks.json"
    entries = [
        {**one._asdict(), "replicas": list(replicas[one]), "log_dirs": dirs}
        for one, dirs in log_dirs.items()
    ]
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    return str(path)


@pytest.fixture
def both(fake: Reassigning) -> str:
    """A plan of one replica of each partition to the second disk."""
    fake.log_dirs = ("/data", "/data2")
    return plan(fake, {T0: ["/data2", "any"], T1: ["any", "/data2"]})


def test_replicas_are_moved_and_brought_back(fake: Reassigning, both: str) -> None:
    assert "2 replicas are not on the disk" in fake.kipctl("reassign --verify", both, status=5).err
    ran = fake.kipctl("reassign --plan", both, "--yes -o json")
    assert [one["to_log_dir"] for one in ran.document["disks"]] == ["/data2", "/data2"]
    assert fake.located == {T0: "/data2", T1: "/data2"}
    assert (fake.altered, fake.elected, fake.states()) == ([], [], ["done"])
    fake.kipctl("reassign --verify", both)
    fake.kipctl("reassign --plan", both, "--yes")
    assert fake.states() == ["done"]
    assert "/data2" in fake.kipctl("changes show").out
    fake.kipctl("changes show -o json")
    fake.kipctl("changes list -o json")
    fake.kipctl("undo --yes")
    assert fake.located == {T0: "/data", T1: "/data"}
    assert (fake.altered, fake.states()) == ([], ["done", "undone"])
    fake.kipctl("changes resume", fake.entries()[0].id, "--yes")


def test_what_is_saved_brings_them_back_by_kafkas_own_tool(fake: Reassigning, both: str) -> None:
    fake.kipctl("reassign --plan", both, "--yes")
    (entry,) = fake.entries()
    assert read_reassignment(entry.saved).log_dirs == {T0: {1: "/data"}, T1: {3: "/data"}}


def test_a_dry_run_changes_nothing(fake: Reassigning, both: str) -> None:
    ran = fake.kipctl("reassign --plan", both, "--dry-run")
    assert "2 replicas move to other disks of their brokers: 2.0 kB." in ran.out
    assert (fake.disks_asked, fake.entries()) == ([], [])


def test_it_is_throttled_until_it_is_over(fake: Reassigning, both: str) -> None:
    fake.configs = {(4, "1"): {RATE: "7"}}
    fake.kipctl("reassign --plan", both, "--yes --throttle 5MB/s")
    (entry,) = fake.entries()
    assert entry.how
    assert entry.how.throttle == 5_000_000
    assert entry.throttle is None
    assert {name: own for (_, name), own in fake.configs.items() if own} == {"1": {RATE: "7"}}


@pytest.mark.parametrize(("way", "where"), [("changes resume", "/data2"), ("undo", "/data")])
def test_cut_off_it_is_gone_on_with_or_taken_back(
    fake: Reassigning, both: str, way: str, where: str
) -> None:
    fake.disk_looks = 0
    ran = fake.kipctl("reassign --plan", both, "--yes --throttle 5MB/s --timeout 5s", status=6)
    assert "still being copied from disk to disk; the brokers go on by themselves" in ran.err
    assert fake.configs[4, "1"] == {RATE: "5000000"}
    assert fake.states() == ["submitted"]
    fake.disk_looks = 1
    fake.kipctl(way, "--yes")
    assert {fake.located.get(one, "/data") for one in REPLICAS} == {where}
    assert not fake.futures
    assert not any(fake.configs.values())
    assert list(fake.kept.unfinished()) == []


def test_what_a_broker_refuses_does_not_hold_up_the_others(fake: Reassigning, both: str) -> None:
    fake.refused = {T0}
    ran = fake.kipctl("reassign --plan", both, "--yes", status=5)
    assert "t-0: on broker 1 KAFKA_STORAGE_ERROR" in ran.err.replace("\n", " ")
    assert fake.located == {T1: "/data2"}
    fake.refused = set()
    fake.kipctl("changes resume --yes")
    assert (fake.located, fake.states()) == ({T0: "/data2", T1: "/data2"}, ["done"])


def test_what_somebody_else_has_moved_since_stays_there(fake: Reassigning, both: str) -> None:
    fake.log_dirs = ("/data", "/data2", "/data3")
    fake.kipctl("reassign --plan", both, "--yes")
    fake.located[T0] = "/data3"
    ran = fake.kipctl("undo --yes")
    assert "t-0: somebody has moved it since, to /data3 of broker 1" in ran.out + ran.err
    assert fake.located == {T0: "/data3", T1: "/data"}
    fake.kipctl("undo", fake.entries()[-1].id, "--yes --force")
    assert fake.located == {T0: "/data", T1: "/data"}


def test_a_directory_that_is_not_there_is_said_with_those_that_are(
    fake: Reassigning, both: str
) -> None:
    ran = fake.kipctl("reassign --plan", plan(fake, {T0: ["/nowhere", "any"]}), "--yes", status=4)
    assert "Broker 1 has no log directory /nowhere in use" in ran.err
    assert "it has /data, /data2" in ran.err
    assert (fake.disks_asked, fake.entries()) == ([], [])


@pytest.mark.parametrize("again", ["", " --plan {}"])
def test_brokers_and_disks_in_one_plan_are_refused(
    fake: Reassigning, both: str, again: str
) -> None:
    path = plan(fake, {T0: ["/data2", "any"]}, {T0: (3, 2)})
    ran = fake.kipctl(f"reassign --plan {path} --yes{again.format(path)}", status=4)
    assert "moves replicas between brokers, and names disks for them" in ran.err
    assert (fake.altered, fake.disks_asked, fake.entries()) == ([], [], [])


def test_the_directory_that_a_replica_is_in_is_no_move(fake: Reassigning, tmp_path: Path) -> None:
    path = plan(fake, {T0: ["/data", "/data"]}, {T0: (2, 1)})
    fake.kipctl(f"reassign --plan {path} --yes")
    assert fake.replicas()[T0] == (2, 1)
    assert "All 1 partition is as" in fake.kipctl(f"reassign --verify {path}").out
