"""Faults that the probe once had, to be put back: the simulation has to find each."""

from typing import Any

import pytest

from kipctl.probe.consume.broker_link import ConsumerLink
from kipctl.probe.consume.fetch_session import FetchSession
from kipctl.probe.consume.offset_fetcher import OffsetFetcher
from kipctl.probe.leadership import Leadership
from kipctl.probe.metadata_updater import MetadataUpdater
from kipctl.probe.produce.batches import Partition
from kipctl.probe.produce.producer import Producer


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
    from kipctl.probe.network import Network

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
