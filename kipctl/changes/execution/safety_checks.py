"""What a reassignment, or a partition of it, is refused for: before, and right after it is
submitted."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from kipctl.at_once import chunks
from kipctl.changes.execution.reassign import retry_until
from kipctl.changes.plans.plan import Plan
from kipctl.cluster.reassignments import Reassignment, list_reassignments
from kipctl.cluster.snapshot import PartitionId, Snapshot, take_snapshot
from kipctl.counts import counted
from kipctl.errors import KipctlError, RefusedError
from kipctl.next_step import Command, NextStep
from kipctl.protocol.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResult,
    ResourceType,
    configs_request,
)
from kipctl.transport.request import Cluster

BUSY = "it is being reassigned already"
_MIN_INSYNC = "min.insync.replicas"
_TOPICS_A_REQUEST = 500
_PATIENCE_S = 30.0

Planner = Callable[[Snapshot], Plan]


@dataclass(frozen=True, slots=True)
class Survey:
    """The cluster as a plan was made from it: what is being reassigned, then Metadata, then plan.

    `busy_refused` says why the cluster does not list its reassignments, if it does not.
    """

    busy: tuple[Reassignment, ...]
    snapshot: Snapshot
    plan: Plan
    busy_refused: str = ""


def list_or_reason(cluster: Cluster, *, may_not_list: bool) -> tuple[tuple[Reassignment, ...], str]:
    """What is being reassigned; or nothing, and why the cluster does not list it.

    Raises RefusedError when it does not, unless `may_not_list`.
    """
    try:
        return list_reassignments(cluster), ""
    except RefusedError as refused:
        if not may_not_list:
            raise
        return (), refused.what


def survey(
    cluster: Cluster,
    planner: Planner,
    named: Sequence[str] = (),
    *,
    may_not_list: bool = False,
) -> Survey:
    """Look at the whole cluster and plan; partitions that are being reassigned are skipped.

    In this order a reassignment that ends in between is in the Metadata. `named` are topics; the
    user is told why one of them is not shown. Raises RefusedError when the cluster does not list
    its reassignments, unless `may_not_list`: for a plan that is only looked at.
    """
    busy, why = list_or_reason(cluster, may_not_list=may_not_list)
    snapshot = take_snapshot(cluster, named=named)
    plan = planner(snapshot).skipping(
        dict.fromkeys((reassignment.id for reassignment in busy), BUSY)
    )
    return Survey(busy, snapshot, plan, why)


def require_no_reassignments(
    busy: Sequence[Reassignment], *, additional: bool, changed_by: str = ""
) -> None:
    """Raise RefusedError while anything in the cluster is being reassigned; `changed_by` is which
    kipctl changes the cluster now.

    As kafka-reassign-partitions does it (`ReassignPartitionsCommand`): another tool's plan counts
    on what it finds, and brokers copy for both.
    """
    if busy and not additional:
        others = counted(len(busy) - 1, "more partition")
        more = f" and {others} are" if len(busy) > 1 else " is"
        raise RefusedError(
            f"{busy[0].id}{more} being reassigned already."
            + (f" Changing the cluster now: {changed_by}." if changed_by else ""),
            NextStep(
                "Wait (",
                Command("reassign --list"),
                "), stop it (",
                Command("changes cancel"),
                ", of others with --all), or repeat with --additional: what is being "
                "reassigned is then left alone.",
            ),
        )


def require_same(confirmed: Plan, again: Plan, apart_from: Collection[str] = ()) -> None:
    """Raise RefusedError when the plan is not any more the one that was confirmed.

    `apart_from` are topics that were made since.
    """
    before, now = _changes(confirmed, apart_from), _changes(again, apart_from)
    differing = sorted({p for p, _ in before.items() ^ now.items()})
    if differing:
        raise RefusedError(
            "The cluster has changed since the plan was shown:"
            f" {counted(len(differing), 'partition')}"
            f" would be reassigned otherwise, such as {differing[0]}. Nothing was changed.",
            "Repeat the command, and look at its plan again.",
        )


def _changes(
    plan: Plan, apart_from: Collection[str]
) -> dict[PartitionId, tuple[tuple[int, ...], tuple[int, ...]]]:
    # Anybody may have held an election meanwhile.
    moves = (m for m in plan.moves if not m.is_election and m.id.topic not in apart_from)
    return {m.id: (m.before, m.after) for m in moves}


def changed_since(plan: Plan, now: Snapshot, *, elects: bool) -> dict[PartitionId, str]:
    """Why partitions of the plan are not as they were when it was made. A pure function."""
    by_id = now.by_id
    reasons = {}
    for move in plan.moves:
        partition = by_id.get(move.id)
        if partition is None:
            reasons[move.id] = "it does not exist any more"
        elif partition.replicas != move.before:
            reasons[move.id] = (
                f"its replicas have changed from {list(move.before)} to {list(partition.replicas)}"
                " meanwhile"
            )
        elif (
            elects
            and not (move.adding or move.is_election)
            and move.preferred_leader not in partition.isr
        ):
            reasons[move.id] = f"broker {move.preferred_leader} is not in sync any more"
    return reasons


def unplanned(plan: Plan, busy: Iterable[Reassignment]) -> dict[PartitionId, Reassignment]:
    """What turned out to add or remove other replicas than the plan does. A pure function.

    The controller takes a target for what it finds: where another change came first, an order of
    replicas becomes a move of data.
    """
    moves = {move.id: move for move in plan.moves}
    return {
        reassignment.id: reassignment
        for reassignment in busy
        if reassignment.id in moves
        and not (
            set(reassignment.adding) <= set(moves[reassignment.id].adding)
            and set(reassignment.removing) <= set(moves[reassignment.id].removing)
        )
    }


def require_factor_wanted(plan: Plan, *, wanted: bool) -> None:
    """Raise RefusedError for a plan that changes the number of replicas, if that was not asked."""
    moves = [move for move in plan.moves if move.changes_replication_factor]
    if moves and not wanted:
        move = moves[0]
        raise RefusedError(
            f"The plan changes the replication factor of {counted(len(moves), 'partition')}, such"
            f" as {move.id}: from {len(move.before)} to {counted(len(move.after), 'replica')}.",
            "If that is what you want, repeat with --change-replication-factor.",
        )


def topics_losing_replicas(plan: Plan) -> tuple[str, ...]:
    """The topics of which partitions get fewer replicas."""
    return tuple(dict.fromkeys(m.id.topic for m in plan.moves if len(m.after) < len(m.before)))


def require_enough_replicas(
    plan: Plan, min_insync: Mapping[str, int | None], *, force: bool
) -> None:
    """Raise RefusedError for partitions that get fewer replicas than min.insync.replicas.

    acks=all writes to them would be refused for good. So is what has none known (None).
    """
    if force:
        return
    for move in plan.moves:
        if len(move.after) >= len(move.before):
            continue
        least = min_insync.get(move.id.topic)
        if least is None or len(move.after) < least:
            known = "not known" if least is None else str(least)
            raise RefusedError(
                f"{move.id} would have {counted(len(move.after), 'replica')}, and {_MIN_INSYNC} of"
                " its topic"
                f" is {known}: acks=all writes would be refused.",
                f"Lower {_MIN_INSYNC} first, or insist with --force.",
            )


def min_insync_replicas(
    cluster: Cluster, topics: Iterable[str], patience_s: float = _PATIENCE_S
) -> dict[str, int | None]:
    """min.insync.replicas of these topics; None where it is not known.

    For `patience_s` seconds it is asked again where nobody answers.
    """
    deadline = time.monotonic() + patience_s
    known: dict[str, int | None] = {}
    for names in chunks(tuple(topics), _TOPICS_A_REQUEST):
        asked = configs_request(ResourceType.TOPIC, names, [_MIN_INSYNC])
        try:
            results = retry_until(partial(_configs, cluster, asked), deadline)
        except KipctlError:
            results = ()
        known |= dict.fromkeys(names)
        for result in results:
            value = result.values.get(_MIN_INSYNC)
            known[result.resource_name] = int(value) if value else None
    return known


def _configs(cluster: Cluster, asked: DescribeConfigsRequest) -> tuple[DescribeConfigsResult, ...]:
    return cluster.any_broker().request(asked).results


def replication_factor_warning(plan: Plan) -> str:
    """What a question adds for a plan that changes the number of replicas; "" otherwise."""
    changing = [m for m in plan.moves if m.changes_replication_factor]
    if not changing:
        return ""
    fewer = [m for m in changing if len(m.after) < len(m.before)]
    move = (fewer or changing)[0]
    lost = f"{counted(len(fewer), '', 'get')} fewer replicas, " if fewer else ""
    return (
        f" The REPLICATION FACTOR of {len(changing)} CHANGES ({lost}such as {move.id}:"
        f" {len(move.before)} to {len(move.after)})."
    )
