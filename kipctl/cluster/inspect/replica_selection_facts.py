"""What decides where consumers read, asked of the brokers: racks, logs, settings, and a Fetch.

Nothing is written and no offset committed. The Fetch asks at the high watermark for one byte.
"""

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase

from kipctl.cluster.inspect.replica_selection import (
    NO_SELECTOR,
    Answer,
    Choice,
    Flip,
    PartitionFacts,
    Replica,
    explain_choice,
    flips,
)
from kipctl.cluster.log_offsets import offsets_request, reported_offsets
from kipctl.cluster.registered_brokers import registered_brokers
from kipctl.cluster.snapshot import (
    NO_LEADER,
    Partition,
    PartitionId,
    Snapshot,
    by_topic,
    is_glob,
    parse_partition,
    select,
    take_snapshot,
)
from kipctl.counts import counted
from kipctl.errors import (
    KipctlError,
    PartlyDoneError,
    RefusedError,
    UsageError,
    did_you_mean,
)
from kipctl.next_step import Command
from kipctl.protocol.api import ApiKey
from kipctl.protocol.describe_configs import ResourceType, configs_request
from kipctl.protocol.error_codes import ErrorCode, error_name
from kipctl.protocol.fetch import (
    NO_PREFERRED_READ_REPLICA,
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from kipctl.protocol.list_offsets import (
    CONSUMER_REPLICA_ID,
    DEBUGGING_REPLICA_ID,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
)
from kipctl.protocol.message import R, Request
from kipctl.transport.request import Cluster

FIRST_VERSION_WITH_RACK = 11
LAST_VERSION_WITH_NAMES = 12
SELECTOR = "replica.selector.class"

_MOVED = frozenset(
    error_name(code)
    for code in (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_OUT_OF_RANGE,
    )
)
SETTLE_S = 5.0
"""Seconds in which, as a rule, news reach every broker, and a new leader hears from its followers:
before their first fetch it does not know where their logs end, and names none."""

_POLL_S = 0.1
_WATCH_POLL_S = 0.25
_WATCH_SETTLE_S = 0.5
"""Seconds: a change is reported soon, though its reason may not be known yet."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What was found: for each partition its facts, and a choice for each rack.

    `racks` are those of the cluster, of fenced brokers too; `silent` are brokers that did not
    answer, with the reason.
    """

    racks: tuple[str, ...]
    facts: tuple[PartitionFacts, ...]
    choices: tuple[Choice, ...]
    silent: Mapping[int, KipctlError]


def topic_and_number(text: str, topics: Collection[str]) -> tuple[str, int | None]:
    """What a topic's name, a glob or a partition means: the topic, or glob, and the number.

    `orders-1` is partition 1 of `orders`, unless one of the `topics` is called so, or matches.
    Raises UsageError.
    """
    is_topic = ":" not in text and not re.search(r"-\d+$", text, re.ASCII)
    if is_topic or any(fnmatchcase(topic, text) for topic in topics):
        return text, None
    partition = parse_partition(text)
    return partition.topic, partition.partition


def select_partitions(snapshot: Snapshot, patterns: Sequence[str]) -> Snapshot:
    """The partitions meant by topic names, globs and partitions; all without any.

    `orders-*:1` is partition 1 of every topic that matches and has one. Internal topics match
    their own name only. Raises UsageError for what is not there.
    """
    if not patterns:
        return select(snapshot, ())
    wanted: set[PartitionId] = set()
    for pattern in patterns:
        topic, number = topic_and_number(pattern, snapshot.topics)
        there = {p.id for p in select(snapshot, [topic]).partitions}
        wanted |= there if number is None else _numbered(there, topic, number)
    return snapshot.only(wanted)


def _numbered(there: set[PartitionId], topic: str, number: int) -> set[PartitionId]:
    """The partitions of one number, of those of each topic that the name or glob means."""
    partitions = {id for id in there if id.partition == number}
    if not partitions:
        highest = max(id.partition for id in there)
        raise UsageError(
            f"No topic that matches {topic!r} has a partition {number}; they have 0 to {highest}."
            if is_glob(topic)
            else f"Topic {topic!r} has no partition {number}; it has 0 to {highest}.",
            "List them: " + Command("inspect leaders", topic=None if is_glob(topic) else topic),
        )
    return partitions


def select_one_partition(snapshot: Snapshot, partition: PartitionId) -> Snapshot:
    """That partition, of a topic or of the only one that matches a glob.

    Raises UsageError for none, or several.
    """
    selected = select_partitions(snapshot, [f"{partition.topic}:{partition.partition}"])
    if len(selected.partitions) > 1:
        first, second, *_ = selected.partitions
        raise UsageError(
            f"{partition} is {counted(len(selected.partitions), 'partition')}, {first.id} and"
            f" {second.id} of them; one can be explained at a time.",
            f"Name one: --explain {first.id}",
        )
    return selected


def broker_racks(cluster: Cluster) -> dict[int, str | None]:
    """The rack of each broker; of fenced ones too, from Kafka 4.0 on (KIP-1073).

    Raises UnreachableError when no broker answers.
    """
    racks: dict[int, str | None] = {}
    with suppress(RefusedError):
        racks = {broker.broker_id: broker.rack for broker in registered_brokers(cluster)}
    return racks | {node.node_id: node.rack for node in cluster.nodes.values()}


def observe(
    cluster: Cluster,
    wanted: Snapshot,
    client_racks: Sequence[str] | None = None,
    settle_s: float = SETTLE_S,
) -> Observation:
    """Ask who serves these partitions in each rack of the cluster, or in the racks given.

    While an answer does not fit what the others told, as when leaders change meanwhile, all is
    asked anew, for up to `settle_s` seconds. Raises RefusedError when no broker has a rack,
    UnreachableError when no broker answers.
    """
    racks = broker_racks(cluster)
    if not any(racks.values()):
        raise RefusedError(
            "No broker of the cluster has a rack, so none can be closer than another.",
            "Set broker.rack on each broker, and replica.selector.class.",
        )
    known = tuple(sorted({rack for rack in racks.values() if rack}))
    observation = _observe(cluster, wanted, client_racks or known, racks, {})
    deadline = time.monotonic() + settle_s
    while (
        any(_is_inconsistent(choice) for choice in observation.choices)
        and time.monotonic() < deadline
    ):
        time.sleep(_POLL_S)
        now = take_snapshot(cluster, wanted.topics).only(p.id for p in wanted.partitions)
        observation = _observe(cluster, now, client_racks or known, racks, observation.silent)
    return observation


def unknown_racks(asked: Iterable[str], known: Sequence[str]) -> Iterator[str]:
    """A sentence about each rack that the cluster does not have. A pure function."""
    for rack in asked:
        if rack not in known:
            yield (
                f"The cluster has no rack {rack!r}; it has {', '.join(known)}."
                f"{did_you_mean(rack, known)}"
                " Readers that name it read from the leaders."
            )


def require_all_reported(observation: Observation) -> None:
    """Raise PartlyDoneError for partitions of which nobody says who serves them."""
    missing = {choice.id: choice for choice in observation.choices if choice.reads_from is None}
    if missing:
        first = next(iter(missing.values()))
        raise PartlyDoneError(
            f"{counted(len(missing), 'partition', total=len(observation.facts))} could not be asked"
            f" for: {first.id}, {first.why}",
            "Look: " + Command("inspect leaders"),
        )


def _is_inconsistent(choice: Choice) -> bool:
    """Whether the leader's view is another than that of Metadata and of the followers."""
    return choice.detail in _MOVED or choice.as_expected is False


def _observe(
    cluster: Cluster,
    wanted: Snapshot,
    client_racks: Sequence[str],
    racks: Mapping[int, str | None],
    silent: Mapping[int, KipctlError],
) -> Observation:
    asked = _BrokerAnswers(cluster, wanted, silent)
    facts = tuple(asked.facts(partition, racks) for partition in wanted.partitions)
    by_id = {fact.id: fact for fact in facts}
    known = frozenset(rack for rack in racks.values() if rack)
    choices = []
    for rack in client_racks:
        answers = asked.fetch(facts, rack)
        choices += [
            explain_choice(by_id[i], rack, a, known, asked.silent) for i, a in answers.items()
        ]
    order = {rack: number for number, rack in enumerate(client_racks)}
    choices.sort(key=lambda choice: (choice.id, order[choice.rack]))
    return Observation(tuple(sorted(known)), facts, tuple(choices), asked.silent)


def watch(
    cluster: Cluster,
    wanted: Snapshot,
    before: Sequence[Choice],
    seconds: float | None,
    ended: Callable[[float], bool],
) -> Iterator[Flip]:
    """Each change since `before`, for so many seconds (None: for ever), or until `ended`.

    `ended` waits up to so many seconds for the user to end it, and tells whether that happened.
    Raises UnreachableError when no broker answers any more, UsageError when a topic is gone.
    """
    ids = [p.id for p in wanted.partitions]
    racks = list(dict.fromkeys(choice.rack for choice in before))
    deadline = float("inf") if seconds is None else time.monotonic() + seconds
    while (left_s := deadline - time.monotonic()) > 0 and not ended(min(_WATCH_POLL_S, left_s)):
        now = observe(
            cluster, take_snapshot(cluster, wanted.topics).only(ids), racks, _WATCH_SETTLE_S
        ).choices
        yield from flips(before, now)
        before = now


class _BrokerAnswers:
    """What brokers answered about partitions; one that fails is asked nothing more."""

    def __init__(
        self, cluster: Cluster, wanted: Snapshot, silent: Mapping[int, KipctlError]
    ) -> None:
        self.cluster = cluster
        self.silent = dict(silent)
        self.by_leader = _by_broker(wanted.partitions, lambda p: (p.leader,))
        held = _by_broker(wanted.partitions, lambda p: p.replicas)
        alive = set(wanted.broker_ids)
        self._selectors = {broker: self._selector(broker) for broker in self.by_leader}
        self._high_watermarks = {
            broker: self._offsets(broker, ids, CONSUMER_REPLICA_ID, LATEST_TIMESTAMP)
            for broker, ids in self.by_leader.items()
        }
        self._ends, self._starts = (
            {
                broker: self._offsets(broker, held[broker], DEBUGGING_REPLICA_ID, timestamp)
                for broker in held
                if broker in alive
            }
            for timestamp in (LATEST_TIMESTAMP, EARLIEST_TIMESTAMP)
        )

    def facts(self, partition: Partition, racks: Mapping[int, str | None]) -> PartitionFacts:
        """What was found of a partition."""
        replicas = tuple(
            Replica(
                broker=broker,
                rack=racks.get(broker),
                in_sync=broker in partition.isr,
                online=broker not in partition.offline,
                log_start=self._starts.get(broker, {}).get(partition.id),
                log_end=self._ends.get(broker, {}).get(partition.id),
            )
            for broker in partition.replicas
        )
        leader = partition.leader
        offset = self._high_watermarks.get(leader, {}).get(partition.id)
        if offset is None:  # a new leader does not know the high watermark at once
            offset = self._ends.get(leader, {}).get(partition.id)
        return PartitionFacts(
            id=partition.id,
            leader=leader,
            selector=self._selectors.get(leader),
            offset=offset,
            replicas=replicas,
        )

    def fetch(self, facts: Iterable[PartitionFacts], rack: str) -> dict[PartitionId, Answer]:
        """Ask each leader where a consumer in this rack is to read."""
        by_id = {fact.id: fact for fact in facts}
        answers = {i: Answer(None, "no offset to ask for is known") for i in by_id}
        for leader, ids in self.by_leader.items():
            known = {i: offset for i in ids if (offset := by_id[i].offset) is not None}
            is_silent = leader in self.silent
            answers |= dict.fromkeys(ids if is_silent else known, self._no_answer(leader))
            if known and not is_silent:
                answers |= self._fetch(leader, known, rack)
        return answers

    def _fetch(
        self, leader: int, offsets: Mapping[PartitionId, int], rack: str
    ) -> dict[PartitionId, Answer]:
        try:
            known = self.cluster.broker(leader).api_versions.get(ApiKey.FETCH, (0, 0))
        except KipctlError as error:
            self.silent[leader] = error
            return dict.fromkeys(offsets, self._no_answer(leader))
        if known[1] < FIRST_VERSION_WITH_RACK:
            return dict.fromkeys(offsets, Answer(leader))  # it takes no rack: the leader serves
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1,
            topics=tuple(
                FetchTopic(
                    topic=topic,
                    partitions=tuple(
                        FetchPartition(
                            partition=i.partition, fetch_offset=offsets[i], partition_max_bytes=1
                        )
                        for i in (PartitionId(topic, number) for number in numbers)
                    ),
                )
                for topic, numbers in by_topic(offsets).items()
            ),
            rack_id=rack,
        )
        answer = self._ask(leader, request, min(known[1], LAST_VERSION_WITH_NAMES))
        if answer is None:
            return dict.fromkeys(offsets, self._no_answer(leader))
        if answer.error_code:
            return dict.fromkeys(offsets, Answer(None, error_name(answer.error_code)))
        answers = {}
        for topic in answer.responses:
            for partition in topic.partitions:
                preferred = partition.preferred_read_replica
                answers[PartitionId(topic.topic, partition.partition_index)] = (
                    Answer(None, error_name(partition.error_code))
                    if partition.error_code
                    else Answer(leader if preferred == NO_PREFERRED_READ_REPLICA else preferred)
                )
        return answers

    def _no_answer(self, broker: int) -> Answer:
        return Answer(None, self.silent[broker].what if broker in self.silent else "")

    def _selector(self, broker: int) -> str | None:
        answer = self._ask(broker, configs_request(ResourceType.BROKER, [str(broker)], [SELECTOR]))
        for result in answer.results if answer else ():
            if SELECTOR in result.values:
                return result.values[SELECTOR] or NO_SELECTOR
        return None

    def _offsets(
        self, broker: int, ids: Iterable[PartitionId], replica_id: int, timestamp: int
    ) -> dict[PartitionId, int]:
        answer = self._ask(broker, offsets_request(ids, timestamp, replica_id))
        return reported_offsets(answer) if answer else {}

    def _ask(self, broker: int, request: Request[R], version: int | None = None) -> R | None:
        if broker in self.silent:
            return None
        try:
            return self.cluster.broker(broker).request(request, version)
        except RefusedError:
            return None  # it does not know this API: that it answers is sure
        except KipctlError as error:
            self.silent[broker] = error
            return None


def _by_broker(
    partitions: Iterable[Partition], brokers: Callable[[Partition], tuple[int, ...]]
) -> dict[int, list[PartitionId]]:
    """The partitions of each broker that `brokers` names for one."""
    by_broker: dict[int, list[PartitionId]] = {}
    for partition in partitions:
        for broker in brokers(partition):
            if broker != NO_LEADER:
                by_broker.setdefault(broker, []).append(partition.id)
    return by_broker
