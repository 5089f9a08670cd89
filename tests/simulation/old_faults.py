"""Faults that the probe once had, to be put back: the simulation has to find each."""

from typing import Any

import pytest

from kipctl.probe import metadata_updater
from kipctl.probe.broker_link import BrokerLink
from kipctl.probe.consume.broker_link import ConsumerLink
from kipctl.probe.consume.consumer import Consumer
from kipctl.probe.consume.fetch_session import FetchSession
from kipctl.probe.consume.offset_fetcher import OffsetFetcher
from kipctl.probe.consume.positions import Partition as ReadPartition
from kipctl.probe.leadership import Leadership
from kipctl.probe.metadata_refresh import MetadataPolicy
from kipctl.probe.metadata_updater import MetadataUpdater
from kipctl.probe.network import Network
from kipctl.probe.produce.batches import Partition
from kipctl.probe.produce.producer import Producer
from kipctl.protocol.error_codes import ErrorCode


def metadata_after_batches(patch: pytest.MonkeyPatch) -> None:
    """W3: connections are given to batches first, and a due Metadata request to what is left."""
    real_ask, real_turn, drain = (
        MetadataUpdater.send_due_request,
        Producer._run_once,
        Producer._drain,
    )

    def turn(producer: Producer) -> None:
        now = producer._now_us()
        for link in producer._network.links:
            if link.pending:
                drain(producer, link, now)
        if now >= producer._metadata.due_us:
            real_ask(producer._metadata, now)
        real_turn(producer)

    patch.setattr(MetadataUpdater, "send_due_request", lambda metadata, now_us: None)
    patch.setattr(Producer, "_run_once", turn)


def leader_is_back_unnoticed(patch: pytest.MonkeyPatch) -> None:
    """W6: only a leader that differs counts as a change, not one that can be reached again."""
    apply = Leadership.apply_metadata

    def apply_metadata(self: Any, nodes: Any, leaders: Any) -> Any:
        before = dict(self._leaders)
        apply(self, nodes, leaders)
        return [p for p, leader in self._leaders.items() if before.get(p) != leader]

    patch.setattr(Leadership, "apply_metadata", apply_metadata)


def new_sequences_after_every_failure(patch: pytest.MonkeyPatch) -> None:
    """W8: a batch that was given up renumbers all behind it, though they may be in the log."""
    settle = Partition.settle

    def settle_and_renumber(self: Any, batch: Any, failed: bool, refused: bool = False) -> None:
        settle(self, batch, failed, refused or failed)

    patch.setattr(Partition, "settle", settle_and_renumber)


def older_epochs_of_a_new_topic(patch: pytest.MonkeyPatch) -> None:
    """W4: that a topic was made anew is not seen."""
    patch.setattr(MetadataUpdater, "_check_topic_id", lambda *_: None)


def throttle_times_ignored(patch: pytest.MonkeyPatch) -> None:
    """W5: a broker that does not read is written to."""
    patch.setattr(Network, "throttle", lambda *_: None)


def leaders_change_without_validation(patch: pytest.MonkeyPatch) -> None:
    """What was read is not compared with the new leader's log (KIP-320)."""
    patch.setattr(OffsetFetcher, "can_validate", lambda *_: False)


def sessions_outlive_connections(patch: pytest.MonkeyPatch) -> None:
    """A fetch session goes on after a connection is lost, and an answer with it (KIP-227)."""
    patch.setattr(FetchSession, "reset", lambda *_: None)


def sessions_know_partitions_by_name(patch: pytest.MonkeyPatch) -> None:
    """A topic that was made anew is not told, nor is the old one forgotten."""
    patch.setattr(ConsumerLink, "session_key", lambda _, partition: partition)


def hints_of_overtaken_fetches_are_dropped(patch: pytest.MonkeyPatch) -> None:
    """C1: the hint of a Fetch whose partition has moved meanwhile is not looked at."""
    refused = Consumer._refused

    def refused_if_current(consumer: Consumer, *of_answer: Any) -> None:
        if of_answer[-1]:
            refused(consumer, *of_answer)

    patch.setattr(Consumer, "_refused", refused_if_current)


def metadata_is_wanted_twice(patch: pytest.MonkeyPatch) -> None:
    """C2: what is wanted while Metadata is asked for is asked for after its answer."""
    answered = MetadataPolicy.answered

    def answered_but_wanted(policy: MetadataPolicy, *of_answer: Any, **more: Any) -> None:
        requested = policy.requested
        answered(policy, *of_answer, **more)
        policy.requested = requested

    patch.setattr(MetadataPolicy, "answered", answered_but_wanted)


def connections_are_cut_for_another_name(patch: pytest.MonkeyPatch) -> None:
    """C3: a broker by another address is connected to anew at once."""
    link_to = Network.link

    def link(network: Any, node: Any) -> Any:
        known = network._links.get(node.id)
        has_moved = known and (known.node.host, known.node.port) != (node.host, node.port)
        link = link_to(network, node)
        if has_moved and link.connection is not None:
            network.disconnect(link)
        return link

    patch.setattr(Network, "link", link)


def questions_wait_for_the_old_leader(patch: pytest.MonkeyPatch) -> None:
    """C4: the backoff of a question outlives the leader that it was asked of, and so does its
    answer."""
    patch.setattr(ReadPartition, "ask_anew", lambda _: None)


def evicted_sessions_pause(patch: pytest.MonkeyPatch) -> None:
    """C5: after an evicted session, too, the next Fetch waits for the backoff."""
    patch.setattr(FetchSession, "is_evicted", lambda *_: False)


def topic_errors_are_no_answers(patch: pytest.MonkeyPatch) -> None:
    """C6: a topic's error that lasts sends the client back to the bootstrap servers."""
    failed = MetadataPolicy.failed
    patch.setattr(MetadataPolicy, "failed", lambda policy, now_us, *_: failed(policy, now_us))


def ids_are_sent_that_nobody_told(patch: pytest.MonkeyPatch) -> None:
    """C7: the newest versions are spoken, though these name topics by their ids alone."""
    common = BrokerLink.common_version
    patch.setattr(
        BrokerLink, "common_version", lambda link, asked, ranges, *_: common(link, asked, ranges)
    )


def replicas_behind_are_left(patch: pytest.MonkeyPatch) -> None:
    """C8: a follower that does not know the epoch yet is left for the leader, which names it."""
    refused = Consumer._refused

    def leave_and_refuse(consumer: Consumer, link: Any, partition: Any, *of_answer: Any) -> None:
        if of_answer[1].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH:
            partition.preferred_replica.clear()
        refused(consumer, link, partition, *of_answer)

    patch.setattr(Consumer, "_refused", leave_and_refuse)


def sessions_are_left_behind(patch: pytest.MonkeyPatch) -> None:
    """C9: at the end connections are closed, and brokers keep the sessions."""
    patch.setattr(FetchSession, "closing_request", lambda _: None)


def old_metadata_s_epochs_are_believed(patch: pytest.MonkeyPatch) -> None:
    """C9: also those of Metadata 7 and 8 (KAFKA-9212)."""
    patch.setattr(metadata_updater, "_FIRST_WITH_EPOCHS_TO_TRUST", 0)
