"""Plans that move replicas between the disks of their brokers: carried out, stopped, taken back."""

import json
import os
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from passing_clock import PassingClock
from reassigning import Held, Reassigning
from scripted_broker import HANG_UP, Asked

from kipctl.changes.execution.disk_moves import GIVEN_UP, NO_REPLICA, disk_moves, require_room
from kipctl.changes.journal.entry import ChangeKind, EntryState
from kipctl.changes.plans.disks import DiskMove
from kipctl.changes.plans.kafka_json import read_reassignment
from kipctl.changes.throttle import Change, Throttle
from kipctl.cli.commands.reassign_looks import LIST_DEADLINE_S
from kipctl.cluster.log_dirs import BrokerDirs, DiskCopies, Located, between_disks, refusal_code
from kipctl.cluster.snapshot import PartitionId
from kipctl.cluster.throttle_configs import Setting
from kipctl.errors import RefusedError, UnreachableError
from kipctl.protocol.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from kipctl.protocol.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from kipctl.protocol.message import Response
from kipctl.protocol.reassignments import ListPartitionReassignmentsRequest
from kipctl.transport.request import Cluster

T0, T1, U0 = PartitionId("t", 0), PartitionId("t", 1), PartitionId("u", 0)
REPLICAS = {T0: (1, 2), T1: (2, 3)}
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
USABLE = {"/a": 100, "/b": 50}


@pytest.mark.parametrize(
    ("located", "moves", "skipped"),
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
    located: Located | None, moves: tuple[DiskMove, ...], skipped: list[str]
) -> None:
    seen = {1: BrokerDirs(USABLE, {T0: located} if located else {})}
    done, left = disk_moves({T0: {1: "/b"}}, seen)
    assert (done, [partition.reason for partition in left]) == (moves, skipped)


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
        {**partition._asdict(), "replicas": list(replicas[partition]), "log_dirs": dirs}
        for partition, dirs in log_dirs.items()
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
    assert [move["to_log_dir"] for move in ran.document["disks"]] == ["/data2", "/data2"]
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


def test_for_the_rate_of_disks_nobody_is_asked_what_brokers_copy_between_them(
    fake: Reassigning, both: str
) -> None:
    """That has rates of its own; and of one that is set already nothing is asked again."""

    fake.disk_looks = 0
    fake.kipctl("reassign --plan", both, "--yes --throttle 5MB/s --timeout 5s", status=6)
    fake.disk_looks = 1
    fake.kipctl("changes resume --yes")
    fake.kipctl("undo --yes")
    asked = {type(request) for request in fake.broker.requests()}
    assert ListPartitionReassignmentsRequest not in asked


@pytest.mark.parametrize(("way", "where"), [("changes resume", "/data2"), ("undo", "/data")])
def test_cut_off_it_is_gone_on_with_or_taken_back(
    fake: Reassigning, both: str, way: str, where: str
) -> None:
    fake.disk_looks = 0
    ran = fake.kipctl("reassign --plan", both, "--yes --throttle 5MB/s --timeout 5s", status=6)
    assert "still being copied from disk to disk; the brokers go on by themselves" in ran.err
    (entry,) = fake.entries()
    go_on = f"Go on: kipctl changes resume {entry.id} or undo: kipctl undo {entry.id}"
    assert ran.err.splitlines()[-1] == go_on
    assert fake.configs[4, "1"] == {RATE: "5000000"}
    assert fake.states() == ["submitted"]
    fake.disk_looks = 1
    fake.kipctl(way, "--yes")
    assert {fake.located.get(partition, "/data") for partition in REPLICAS} == {where}
    assert not fake.futures
    assert not any(fake.configs.values())
    assert list(fake.kept.unfinished()) == []


def test_what_is_refused_once_brokers_copy_stays_open(
    fake: Reassigning, both: str, clock: PassingClock
) -> None:
    """Such as a look at their disks: what they copy arrives, and is to be undone then."""
    fake.disk_looks = 0
    refused = [int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)] * 100
    clock.meanwhile = [
        (
            lambda: bool(fake.futures),
            lambda: fake.stumbles.update({DescribeLogDirsRequest: refused}),
        )
    ]
    ran = fake.kipctl("reassign --plan", both, "--yes", status=5)
    assert "Brokers go on with what they copy from disk to disk." in ran.err
    assert fake.states() == ["submitted"]


def test_what_is_still_copied_is_listed_and_given_up(fake: Reassigning, both: str) -> None:
    fake.disk_looks = 0
    fake.kipctl("reassign --plan", both, "--yes --throttle 5MB/s --timeout 5s", status=6)
    fake.located[T1] = fake.futures.pop(T1)
    listed = fake.kipctl("reassign --list -o json").document["disks"]
    assert {(copy["partition"], copy["from_log_dir"], copy["to_log_dir"]) for copy in listed} == {
        (0, "/data", "/data2")
    }
    assert "Copied from disk to disk: " in fake.kipctl("reassign --list").out
    assert "1 copy is to be given up." in fake.kipctl("changes cancel --dry-run").out
    assert fake.futures == {T0: "/data2"}
    ran = fake.kipctl("changes cancel --yes")
    assert "1 copy is given up." in ran.out
    assert "undo it (kipctl undo" in ran.err
    assert (fake.futures, fake.located[T1]) == ({}, "/data2")
    fake.kipctl("changes cancel --yes -o json")
    fake.disk_looks = 1
    fake.kipctl("undo --yes")
    assert fake.located[T1] == "/data"
    assert not any(fake.configs.values())


def cut_off(fake: Reassigning, both: str) -> None:
    fake.disk_looks = 0
    fake.kipctl("reassign --plan", both, "--yes --throttle 5MB/s --timeout 5s", status=6)


def test_where_nothing_had_moved_giving_up_is_all_of_the_way_back(
    fake: Reassigning, both: str
) -> None:
    cut_off(fake, both)
    ran = fake.kipctl("changes cancel --yes")
    assert "2 copies are given up." in ran.out
    assert "had moved: it is undone." in ran.err
    assert "What has been moved" not in ran.err
    assert fake.states() == ["undone"]
    assert not any(fake.configs.values())
    assert "Nothing is left to resume" in fake.kipctl("changes resume --yes").err


def test_where_its_throttle_cannot_be_set_anew_it_may_still_be_gone_on_with(
    fake: Reassigning, both: str
) -> None:
    cut_off(fake, both)
    fake.configs[4, "3"] = {}
    fake.stumbles[IncrementalAlterConfigsRequest] = [HANG_UP]
    fake.kipctl("changes resume --yes", status=3)
    assert fake.states() == ["submitted"]
    assert fake.configs[4, "1"] == {RATE: "5000000"}, "what is still copied is held back by it"
    fake.disk_looks = 1
    fake.kipctl("changes resume --yes")
    assert fake.states() == ["done"]


def test_the_rate_is_put_back_with_what_stays_where_it_has_been_moved(
    fake: Reassigning, both: str
) -> None:
    cut_off(fake, both)
    fake.located[T1] = fake.futures.pop(T1)
    ran = fake.kipctl("changes cancel --yes")
    assert "What has been moved stays: undo it" in ran.err
    assert fake.states() == ["submitted"]
    assert not any(fake.configs.values())


@pytest.mark.parametrize(
    ("chosen", "left"),
    [("--all", set()), ("--topic t", {U0}), ("--topic u", {T0, T1}), ("--plan {}", {U0})],
)
@pytest.mark.parametrize("begun_here", [True, False])
def test_copies_between_disks_are_given_up_with_what_is_reassigned(
    fake: Reassigning, both: str, begun_here: bool, chosen: str, left: set[PartitionId]
) -> None:
    cut_off(fake, both)
    if not begun_here:
        fake.entries()[0].path.unlink()
    fake.partitions[U0] = Held((1, 2), 1)
    fake.futures[U0] = "/data2"
    before = set(fake.futures)
    ran = fake.kipctl("changes cancel --dry-run -o json", chosen.format(both))
    shown = {PartitionId(copy["topic"], copy["partition"]) for copy in ran.document["disks"]}
    assert shown == before - left
    assert set(fake.futures) == before
    ran = fake.kipctl("changes cancel --yes", chosen.format(both))
    assert set(fake.futures) == left
    assert "copies between disks are given up" in " ".join(ran.out.split())
    if begun_here:
        gone = not left.intersection({T0, T1})
        assert fake.states() == ["undone" if gone else "submitted"]
        assert any(fake.configs.values()) is not gone


def test_a_throttle_that_was_set_since_does_not_hide_them(fake: Reassigning, both: str) -> None:
    cut_off(fake, both)
    fake.kipctl("throttle set 3MB/s --topic t --yes")
    fake.kipctl("changes cancel --yes")
    assert fake.futures == {}


def test_a_change_of_disks_that_is_done_does_not_hide_a_reassignment(
    fake: Reassigning, both: str
) -> None:
    fake.kipctl("reassign --plan", both, "--yes --throttle 5MB/s")
    entry = fake.entries()[0]
    throttle = Throttle((Change(Setting("broker", "9", RATE), None, "5000000"),))
    fake.kept.save({}, {}, throttle=throttle, kind=ChangeKind.DISKS, disks=entry.disks).mark(
        EntryState.DONE
    )
    ran = fake.kipctl("changes cancel --yes")
    assert "copies" not in ran.out + ran.err


def test_what_a_broker_does_not_give_up_is_not_counted(fake: Reassigning, both: str) -> None:
    cut_off(fake, both)
    fake.refused = {T0}
    ran = fake.kipctl("changes cancel --yes", status=5)
    assert "1 copy is given up." in ran.out


def test_whose_copies_another_terminal_gives_up_ends_and_says_so(
    fake: Reassigning, both: str, clock: PassingClock
) -> None:
    fake.disk_looks = 0
    cancel = "changes cancel --yes"
    clock.meanwhile = [(lambda: len(fake.futures) == 2, lambda: fake.kipctl(cancel))]
    ran = fake.kipctl("reassign --plan", both, "--yes --throttle 5MB/s", status=4)
    assert f"t-0: on broker 1 {GIVEN_UP}" in " ".join((ran.out + ran.err).split())
    assert fake.futures == {}
    assert not any(fake.configs.values())
    assert fake.states() == ["submitted"]


def test_a_rate_for_copies_between_disks_is_needed_as_long_as_there_are_any(
    fake: Reassigning, both: str
) -> None:
    fake.configs = {(4, "1"): {RATE: "7"}}
    fake.futures = {T0: "/data2"}
    fake.disk_looks = 0
    assert "Broker 1 copies between its disks under them." in fake.kipctl("throttle show").out
    ran = fake.kipctl("changes clear-throttles --all --yes", status=4)
    assert "See what is copied: kipctl reassign --list" in ran.err
    assert "kipctl wait" not in ran.err, "which would end at once"
    fake.futures = {}
    ran = fake.kipctl("inspect brokers")
    assert "Copies between disks are still throttled, and there are none: a rate on broker 1" in (
        " ".join(ran.out.split())
    )
    fake.kipctl("changes clear-throttles --all --yes")
    assert not any(fake.configs.values())


def test_of_a_broker_that_does_not_tell_a_rate_is_needed(fake: Reassigning, both: str) -> None:
    fake.configs = {(4, "1"): {RATE: "7"}}
    refused = [int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)] * 100
    fake.stumbles[DescribeLogDirsRequest] = list(refused)
    why = "Whether broker 1 copies between its disks is not known"
    assert why in " ".join(fake.kipctl("throttle show").out.split())
    ran = fake.kipctl("changes clear-throttles --all --yes", status=4)
    assert why in ran.err
    assert fake.configs[4, "1"] == {RATE: "7"}
    assert "Copies between disks are still throttled" not in fake.kipctl("inspect brokers").out
    why = "Whether brokers 1, 2, 3, 4 copy between their disks is not known"
    listed = fake.kipctl("reassign --list").out
    assert why in " ".join(listed.split())
    assert "CLUSTER_AUTHORIZATION_FAILED" in listed
    silent = fake.kipctl("reassign --list -o json").document["broker_errors"]
    assert [*silent] == ["1", "2", "3", "4"]
    assert all("CLUSTER_AUTHORIZATION_FAILED" in error for error in silent.values())
    assert why in " ".join(fake.kipctl("changes cancel --all --yes").err.split())
    fake.kipctl("changes clear-throttles --all --yes --force")
    assert not any(fake.configs.values())


def test_before_version_3_an_answer_without_directories_is_a_refusal() -> None:
    assert refusal_code(DescribeLogDirsResponse()) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert refusal_code(DescribeLogDirsResponse(error_code=41)) == 41
    shown = DescribeLogDirsResult(log_dir="/a", topics=(), total_bytes=1, usable_bytes=1)
    assert refusal_code(DescribeLogDirsResponse(results=(shown,))) == ErrorCode.NONE


def test_a_broker_that_hangs_does_not_hold_up_the_list(
    fake: Reassigning, both: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hangs(asked: Asked) -> Response | bytes | None:
        return None if isinstance(asked.request, DescribeLogDirsRequest) else fake.answer(asked)

    assert fake.broker is not None
    fake.broker.answers = hangs
    asked_for_s: list[float] = []

    def looks(cluster: Cluster, brokers: Iterable[int], deadline_s: float) -> DiskCopies:
        asked_for_s.append(deadline_s)
        return between_disks(cluster, brokers, 0.2)

    monkeypatch.setattr("kipctl.cli.commands.reassign_looks.between_disks", looks)
    ran = fake.kipctl("reassign --list")
    assert "Whether brokers 1, 2, 3, 4 copy between their disks is not known" in " ".join(
        ran.out.split()
    )
    assert asked_for_s == [LIST_DEADLINE_S]


def test_a_copy_that_ends_as_it_is_given_up_is_not_begun_in_reverse(
    fake: Reassigning, both: str
) -> None:
    cut_off(fake, both)
    fake.swapped_late = {T0}
    ran = fake.kipctl("changes cancel --yes")
    assert (fake.futures, fake.located) == ({}, {T0: "/data2"})
    assert "1 copy is given up." in ran.out
    assert "What has been moved stays: undo it" in ran.err
    assert not any(fake.configs.values())


def test_interrupted_it_says_that_some_copies_may_be_given_up(fake: Reassigning, both: str) -> None:
    cut_off(fake, both)

    def interrupts(asked: Asked) -> Response | bytes | None:
        if isinstance(asked.request, AlterReplicaLogDirsRequest):
            os.kill(os.getpid(), signal.SIGINT)
        return fake.answer(asked)

    assert fake.broker is not None
    fake.broker.answers = interrupts
    ran = fake.kipctl("changes cancel --yes", status=130)
    assert "Interrupted. Some copies may be given up already." in ran.err
    assert "See what is copied: kipctl reassign --list" in ran.err


@pytest.mark.parametrize(
    ("stopped_by", "status", "said"),
    [
        (UnreachableError("Broker 1 did not answer."), 5, "Broker 1 did not answer"),
        (KeyboardInterrupt(), 130, "1 reassignment is cancelled, and some copies may be given up"),
    ],
)
def test_what_is_cancelled_is_told_though_copies_are_not_given_up(
    fake: Reassigning,
    both: str,
    monkeypatch: pytest.MonkeyPatch,
    stopped_by: BaseException,
    status: int,
    said: str,
) -> None:
    cut_off(fake, both)
    fake.partitions[U0] = Held((1, 2), 1, target=(1, 3))

    def stops(*_: object) -> None:
        raise stopped_by

    monkeypatch.setattr("kipctl.changes.cancel.give_up", stops)
    ran = fake.kipctl("changes cancel --all --yes", status=status)
    assert said in " ".join((ran.out + ran.err).split())
    assert fake.partitions[U0].target is None
    if status == 5:
        assert "Cancelled" in ran.out


def test_with_nothing_but_copies_the_controller_is_not_asked_to_cancel(
    fake: Reassigning, both: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off(fake, both)
    monkeypatch.setattr("kipctl.changes.cancel.cancel_chosen", None)
    ran = fake.kipctl("changes cancel --all --yes")
    assert "copies between disks are given up." in ran.out


def test_where_nothing_is_copied_that_is_said_of_the_entry(fake: Reassigning, both: str) -> None:
    cut_off(fake, both)
    fake.located |= fake.futures
    fake.futures = {}
    entry = fake.entries()[0].id
    for how in ("--yes", "--dry-run"):
        ran = fake.kipctl("changes cancel", how)
        assert f"Nothing of entry {entry} is being copied." in " ".join(ran.out.split())
        assert "0 copies" not in ran.out


def test_an_entry_that_is_over_is_not_said_to_be_gone_on_with(fake: Reassigning, both: str) -> None:
    fake.kipctl("reassign --drain 3 --yes")
    (entry,) = fake.entries()
    fake.partitions[T1].replicas = (2, 3)
    ran = fake.kipctl("reassign --verify", str(entry.path), status=5)
    assert "changes resume" not in ran.err
    assert f"kipctl changes show --journal {entry.path}" in ran.err
    entry.mark(EntryState.SUBMITTED)
    ran = fake.kipctl("reassign --verify", str(entry.path), status=5)
    assert f"kipctl changes resume --journal {entry.path}" in ran.err


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
