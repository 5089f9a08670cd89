"""What an unclean election would do, before it is held: who would lead, and what may be lost."""

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from kipctl.at_once import chunks
from kipctl.cluster.eligible_leader_replicas import EligibleReplicas, ask_eligible_replicas
from kipctl.cluster.log_offsets import offsets_request, reported_epochs, reported_offsets
from kipctl.cluster.open_transactions import (
    UNDER_WAY,
    HeldUp,
    OpenTransactions,
    abort_command,
    ask_coordinators,
    held_up,
    look,
    without_record,
)
from kipctl.cluster.registered_brokers import registered_brokers
from kipctl.cluster.snapshot import NO_LEADER, Partition, PartitionId, Snapshot
from kipctl.counts import broker_list, counted
from kipctl.errors import KipctlError, PartlyDoneError, RefusedError
from kipctl.protocol.api import ApiKey
from kipctl.protocol.list_offsets import DEBUGGING_REPLICA_ID, LATEST_TIMESTAMP, MAX_TIMESTAMP
from kipctl.transport.access import Access
from kipctl.transport.each_broker import ask_each
from kipctl.transport.request import BrokerConnection, Cluster

_MOST_IN_ONE = 1000
"""Partitions whose log ends are asked for in one request."""
_DEADLINE_S = 30.0
"""For all brokers together."""
_OFFSETS_KNOWN_S = 5.0
"""How long a new leader is given to know its high watermark (OFFSET_NOT_AVAILABLE until then)."""
_PAUSE_S = 0.1
_NEWEST_RECORD = 7
"""The version of ListOffsets that knows `MAX_TIMESTAMP`."""


@dataclass(frozen=True, slots=True)
class LeaderlessPartition:
    """A partition without a leader. `log_ends` are those that its live replicas report.

    `last_in_sync` are those that have every acknowledged record: the ISR, and the eligible leader
    replicas (KIP-966; from Kafka 4.1 a cluster may have no other). Without either it is the last
    leader that had been one of them; the controller forgets all of them when min.insync.replicas
    is changed (`ReplicationControlManager`), and then it may be any replica. Of these
    `may_come_back` are down, and not known to have been taken out of the cluster.
    """

    id: PartitionId
    replicas: tuple[int, ...]
    live: tuple[int, ...]
    last_in_sync: tuple[int, ...]
    log_ends: Mapping[int, int] = field(default_factory=dict)
    may_come_back: tuple[int, ...] = ()
    last_epochs: Mapping[int, int] = field(default_factory=dict)
    """The leader epoch of the newest record in the logs of live replicas; of those that tell."""

    @property
    def would_lead(self) -> int | None:
        """The broker that the controller would elect; None when no replica is live.

        The first live replica that was in sync, else the first live one, however short its log is
        (`PartitionChangeBuilder.electAnyLeader`).
        """
        in_sync = [broker for broker in self.live if broker in self.last_in_sync]
        return next(iter(in_sync or self.live), None)

    @property
    def is_clean(self) -> bool:
        """Whether what would lead was in sync: then nothing is lost."""
        return self.would_lead in self.last_in_sync

    @property
    def known_loss(self) -> int | None:
        """Records by which another live replica's log is longer; None when it is not known."""
        leader = self.would_lead
        if leader is None or leader not in self.log_ends:
            return None
        return max(self.log_ends.values()) - self.log_ends[leader]

    @property
    def loss(self) -> str:
        """What may be lost, in words."""
        if self.would_lead is None:
            return "nobody can lead: no live replica"
        if self.is_clean:
            return "nothing: it was in sync"
        said = []
        if self.known_loss is None:
            said.append("not known")
        elif self.known_loss:
            longest = max(self.log_ends, key=lambda broker: self.log_ends[broker])
            said.append(f"{counted(self.known_loss, 'record')} of broker {longest}")
        if down := [broker for broker in self.replicas if broker not in self.live]:
            end = self.log_ends.get(self.would_lead)
            records = "records" if end is None else f"records from offset {end:,} on"
            said.append(f"{broker_list(down)} (down) may have {records}: they will be lost")
        return "; ".join(said) or "no record of a live replica"


def leaderless(
    partition: Partition,
    brokers: Collection[int],
    log_ends: Mapping[int, int],
    eligible: tuple[int, ...] = (),
    registered: Collection[int] | None = None,
    last_epochs: Mapping[int, int] | None = None,
) -> LeaderlessPartition:
    """A partition without a leader, in a cluster of these live brokers.

    `registered` are the brokers that the controller knows, fenced ones too; None where it does not
    say.
    """
    live = tuple(
        broker
        for broker in partition.replicas
        if broker in brokers and broker not in partition.offline
    )
    in_sync = tuple(dict.fromkeys((*partition.isr, *eligible)))
    back = tuple(
        broker
        for broker in in_sync or partition.replicas
        if broker not in brokers and (registered is None or broker in registered)
    )
    return LeaderlessPartition(
        partition.id, partition.replicas, live, in_sync, log_ends, back, last_epochs or {}
    )


def longest_first(partition: LeaderlessPartition) -> LeaderlessPartition:
    """With the live replica first that has the most records, so that an election chooses it.

    The one with the newest leader epoch, then with the longest log: what an older epoch has beyond
    the newer one was never acknowledged (KIP-101, KIP-279). As it is where a replica in sync would
    lead, and where no log is known. A pure function.
    """
    if partition.is_clean or not partition.log_ends:
        return partition
    epochs, ends = partition.last_epochs, partition.log_ends
    # The first of several that are as long.
    longest = max(partition.live, key=lambda b: (epochs.get(b, -1), ends.get(b, -1)))
    if longest == partition.would_lead:
        return partition
    rest = tuple(broker for broker in partition.replicas if broker != longest)
    live = tuple(broker for broker in partition.live if broker != longest)
    return replace(partition, replicas=(longest, *rest), live=(longest, *live))


def require_lost_for_good(partitions: Iterable[LeaderlessPartition]) -> None:
    """Raise RefusedError while a broker may come back that has what an election would lose."""
    waited = [
        partition for partition in partitions if partition.may_come_back and not partition.is_clean
    ]
    if not waited:
        return
    down = sorted({broker for partition in waited for broker in partition.may_come_back})
    was, them = ("was", "it") if len(down) == 1 else ("were", "them")
    more = f" and {len(waited) - 1:,} more" if len(waited) > 1 else ""
    which, brokers = f"{waited[0].id}{more}", broker_list(down)
    for_good = " Only where that data is lost for good: the same command with --force."
    if waited[0].last_in_sync:
        raise RefusedError(
            f"{brokers.capitalize()} {was} in sync last with {which}, and may come back with every"
            " acknowledged record.",
            f"Start {them}: no unclean election is needed then.{for_good}",
        )
    raise RefusedError(
        f"Who was in sync last with {which} is not known (a change of min.insync.replicas makes the"
        f" cluster forget it), and {broker_list(down, 'are')} down.",
        f"Start {them}, then elect the longest log: --longest.{for_good}",
    )


def why_riskier(shown: LeaderlessPartition, now: LeaderlessPartition) -> str:
    """Why an election would not do any more what was shown, but may lose more; "" when it would.

    A pure function. Where what would lead was in sync nothing is lost, whatever was shown.
    """
    leader = now.would_lead
    if leader is None:
        return "none of its replicas is live by now" if shown.live else ""
    if now.is_clean:
        return ""
    if leader != shown.would_lead:
        other = "and nobody before" if shown.would_lead is None else f"not {shown.would_lead}"
        return f"broker {leader} would lead by now, {other}: {now.loss}"
    if shown.is_clean:
        return f"broker {leader} would lead, which was in sync when it was shown: {now.loss}"
    was, ends = shown.log_ends.get(leader), now.log_ends.get(leader)
    if was is not None and (ends is None or ends < was):
        known = "is not known" if ends is None else f"is {ends:,}"
        return f"where the log of broker {leader} ends {known} by now, and was {was:,}"
    if shown.known_loss is not None and (now.known_loss or 0) > shown.known_loss:
        return f"more would be lost by now: {now.loss}"
    return ""


def examine(cluster: Cluster, snapshot: Snapshot) -> tuple[LeaderlessPartition, ...]:
    """The snapshot's partitions without a leader, with the log ends of their live replicas.

    What a broker does not report is left out.
    """
    if not snapshot.leaderless:
        return ()
    alive = frozenset(snapshot.broker_ids)
    held: dict[int, list[PartitionId]] = {}
    for partition in snapshot.leaderless:
        for broker in leaderless(partition, alive, {}).live:
            held.setdefault(broker, []).append(partition.id)
    ends: dict[PartitionId, dict[int, int]] = {}
    epochs: dict[PartitionId, dict[int, int]] = {}
    answers = ask_each(cluster, held, lambda broker, to: _log_ends(to, held[broker]), _DEADLINE_S)
    for broker, answer in answers.items():
        if not isinstance(answer, KipctlError):
            for id, end in answer[0].items():
                ends.setdefault(id, {})[broker] = end
            for id, epoch in answer[1].items():
                epochs.setdefault(id, {})[broker] = epoch
    eligible = ask_eligible_replicas(cluster, {p.id.topic for p in snapshot.leaderless})
    registered = _registered(cluster)
    return tuple(
        leaderless(
            p,
            alive,
            ends.get(p.id, {}),
            _eligible(eligible.get(p.id, EligibleReplicas())),
            registered,
            epochs.get(p.id),
        )
        for p in snapshot.leaderless
    )


def _eligible(known: EligibleReplicas) -> tuple[int, ...]:
    return known.replicas or known.last_known


def _log_ends(
    connection: BrokerConnection, partitions: list[PartitionId]
) -> tuple[dict[PartitionId, int], dict[PartitionId, int]]:
    """Where the logs of this broker's replicas end, whoever leads, and the leader epoch of the
    newest record there; of those that it tells. A follower answers no OffsetForLeaderEpoch."""
    ends: dict[PartitionId, int] = {}
    epochs: dict[PartitionId, int] = {}
    has_newest = connection.api_versions.get(ApiKey.LIST_OFFSETS, (0, 0))[1] >= _NEWEST_RECORD
    for some in chunks(partitions, _MOST_IN_ONE):
        request = offsets_request(some, LATEST_TIMESTAMP, DEBUGGING_REPLICA_ID)
        ends |= reported_offsets(connection.request(request))
        if has_newest:
            request = offsets_request(some, MAX_TIMESTAMP, DEBUGGING_REPLICA_ID)
            epochs |= reported_epochs(connection.request(request))
    return ends, epochs


def _registered(cluster: Cluster) -> frozenset[int] | None:
    """The brokers that the controller knows, stopped ones too; None where nobody says."""
    try:
        return frozenset(broker.broker_id for broker in registered_brokers(cluster))
    except KipctlError:
        return None


def transactions_before(
    cluster: Cluster, partitions: Iterable[LeaderlessPartition]
) -> OpenTransactions:
    """The transactions that readers with read_committed will meet after an unclean election.

    Those that are open in the logs that would lead, which each replica tells of its own; then those
    under way of which these logs have no record. Every broker is asked for all that is under way.
    """
    logs: dict[int, list[PartitionId]] = {}
    for partition in partitions:
        if partition.would_lead is not None and not partition.is_clean:
            logs.setdefault(partition.would_lead, []).append(partition.id)
    if not logs:
        return OpenTransactions()
    seen = look(cluster, logs)
    under_way = ask_coordinators(cluster, states=UNDER_WAY)
    lacking = without_record({id for ids in logs.values() for id in ids}, seen.open, under_way)
    unknown = dict.fromkeys((*seen.unknown, *filter(None, (under_way.incomplete,))))
    return replace(seen, open=(*seen.open, *lacking), unknown=tuple(unknown))


def transactions_after(cluster: Cluster, elected: Iterable[Partition]) -> HeldUp:
    """What holds up readers with read_committed on partitions that have been elected."""
    led = [partition for partition in elected if partition.leader != NO_LEADER]
    deadline = time.monotonic() + _OFFSETS_KNOWN_S
    while (seen := held_up(cluster, led)).not_told and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)
    return seen


def require_ends(held: HeldUp, access: Access) -> None:
    """Raise PartlyDoneError where a transaction hangs: the partition is led, and yet those who read
    committed records alone get none beyond it, which a script has to know."""
    hanging = held.transactions.hanging
    if not hanging:
        return
    first = hanging[0]
    state = f" ({first.coordinated.state})" if first.coordinated else ""
    more = f" So do {len(hanging) - 1:,} more." if len(hanging) > 1 else ""
    # The marker of its end is written like a record with acks=all.
    waits = next((transaction.id for transaction in hanging if transaction.id in held.stands), None)
    order = f"First bring more replicas in sync with {waits}. " if waits else ""
    raise PartlyDoneError(
        f"Readers with read_committed stop at offset {first.start_offset:,} of {first.id} for good:"
        f" the end of a transaction of producer {first.producer_id}, epoch {first.producer_epoch},"
        f" is lost, and {first.ending}{state}.{more}",
        f"{order}Abort it, which hides its records from them:"
        f" {abort_command(str(access), first, is_secured=access.is_secured)}",
    )
