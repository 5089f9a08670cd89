"""What a script waits for between two steps: conditions of a cluster, and whether they hold."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from kipctl.at_once import AT_ONCE
from kipctl.changes.elections.request import SEE_LEADERS
from kipctl.changes.execution.copy_progress import CatchUpTracker
from kipctl.changes.execution.pacing import ReportInterval
from kipctl.cluster.acls import require_topics_shown
from kipctl.cluster.metadata_convergence import sample_brokers
from kipctl.cluster.reassignments import list_reassignments
from kipctl.cluster.recoveries import catching_up
from kipctl.cluster.snapshot import Broker, PartitionId, Snapshot, refresh_snapshot, take_snapshot
from kipctl.counts import counted
from kipctl.errors import KipctlError, TimedOutError, UnreachableError, UsageError
from kipctl.protocol.api_versions import own_api_versions_request
from kipctl.protocol.metadata import metadata_request
from kipctl.protocol.metadata_frames import read_metadata
from kipctl.transport.each_broker import ask_each
from kipctl.transport.request import Cluster

_FIRST_PAUSE_S = 0.1
_LAST_PAUSE_S = 2.0
_SHARE_OF_WAIT = 0.05


class Condition(StrEnum):
    """What may be waited for; it holds for all partitions that are asked for, or not at all."""

    IN_SYNC = "in-sync"
    PREFERRED = "preferred"
    CONVERGED = "converged"
    NO_REASSIGNMENT = "no-reassignment"


Views = Mapping[PartitionId, tuple[int, int]]
"""What a broker shows of each partition: leader epoch and leader."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What brokers show, compared: which were `asked` for it, and the partitions of which they do
    not all show the same leader at the same epoch. `silent` are those of all brokers that do not
    answer."""

    asked: tuple[int, ...] = ()
    silent: tuple[int, ...] = ()
    differing: tuple[PartitionId, ...] = ()
    others: tuple[int, ...] = ()
    """Brokers that were asked only whether they answer."""

    @property
    def answering(self) -> tuple[int, ...]:
        return tuple(sorted({*self.asked, *self.others} - {*self.silent}))


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A look at a cluster: as one broker shows it, what the brokers asked show, and what moves.

    The controller lists in `moving` also what the client may not Describe.
    """

    snapshot: Snapshot
    compared: Comparison = Comparison()
    moving: frozenset[PartitionId] = frozenset()


def compare(
    answers: Iterable[tuple[int, Views | None]], partitions: Iterable[PartitionId]
) -> Comparison:
    """Compare what brokers show of these partitions; None is of one that does not answer.

    Two answers are held at a time, however many brokers there are. A pure function.
    """
    wanted = tuple(partitions)
    first: Views | None = None
    asked, silent = [], []
    differing: dict[PartitionId, None] = {}
    for broker, views in answers:
        asked.append(broker)
        if views is None:
            silent.append(broker)
        elif first is None:
            first = views
        else:
            known = first
            differing |= dict.fromkeys(id for id in wanted if views.get(id) != known.get(id))
    return Comparison(tuple(asked), tuple(silent), tuple(differing))


def unmet(condition: Condition, seen: ClusterState) -> str:
    """What keeps the condition from being met, in a few words; empty when it is met."""
    match condition:
        case Condition.IN_SYNC:
            return not_all_in_sync(seen.snapshot)
        case Condition.PREFERRED:
            not_preferred = [p.id for p in seen.snapshot.not_led_by_preferred]
            return _listed(not_preferred, "not led by the preferred replica")
        case Condition.NO_REASSIGNMENT:
            return _listed(sorted(seen.moving), "being reassigned")
        case Condition.CONVERGED:
            return _not_converged(seen.compared)


def not_all_in_sync(snapshot: Snapshot) -> str:
    """How many partitions lack replicas, and on which brokers; empty when none does. Pure."""
    lacking = [
        partition
        for partition in snapshot.partitions
        if not {*partition.replicas} <= {*partition.isr}
    ]
    missing = sorted(
        {broker for partition in lacking for broker in {*partition.replicas} - {*partition.isr}}
    )
    down = [broker for broker in missing if broker not in snapshot.broker_ids]
    brokers = [f"broker {broker}{' (down: start it)' * (broker in down)}" for broker in missing]
    listed = _listed([partition.id for partition in lacking], "not all in sync")
    lack = "it lacks" if len(lacking) == 1 else "they lack"
    return f"{listed}: {lack} {', '.join(brokers)}" if listed else ""


def _not_converged(compared: Comparison) -> str:
    if compared.silent:
        return f"broker {', '.join(map(str, compared.silent))} does not answer"
    return _listed(compared.differing, "not led by the same broker in every broker's eyes")


def _listed(partitions: Sequence[PartitionId], what: str) -> str:
    if not partitions:
        return ""
    them = counted(len(partitions), "partition", "are")
    return f"{them} {what}, such as {partitions[0]}"


def parse_conditions(text: str) -> tuple[Condition, ...]:
    """The conditions in `in-sync,preferred`. Raises UsageError."""
    known = [str(condition) for condition in Condition]
    wanted = [part.strip() for part in text.split(",")]
    if wrong := [part for part in wanted if part not in known]:
        raise UsageError(f"{wrong[0]!r} is no condition.", f"There are: {', '.join(known)}.")
    return tuple(dict.fromkeys(map(Condition, wanted)))


def read_state(
    cluster: Cluster, topics: Sequence[str] | None, wanted: Sequence[Condition], turn: int = 0
) -> ClusterState:
    """What these conditions need to be judged, of all topics or of these.

    For `converged` every broker is asked whether it answers, and what some of them show, others at
    each `turn`, is compared. Raises UnreachableError when no broker answers, RefusedError.
    """
    snapshot = take_snapshot(cluster) if topics is None else refresh_snapshot(cluster, topics)
    compared = Comparison()
    if Condition.CONVERGED in wanted:
        chosen = sample_brokers(snapshot.brokers, turn=turn)
        compared = compare(_views(cluster, chosen, topics), snapshot.by_id)
        others = sorted({*snapshot.broker_ids} - {*compared.asked})
        silent = sorted({*compared.silent, *_silent(cluster, others)})
        compared = replace(compared, silent=tuple(silent), others=tuple(others))
    moving: frozenset[PartitionId] = frozenset()
    if Condition.NO_REASSIGNMENT in wanted:
        busy = list_reassignments(cluster)
        moving = frozenset(move.id for move in busy if topics is None or move.id.topic in topics)
    return ClusterState(snapshot, compared, moving)


def _silent(cluster: Cluster, brokers: Sequence[int]) -> list[int]:
    """Brokers that do not answer ApiVersions, whose answer does not grow with the cluster."""
    request = own_api_versions_request()
    rounds = 1 + len(brokers) // AT_ONCE
    answers = ask_each(
        cluster,
        brokers,
        lambda _, connection: connection.request(request),
        (rounds + 1) * cluster.timeout_s,  # each is over in its own time before that
    )
    return [broker for broker, answer in answers.items() if isinstance(answer, KipctlError)]


def _views(
    cluster: Cluster, brokers: Iterable[Broker], topics: Sequence[str] | None
) -> Iterator[tuple[int, Views | None]]:
    request = metadata_request(topics)
    for broker in brokers:
        try:
            version, frame = cluster.broker(broker.id).metadata_frame(request)
            shown = read_metadata(version, frame)
        except KipctlError:
            yield broker.id, None
            continue
        yield (
            broker.id,
            {
                PartitionId(topic.name, partition.partition_index): (
                    partition.leader_epoch,
                    partition.leader_id,
                )
                for topic in shown.topics
                for partition in topic.partitions
            },
        )


def await_conditions(
    cluster: Cluster,
    topics: Sequence[str] | None,
    wanted: Sequence[Condition],
    timeout_s: float,
    progress: Callable[[str], None],
) -> ClusterState:
    """Look again and again until one look shows all of these conditions met; returns it.

    A topic that is deleted meanwhile is not waited for. Raises TimedOutError with what is unmet,
    UnreachableError when no broker answers at the end, RefusedError, also when of all topics the
    client is shown none for want of a right.
    """
    began = time.monotonic()
    turn = 0
    last = still_copy = ""
    catch_up, reports = CatchUpTracker(cluster), ReportInterval()
    while True:
        asked = time.monotonic()
        is_late = asked - began > timeout_s
        try:
            seen = read_state(cluster, topics, wanted, turn)
            turn += 1
            left = "; ".join(filter(None, (unmet(condition, seen) for condition in wanted)))
            if not left:
                if topics is None:
                    require_topics_shown(cluster, seen.snapshot.topics)
                return seen
            if Condition.IN_SYNC in wanted and reports.is_due(asked):
                behind = catching_up(seen.snapshot)
                still_copy = "; ".join(map(str, catch_up.look(seen.snapshot, behind)))
            left = "; ".join(filter(None, (left, still_copy)))
        except (UnreachableError, TimedOutError) as error:
            if is_late:
                raise
            left = error.what
        if is_late:
            raise TimedOutError(f"After {timeout_s:g} s: {left}.", SEE_LEADERS)
        if left != last:
            last = left
            progress(left)
        now = time.monotonic()
        pause_s = min(max(_FIRST_PAUSE_S, (now - began) * _SHARE_OF_WAIT), _LAST_PAUSE_S)
        time.sleep(max(0.0, min(max(pause_s, now - asked), began + timeout_s - now)))
