"""Replicas moved between the log directories of their broker (AlterReplicaLogDirs, KIP-113).

The broker copies the replica beside itself, and the copy takes its place once it has caught up. It
goes on by itself, also after a restart; to ask for the directory of now gives the copy up.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

from kipctl.changes.execution.pacing import ReportInterval
from kipctl.changes.execution.reassign import poll_pauses, retry_until
from kipctl.changes.plans.disks import DiskMove, by_broker
from kipctl.changes.plans.kafka_json import LogDirs, ReassignmentFile
from kipctl.changes.plans.plan import SkippedPartition
from kipctl.cluster.log_dirs import (
    BrokerDirs,
    DiskCopies,
    Located,
    broker_dirs,
    refusal_code,
    sizes_request,
)
from kipctl.cluster.snapshot import PartitionId, by_topic
from kipctl.counts import counted, format_bytes
from kipctl.errors import KipctlError, RefusedError, TimedOutError
from kipctl.progress import ProgressText
from kipctl.protocol.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode, error_text
from kipctl.transport.acl_errors import refusal
from kipctl.transport.each_broker import ask_each
from kipctl.transport.request import Cluster

_DEADLINE_S = 30.0
_STALL_S = 300.0
"""Without a time for the whole it is given up when nothing has been copied for so long."""
NO_REPLICA = "its broker has no replica of it"
GIVEN_UP = "its copy was given up by somebody else"
STILL_COPIED = "it is still being copied"
_SWAP_S = 3.0
"""So long a broker may show neither the copy nor that it has taken its replica's place."""
_NOWHERE, _AFTER = Located(), attrgetter("after")


@dataclass(frozen=True, slots=True)
class DiskResult:
    """What became of disk moves."""

    moved: tuple[DiskMove, ...]
    failures: tuple[SkippedPartition, ...]
    seconds: float

    @property
    def done(self) -> int:
        return len(self.moved)

    @property
    def has_changed(self) -> bool:
        return bool(self.moved)


Dirs = Mapping[int, BrokerDirs]


def disk_moves(
    wanted: LogDirs, seen: Dirs
) -> tuple[tuple[DiskMove, ...], tuple[SkippedPartition, ...]]:
    """What is not in the directory that is wanted, and what its broker has no replica of.

    One that is being copied away from there is not there for long. A pure function.
    """
    moves, skipped = list[DiskMove](), list[SkippedPartition]()
    for partition, of_brokers in wanted.items():
        for broker, directory in of_brokers.items():
            at = seen[broker].replicas.get(partition, _NOWHERE)
            if not at.directory:
                skipped.append(SkippedPartition(partition, f"broker {broker}: {NO_REPLICA}"))
            elif at.directory != directory or at.future:
                moves.append(DiskMove(partition, broker, at.directory, directory, at.size))
    return tuple(moves), tuple(skipped)


def look_at(cluster: Cluster, wanted: LogDirs) -> Dirs:
    """Where these brokers have these replicas. Raises KipctlError for one that does not tell."""
    asked = defaultdict[int, list[PartitionId]](list)
    for partition, of_brokers in wanted.items():
        for broker in of_brokers:
            asked[broker].append(partition)
    answers = ask_each(
        cluster,
        sorted(asked),
        lambda broker, connection: connection.request(sizes_request(asked[broker])),
        _DEADLINE_S,
    )
    seen = {}
    for broker, answer in answers.items():
        if isinstance(answer, KipctlError):
            raise answer
        if code := refusal_code(answer):
            raise refusal(
                f"Broker {broker} does not tell where its replicas are",
                code,
                ApiKey.DESCRIBE_LOG_DIRS,
                cluster.access,
            )
        seen[broker] = broker_dirs(answer)
    return seen


def require_no_disk_moves(cluster: Cluster, file: ReassignmentFile) -> None:
    """Raise RefusedError for a plan of brokers that puts replicas on other disks, too."""
    if not file.log_dirs:
        return
    moves, coming = disk_moves(file.log_dirs, look_at(cluster, file.log_dirs))
    if moves or coming:
        partition_id = (moves or coming)[0].id
        raise RefusedError(
            f"{file.path} moves replicas between brokers, and names disks for them, such as those"
            f" of {partition_id}.",
            'Nothing was changed. Make two plans of it: that of the brokers, with "any" for'
            " log_dirs, and then that of the disks.",
        )


def require_room(moves: Sequence[DiskMove], seen: Dirs, *, force: bool) -> None:
    """Raise RefusedError for a directory that its broker does not have, or, unless `force`, that
    has too little room. A pure function."""
    coming = defaultdict[tuple[int, str], int](int)
    for move in moves:
        usable = seen[move.broker].usable
        if move.after not in usable:
            raise RefusedError(
                f"Broker {move.broker} has no log directory {move.after} in use, where"
                f" {move.id} is to be; it has {', '.join(sorted(usable))}.",
                "Nothing was changed. Correct the log_dirs of the plan.",
            )
        coming[move.broker, move.after] += move.size
    for (broker, directory), size in coming.items():
        free = seen[broker].usable[directory]
        if 0 <= free < size and not force:
            raise RefusedError(
                f"Broker {broker} has too little room in {directory}: {format_bytes(size)} come,"
                f" {format_bytes(free)} are free.",
                "Choose fewer replicas, or insist with --force.",
            )


def move_disks(
    cluster: Cluster,
    moves: Sequence[DiskMove],
    *,
    timeout_s: float | None,
    look: Callable[[], None],
    progress: Callable[[str], None],
) -> DiskResult:
    """Let brokers copy these, and wait until each copy has taken its replica's place.

    What a broker refuses, or has no replica of any more, or somebody else has ended, does not hold
    up the others. Raises KipctlError, and TimedOutError after `timeout_s`, or without when nothing
    was copied for 5 minutes; brokers go on then.
    """
    began = moved_s = time.monotonic()
    left, reports, copied = list(moves), ReportInterval(), -1
    failures: dict[DiskMove, SkippedPartition] = {}
    begun, not_shown = set[DiskMove](), dict[DiskMove, float]()
    whole = sum(move.size for move in moves)
    for pause_s in poll_pauses():
        until = moved_s + _STALL_S if timeout_s is None else began + timeout_s
        seen = retry_until(partial(look_at, cluster, by_broker(left, _AFTER)), until)
        left = [move for move in left if not _is_there(move, seen)]
        here = {move: seen[move.broker].replicas.get(move.id, _NOWHERE) for move in left}
        missing = [move for move in left if here[move].future != move.after]
        gone = [move for move in missing if move in begun and here[move].directory]
        not_shown = {move: not_shown.get(move, time.monotonic()) for move in gone}
        ended = [move for move, since in not_shown.items() if time.monotonic() > since + _SWAP_S]
        refused = _begin(cluster, [move for move in missing if move not in not_shown])
        begun |= {*left}
        for move, why in (*refused, *((move, GIVEN_UP) for move in ended)):
            failures[move] = SkippedPartition(move.id, f"on broker {move.broker} {why}")
            left.remove(move)
        if not left:
            moved = tuple(move for move in moves if move not in failures)
            return DiskResult(moved, tuple(failures.values()), time.monotonic() - began)
        look()
        now = time.monotonic()
        to_come = sum(max(0, move.size - here[move].copied) for move in left)
        if whole - to_come != copied:
            copied, moved_s = whole - to_come, now
        if now > until:
            raise TimedOutError(
                f"{counted(len(left), 'replica', 'are')} still being copied from disk"
                " to disk; the brokers go on by themselves."
            )
        if reports.is_due(now):
            text = f"Copied {format_bytes(copied)} of {format_bytes(whole)} from disk to disk"
            progress(ProgressText(text, copied, max(whole, 1), shows_time_left=True))
        time.sleep(pause_s)
    raise AssertionError("pauses() ends")


def give_up(cluster: Cluster, moves: Sequence[DiskMove], until: float) -> DiskResult:
    """Let brokers give up these copies; one that has ended by then stays where it has come to.

    `until` is the deadline (of time.monotonic). Raises KipctlError.
    """
    began, where = time.monotonic(), by_broker(moves, _AFTER)

    def look() -> dict[DiskMove, Located]:
        seen = retry_until(partial(look_at, cluster, where), until)
        return {move: seen[move.broker].replicas.get(move.id, _NOWHERE) for move in moves}

    def ask(for_directory: Callable[[DiskMove], str], asked: list[DiskMove]) -> dict[DiskMove, str]:
        wanted = {move._replace(after=for_directory(move)): move for move in asked}
        return {wanted[move]: why for move, why in _begin(cluster, [*wanted])}

    # To be asked for the directory of now is how a broker gives up its copy.
    refused = ask(attrgetter("before"), [m for m, at in look().items() if at.future == m.after])
    now = look()
    # One that took its replica's place just before was begun in reverse by that.
    reversed_ = [m for m, at in now.items() if (at.directory, at.future) == (m.after, m.before)]
    refused |= ask(_AFTER, reversed_)
    goes_on = {move: STILL_COPIED for move, at in now.items() if at.future == move.after}
    failures = {
        move: SkippedPartition(move.id, f"on broker {move.broker} {why}")
        for move, why in (goes_on | refused).items()
    }
    given_up = (m for m in moves if m not in failures and now[m].directory != m.after)
    return DiskResult(tuple(given_up), tuple(failures.values()), time.monotonic() - began)


def under_way(copies: DiskCopies) -> tuple[DiskMove, ...]:
    """What brokers are copying from disk to disk, whoever has begun it. A pure function."""
    return tuple(
        DiskMove(partition, broker, located.directory, located.future, located.size)
        for broker, replicas in copies.replicas.items()
        for partition, located in sorted(replicas.items())
    )


def is_copying(cluster: Cluster, moves: Sequence[DiskMove]) -> bool:
    """Whether any of these is still being copied; True also when that is not known."""
    try:
        seen = look_at(cluster, by_broker(moves, _AFTER))
    except KipctlError:
        return True
    return any(seen[m.broker].replicas.get(m.id, _NOWHERE).future for m in moves)


def _is_there(move: DiskMove, seen: Dirs) -> bool:
    located = seen[move.broker].replicas.get(move.id, _NOWHERE)
    return located.directory == move.after and not located.future


def _begin(cluster: Cluster, moves: Sequence[DiskMove]) -> list[tuple[DiskMove, str]]:
    """Ask the brokers for it; what they refuse, and why.

    Raises RefusedError for who has no right to it, UnreachableError and TimedOutError.
    """
    refused = []
    by_broker = defaultdict[int, dict[str, list[DiskMove]]](lambda: defaultdict(list))
    for move in moves:
        by_broker[move.broker][move.after].append(move)
    for broker, by_directory in by_broker.items():
        request = AlterReplicaLogDirsRequest(
            dirs=tuple(
                AlterReplicaLogDir(
                    directory,
                    tuple(
                        AlterReplicaLogDirTopic(*topic)
                        for topic in by_topic(m.id for m in of_it).items()
                    ),
                )
                for directory, of_it in by_directory.items()
            )
        )
        answer = cluster.broker(broker).request(request)
        codes = {
            PartitionId(topic.topic_name, partition.partition_index): partition.error_code
            for topic in answer.results
            for partition in topic.partitions
        }
        if ErrorCode.CLUSTER_AUTHORIZATION_FAILED in codes.values():
            raise refusal(
                "The cluster does not let replicas be moved from disk to disk",
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                ApiKey.ALTER_REPLICA_LOG_DIRS,
                cluster.access,
            )
        refused += [
            (move, error_text(code))
            for of_it in by_directory.values()
            for move in of_it
            if (code := codes.get(move.id, ErrorCode.NONE)) != ErrorCode.NONE
        ]
    return refused
