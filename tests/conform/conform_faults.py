"""Faults of kipctl's own clients, one for each rule, put into it: the rule has to see its own."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from old_faults import (
    hints_of_overtaken_fetches_are_dropped,
    older_epochs_of_a_new_topic,
    throttle_times_ignored,
)

from kipctl.conform.rules.kip392_09_errors import Errors
from kipctl.conform.verdict import Role, Status
from kipctl.probe.backoff import Attempts
from kipctl.probe.consume import consumer, offset_fetcher, requests
from kipctl.probe.consume.consumer import Consumer
from kipctl.probe.consume.positions import RangeCase, RangeHandling, State, Verdict
from kipctl.probe.consume.preferred_read_replica import PreferredReadReplica
from kipctl.probe.idle_eviction import TopicsInUse
from kipctl.probe.leadership import Leader, Leadership
from kipctl.probe.metadata_refresh import MetadataPolicy
from kipctl.probe.metadata_updater import MetadataUpdater
from kipctl.probe.produce import producer
from kipctl.probe.produce.batches import Partition
from kipctl.probe.produce.producer import Producer
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.fetch import FetchRequest
from kipctl.protocol.leader_hints import LeaderHint
from kipctl.trace.codes import Decision, MetadataCause

Patch = pytest.MonkeyPatch
Apply = Callable[[Leadership[Any], Any, LeaderHint], Decision]
_LONG_US = 1 << 40
_SHORT_LEASE_US = 300_000

apply_hint = Leadership.apply_hint
apply_metadata = Leadership.apply_metadata


def _hints(patch: Patch, apply: Apply) -> None:
    patch.setattr(Leadership, "apply_hint", apply)


def hints_of_known_brokers_are_ignored(patch: Patch) -> None:
    def apply(self: Any, partition: Any, hint: LeaderHint) -> Decision:
        if hint.endpoint is not None and hint.leader_id in self.nodes:
            return Decision.IGNORED
        return apply_hint(self, partition, hint)

    _hints(patch, apply)


def older_hints_are_followed(patch: Patch) -> None:
    def apply(self: Any, partition: Any, hint: LeaderHint) -> Decision:
        if 0 <= hint.leader_epoch < (known := self.epoch(partition)):
            self._leaders[partition] = Leader(hint.leader_id, known)
            return Decision.FOLLOWED
        return apply_hint(self, partition, hint)

    _hints(patch, apply)


def hints_of_the_same_epoch_are_followed(patch: Patch) -> None:
    def apply(self: Any, partition: Any, hint: LeaderHint) -> Decision:
        if hint.leader_epoch == self.epoch(partition):
            self._leaders[partition] = Leader(hint.leader_id, hint.leader_epoch)
            return Decision.FOLLOWED
        return apply_hint(self, partition, hint)

    _hints(patch, apply)


def _not_refreshed_after(patch: Patch, *unasked: Decision) -> None:
    """No Metadata is asked for after a hint that was answered so."""
    last: list[Decision] = []
    request_update = MetadataUpdater.request_update

    def apply(self: Any, partition: Any, hint: LeaderHint) -> Decision:
        last[:] = [apply_hint(self, partition, hint)]
        return last[0]

    def request(self: Any, cause: MetadataCause) -> None:
        if last and last.pop() in unasked:
            return
        request_update(self, cause)

    _hints(patch, apply)
    patch.setattr(MetadataUpdater, "request_update", request)


def refusers_that_name_themselves_are_believed(patch: Patch) -> None:
    _not_refreshed_after(patch, Decision.KNOWN)


def hints_that_are_followed_are_enough(patch: Patch) -> None:
    _not_refreshed_after(patch, Decision.FOLLOWED)


def refusals_without_a_leader_are_waited_out(patch: Patch) -> None:
    _not_refreshed_after(patch, Decision.ABSENT)


def nobody_backs_off_after_a_hint(patch: Patch) -> None:
    followed: list[bool] = []
    backoff_us = Attempts.backoff_us

    def apply(self: Any, partition: Any, hint: LeaderHint) -> Decision:
        decision = apply_hint(self, partition, hint)
        if decision is Decision.FOLLOWED:
            followed.append(True)
        return decision

    def wait_us(self: Attempts, known_epoch: int, drawn_us: int, always: bool) -> int:
        return 0 if followed else backoff_us(self, known_epoch, drawn_us, always)

    _hints(patch, apply)
    patch.setattr(Attempts, "backoff_us", wait_us)


def any_metadata_overrides_hints(patch: Patch) -> None:
    def apply(self: Any, nodes: Any, leaders: Any) -> Any:
        for partition in leaders:
            if partition in self._leaders:
                self._leaders[partition] = replace(self._leaders[partition], epoch=-1)
        return apply_metadata(self, nodes, leaders)

    patch.setattr(Leadership, "apply_metadata", apply)


def retries_wait_for_metadata(patch: Patch) -> None:
    backoff_us = Producer._backoff_us

    def wait_us(self: Any, partition: Any) -> int:
        is_awaited = self._metadata._in_flight is not None and partition.queue[0].failures
        return _LONG_US if is_awaited else backoff_us(self, partition)

    patch.setattr(Producer, "_backoff_us", wait_us)


def endpoints_of_new_brokers_are_left_out(patch: Patch) -> None:
    def apply(self: Any, partition: Any, hint: LeaderHint) -> Decision:
        if hint.leader_id not in self.nodes:
            hint = hint._replace(endpoint=None)
        return apply_hint(self, partition, hint)

    _hints(patch, apply)


def hints_without_endpoints_are_ignored(patch: Patch) -> None:
    def apply(self: Any, partition: Any, hint: LeaderHint) -> Decision:
        if hint.endpoint is None:
            return Decision.IGNORED
        return apply_hint(self, partition, hint)

    _hints(patch, apply)


def hinted_leaders_are_kept(patch: Patch) -> None:
    hinted: set[Any] = set()

    def apply(self: Any, partition: Any, hint: LeaderHint) -> Decision:
        decision = apply_hint(self, partition, hint)
        if decision is Decision.FOLLOWED:
            hinted.add(partition)
        return decision

    def take(self: Any, nodes: Any, leaders: Any) -> Any:
        kept = {p: leader for p, leader in leaders.items() if p not in hinted}
        return apply_metadata(self, nodes, kept)

    _hints(patch, apply)
    patch.setattr(Leadership, "apply_metadata", take)


def addresses_of_known_brokers_are_kept(patch: Patch) -> None:
    def apply(self: Any, partition: Any, hint: LeaderHint) -> Decision:
        if hint.leader_id in self.nodes:
            hint = hint._replace(endpoint=None)
        return apply_hint(self, partition, hint)

    _hints(patch, apply)


def _cut_after_hints(patch: Patch, is_cut: Callable[[Any, LeaderHint], bool]) -> None:
    take_hint = MetadataUpdater.apply_hint

    def apply(self: Any, partition: Any, hint: LeaderHint, now_us: int) -> Decision:
        decision = take_hint(self, partition, hint, now_us)
        if decision is Decision.FOLLOWED:
            for link in list(self._network.links):
                if link.ready and is_cut(link, hint):
                    self._network.disconnect(link)
        return decision

    patch.setattr(MetadataUpdater, "apply_hint", apply)


def the_named_leader_is_connected_anew(patch: Patch) -> None:
    _cut_after_hints(patch, lambda link, hint: link.node.id == hint.leader_id)


def other_brokers_are_disconnected(patch: Patch) -> None:
    _cut_after_hints(patch, lambda link, hint: link.node.id not in (1, hint.leader_id))


def hints_of_fenced_epochs_are_ignored(patch: Patch) -> None:
    patch.setattr(consumer, "LEADER_ERRORS", frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER}))


def answers_are_taken_in_the_order_of_requests(patch: Patch) -> None:
    read_fetch = consumer.read_fetch

    def read(version: int, frame: memoryview) -> Any:
        answer = read_fetch(version, frame)
        indices = sorted(part.partition for part in answer.partitions)
        pairs = zip(answer.partitions, indices, strict=True)
        return answer._replace(partitions=[part._replace(partition=index) for part, index in pairs])

    patch.setattr(consumer, "read_fetch", read)


def draft_hints_are_followed(patch: Patch) -> None:
    _hints(patch, lambda self, part, hint: apply_hint(self, part, hint._replace(is_draft=False)))


def retries_are_sent_in_any_order(patch: Patch) -> None:
    def requeue(self: Any, batch: Any) -> None:
        self.outstanding.remove(batch)
        self.queue.appendleft(batch)

    patch.setattr(Partition, "requeue", requeue)


def racks_are_not_said(patch: Patch) -> None:
    def without(**fields: Any) -> FetchRequest:
        return FetchRequest(**fields | {"rack_id": ""})

    patch.setattr(requests, "FetchRequest", without)


def preferred_replicas_are_ignored(patch: Patch) -> None:
    patch.setattr(PreferredReadReplica, "set", lambda *_: None)


def positions_are_set_back_at_a_replica(patch: Patch) -> None:
    named = Consumer._replica_named

    def set_back(self: Any, partition: Any, replica: int, now: int) -> None:
        partition.offset -= 1
        named(self, partition, replica, now)

    patch.setattr(Consumer, "_replica_named", set_back)


def _replicas_are_left(patch: Patch, after: Callable[[int], bool]) -> None:
    """After these errors alone."""
    refused, clear, is_left = Consumer._refused, PreferredReadReplica.clear, [False]

    def refused_so(self: Any, asked: Any, fetched: Any, *args: Any) -> None:
        is_left[0] = after(fetched.error_code)
        refused(self, asked, fetched, *args)
        is_left[0] = False

    def broker_to_read(self: PreferredReadReplica, leader: int, usable: Any, now_us: int) -> int:
        return leader if self.preferred < 0 else self.preferred

    patch.setattr(Consumer, "_refused", refused_so)
    patch.setattr(PreferredReadReplica, "clear", lambda self: is_left[0] and clear(self))
    patch.setattr(PreferredReadReplica, "broker_to_read", broker_to_read)


def replicas_that_refuse_are_kept(patch: Patch) -> None:
    _replicas_are_left(patch, after=lambda error: error != ErrorCode.NOT_LEADER_OR_FOLLOWER)


def offsets_out_of_a_replica_s_range_are_reset(patch: Patch) -> None:
    refused = Consumer._refused

    def reset(self: Any, asked: Any, *args: Any) -> None:
        refused(self, asked, *args)
        partition = asked.partition
        if partition.state is State.CHECK:
            partition.state, partition.offset = State.READY, 0

    patch.setattr(Consumer, "_refused", reset)


def replicas_that_hang_up_are_kept(patch: Patch) -> None:
    _replicas_are_left(patch, after=bool)


def leases_are_short(patch: Patch) -> None:
    named = PreferredReadReplica.set
    patch.setattr(
        PreferredReadReplica, "set", lambda self, *args: named(self, *args[:2], _SHORT_LEASE_US)
    )


def offsets_that_were_deleted_are_waited_for(patch: Patch) -> None:
    def wait(offset: int, *_: Any) -> Verdict:
        return Verdict(RangeCase.UNAVAILABLE, RangeHandling.WAIT, offset)

    patch.setattr(offset_fetcher, "judge_out_of_range", wait)


def replicas_that_refuse_otherwise_are_kept(patch: Patch) -> None:
    refused, clear, is_kept = Consumer._refused, PreferredReadReplica.clear, [False]

    def refused_so(self: Any, asked: Any, fetched: Any, *args: Any) -> None:
        is_kept[0] = fetched.error_code in Errors.errors
        refused(self, asked, fetched, *args)
        is_kept[0] = False

    patch.setattr(Consumer, "_refused", refused_so)
    patch.setattr(PreferredReadReplica, "clear", lambda self: not is_kept[0] and clear(self))


def offsets_that_are_not_there_yet_are_reset(patch: Patch) -> None:
    refused = Consumer._refused

    def reset(self: Any, asked: Any, fetched: Any, *args: Any) -> None:
        refused(self, asked, fetched, *args)
        if fetched.error_code == ErrorCode.OFFSET_NOT_AVAILABLE:
            asked.partition.offset = 0

    patch.setattr(Consumer, "_refused", reset)


def new_topics_are_asked_for_with_all_others(patch: Patch) -> None:
    patch.setattr(TopicsInUse, "is_for_all", lambda *_: True)


def only_the_last_topic_is_renewed(patch: Patch) -> None:
    to_request = TopicsInUse.topics_to_request

    def last(self: Any, cause: MetadataCause) -> tuple[str, ...]:
        if cause is not MetadataCause.LEADER_CHANGE:
            return to_request(self, cause)
        return (max(self._used_us, key=self._used_us.__getitem__),)

    patch.setattr(TopicsInUse, "topics_to_request", last)


def metadata_does_not_grow_old(patch: Patch) -> None:
    due_us = MetadataPolicy.due_us

    def due(self: Any, new_topics: MetadataCause | None = None) -> int:
        is_asked_for = self.requested is not None or new_topics is not None
        return due_us(self, new_topics) if is_asked_for else _LONG_US

    patch.setattr(MetadataPolicy, "due_us", due)


def topics_are_never_idle(patch: Patch) -> None:
    answered = TopicsInUse.answered

    def kept(self: Any, *args: Any) -> list[str]:
        self.idle_us = _LONG_US
        return answered(self, *args)

    patch.setattr(TopicsInUse, "answered", kept)


def metadata_is_asked_for_again_soon(patch: Patch) -> None:
    completed = MetadataPolicy._completed

    def soon(self: Any, *args: Any, **more: Any) -> None:
        completed(self, *args, **more)
        self._wait_us = 5000  # without any wait a scene of 526-6 has 150,000 requests

    patch.setattr(MetadataPolicy, "_completed", soon)


def metadata_with_an_error_is_of_no_use(patch: Patch) -> None:
    apply = MetadataUpdater._apply

    def whole(self: Any, brokers: Any, topics: Any, *args: Any) -> tuple[bool, bool]:
        is_whole = not any(topic.error_code for topic in topics)
        return apply(self, brokers, topics if is_whole else [], *args)

    patch.setattr(MetadataUpdater, "_apply", whole)


def metadata_is_missed_for_ever(patch: Patch) -> None:
    send = MetadataUpdater.send_due_request

    def send_without_end(self: Any, now_us: int) -> None:
        self._rebootstrap_us = _LONG_US
        send(self, now_us)

    patch.setattr(MetadataUpdater, "send_due_request", send_without_end)


def rebootstraps_are_not_made(patch: Patch) -> None:
    patch.setattr(MetadataUpdater, "_rebootstrap", lambda *_: None)


def throttles_of_good_answers_are_ignored(patch: Patch) -> None:
    read_response = producer.read_response

    def read(*args: Any) -> Any:
        answers, throttle_ms = read_response(*args)
        return answers, throttle_ms if any(answer.error for answer in answers) else 0

    patch.setattr(producer, "read_response", read)


@dataclass(frozen=True)
class Fault:
    """A fault, the rule that has to see it, as what, and those that ask for more of the same and
    fail too."""

    put: Callable[[Patch], None]
    rule: str
    implied: frozenset[str] = frozenset()
    role: Role = Role.PRODUCER
    status: Status = Status.FAIL


DELETED_AGAIN = frozenset({"392-8"})
"""Who goes back asks for offsets that were deleted, over and over."""

FAULTS = (
    Fault(hints_of_known_brokers_are_ignored, "951-1", frozenset({"951-8", "951-10", "951-22"})),
    Fault(older_hints_are_followed, "951-2"),
    Fault(refusers_that_name_themselves_are_believed, "951-3"),
    Fault(hints_of_the_same_epoch_are_followed, "951-4"),
    Fault(nobody_backs_off_after_a_hint, "951-5"),
    Fault(any_metadata_overrides_hints, "951-6"),
    Fault(hints_that_are_followed_are_enough, "951-7"),
    Fault(retries_wait_for_metadata, "951-8"),
    Fault(endpoints_of_new_brokers_are_left_out, "951-9"),
    Fault(addresses_of_known_brokers_are_kept, "951-10"),
    Fault(the_named_leader_is_connected_anew, "951-11"),
    Fault(other_brokers_are_disconnected, "951-12"),
    Fault(hints_without_endpoints_are_ignored, "951-13", status=Status.SLOW),
    Fault(refusals_without_a_leader_are_waited_out, "951-14"),
    Fault(hinted_leaders_are_kept, "951-15", frozenset({"951-10"})),
    Fault(hints_of_fenced_epochs_are_ignored, "951-16", role=Role.CONSUMER),
    Fault(answers_are_taken_in_the_order_of_requests, "951-17", role=Role.CONSUMER),
    Fault(hints_of_overtaken_fetches_are_dropped, "951-18", role=Role.CONSUMER),
    Fault(draft_hints_are_followed, "951-19"),
    Fault(older_epochs_of_a_new_topic, "951-20"),
    Fault(retries_are_sent_in_any_order, "951-21", status=Status.SLOW),
    Fault(throttle_times_ignored, "951-22", frozenset({"219-1"})),
    Fault(racks_are_not_said, "392-1", role=Role.CONSUMER),
    Fault(preferred_replicas_are_ignored, "392-2", role=Role.CONSUMER),
    Fault(positions_are_set_back_at_a_replica, "392-3", DELETED_AGAIN, Role.CONSUMER),
    Fault(replicas_that_refuse_are_kept, "392-4", frozenset({"392-6"}), Role.CONSUMER),
    Fault(offsets_out_of_a_replica_s_range_are_reset, "392-5", DELETED_AGAIN, Role.CONSUMER),
    Fault(replicas_that_hang_up_are_kept, "392-6", role=Role.CONSUMER),
    Fault(leases_are_short, "392-7", role=Role.CONSUMER),
    Fault(offsets_that_were_deleted_are_waited_for, "392-8", role=Role.CONSUMER),
    Fault(
        replicas_that_refuse_otherwise_are_kept,
        "392-9",
        role=Role.CONSUMER,
        status=Status.SLOW,
    ),
    Fault(offsets_that_are_not_there_yet_are_reset, "392-10", role=Role.CONSUMER),
    Fault(new_topics_are_asked_for_with_all_others, "526-1", status=Status.SLOW),
    Fault(only_the_last_topic_is_renewed, "526-2", status=Status.SLOW),
    Fault(metadata_does_not_grow_old, "526-3"),
    Fault(topics_are_never_idle, "526-4", status=Status.SLOW),
    Fault(metadata_is_asked_for_again_soon, "526-5"),
    Fault(metadata_with_an_error_is_of_no_use, "526-6"),
    Fault(rebootstraps_are_not_made, "1102-1", frozenset({"1102-2"})),
    Fault(metadata_is_missed_for_ever, "1102-2", status=Status.SLOW),
    Fault(throttles_of_good_answers_are_ignored, "219-1"),
)
