"""Plans that name log directories: nothing of them is called done that kipctl does not do."""

import json
from pathlib import Path

import pytest
from reassigning import Reassigning

from kipctl.changes.execution.disk_moves import DiskMove, disk_moves
from kipctl.cluster.snapshot import PartitionId

T0, T1 = PartitionId("t", 0), PartitionId("t", 1)
REPLICAS = {T0: (1, 2), T1: (2, 3)}


@pytest.mark.parametrize(
    ("wanted", "now", "moves"),
    [
        ({}, {}, ()),
        ({T0: {1: "/a"}}, {T0: {1: "/a", 2: "/b"}}, ()),
        ({T0: {1: "/b"}}, {T0: {1: "/a"}}, (DiskMove(T0, 1, "/b"),)),
        # A new replica, or a broker that does not tell.
        ({T0: {3: "/b"}, T1: {2: "/a"}}, {T1: {2: "/a"}}, (DiskMove(T0, 3, "/b"),)),
    ],
)
def test_what_is_not_in_the_directory_that_is_wanted_is_a_move(
    wanted: dict[PartitionId, dict[int, str]],
    now: dict[PartitionId, dict[int, str]],
    moves: tuple[DiskMove, ...],
) -> None:
    assert disk_moves(wanted, now) == moves


@pytest.mark.parametrize("command", ["--plan {} --dry-run", "--plan {} --yes", "--verify {}"])
@pytest.mark.parametrize("output", ["", "-o json"])
def test_a_plan_that_moves_disks_is_refused_whatever_is_asked_of_it(
    fake: Reassigning, tmp_path: Path, command: str, output: str
) -> None:
    path = tmp_path / "plan.json"
    entry = {"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["/d2", "any"]}
    path.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    ran = fake.kipctl(f"reassign {command.format(path)} {output}", status=4)
    assert ran.out == ""
    assert "moves disks on broker 1, such as t-0 to /d2 on broker 1" in ran.err
    assert (fake.altered, fake.entries()) == ([], [])


def test_the_directory_that_a_replica_is_in_is_no_move(fake: Reassigning, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    entry = {"topic": "t", "partition": 0, "replicas": [2, 1], "log_dirs": ["/data", "/data"]}
    path.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    fake.kipctl(f"reassign --plan {path} --yes")
    assert fake.replicas()[T0] == (2, 1)
    assert "All 1 partitions are as" in fake.kipctl(f"reassign --verify {path}").out
