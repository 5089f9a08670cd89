"""Requests that failed: what is noted of them, how long they wait, and where that time went."""

import random
from collections.abc import Sequence

from kipctl.probe.backoff import Attempts, retry_backoff
from kipctl.probe.broker_link import BrokerLink
from kipctl.probe.config import ClientConfig
from kipctl.probe.leadership import NO_EPOCH, ClientPartition, LeaderDiscovery
from kipctl.probe.metadata_updater import MetadataCall
from kipctl.probe.tracing import Tracing
from kipctl.protocol.error_codes import LEADER_ERRORS
from kipctl.protocol.leader_hints import NO_HINT, LeaderHint
from kipctl.trace.codes import Decision
from kipctl.trace.redirect_phases import FailedAttempt, split_wait


class Retries:
    """The rules of one client's retries. Times are monotonic microseconds."""

    def __init__(
        self,
        config: ClientConfig,
        discovery: LeaderDiscovery,
        tracing: Tracing,
        always_back_off: bool,
    ) -> None:
        """`always_back_off`: also when a newer leader is known already."""
        self._always_back_off = always_back_off
        self._tracing = tracing
        self._backoff = retry_backoff(
            discovery, config.retry_backoff_ms * 1000, config.retry_backoff_max_ms * 1000
        )
        self.endpoints: dict[str, int] = {}
        """The endpoints that hints have named, numbered as in the trace."""
        tracing.names["hint_endpoint"] = self.endpoints

    def failed(
        self,
        attempts: Attempts,
        broker: int,
        epoch: int,
        sent_us: int,
        error_us: int,
        error: int,
        decision: Decision,
        hint: LeaderHint = NO_HINT,
        base_offset: int = -1,
    ) -> FailedAttempt:
        """Note an attempt that went to that broker, in that leader epoch; its backoff is drawn."""
        failed = FailedAttempt(
            attempt=attempts.count,
            sent_us=sent_us,
            error_us=error_us,
            error=error,
            is_leader_error=error in LEADER_ERRORS,
            broker=broker,
            epoch=epoch,
            base_offset=base_offset,
            decision=decision,
            generation=attempts.generation,
            backoff_us=self._backoff.wait_us(attempts.count - 1, random.random()),
        )
        failed.apply_hint(hint.leader_id, hint.leader_epoch, hint.address, self.endpoints)
        return failed

    def wait_us(
        self,
        attempts: Attempts | None,
        failures: Sequence[FailedAttempt] | None,
        partition: ClientPartition,
        epoch: int,
    ) -> int:
        """How long after its last failure it may be sent again, if this leader epoch is known of
        the partition. That of a topic made anew is none that is newer."""
        if not failures or attempts is None:
            return 0
        known = epoch if partition.generation == attempts.generation else NO_EPOCH
        return attempts.backoff_us(known, failures[-1].backoff_us, self._always_back_off)

    def retried(
        self,
        attempts: Attempts,
        failed: FailedAttempt,
        partition: ClientPartition,
        link: BrokerLink,
        epoch: int,
        sent_us: int,
        unblocked_us: int,
    ) -> None:
        """Complete the note of a failed attempt, as its retry goes out over `link`.

        `epoch` is the leader epoch that the client believes in by now, `unblocked_us` when what was
        ahead of the retry made way.
        """
        is_same = partition.generation == failed.generation
        failed.to_broker, failed.to_epoch = link.node.id, epoch if is_same else NO_EPOCH
        self._split(attempts, failed, partition, link, epoch, sent_us, link.ready_us, unblocked_us)

    def given_up(
        self,
        attempts: Attempts | None,
        failed: FailedAttempt,
        partition: ClientPartition,
        link: BrokerLink | None,
        epoch: int,
        now_us: int,
    ) -> None:
        """What failed is not sent again: its wait until now is this attempt's.

        It still waits for whatever it lacks: a leader, a connection to it (`link`), its turn.
        """
        connected_us = unblocked_us = now_us
        if link and link.ready:
            connected_us = link.ready_us
        if link and (link.may_send or link.is_throttled):
            unblocked_us = max(partition.unblocked_us, link.window_open_us)
        self._split(attempts, failed, partition, link, epoch, now_us, connected_us, unblocked_us)

    def _split(
        self,
        attempts: Attempts | None,
        failed: FailedAttempt,
        partition: ClientPartition,
        link: BrokerLink | None,
        epoch: int,
        until_us: int,
        connected_us: int,
        unblocked_us: int,
    ) -> None:
        leader = partition.leader_waited_for(failed.epoch, failed.generation, unblocked_us)
        failed.wait = split_wait(
            failed.error_us,
            until_us,
            failed.error_us + self.wait_us(attempts, [failed], partition, epoch),
            leader.known_us if link else until_us,
            connected_us,
            unblocked_us,
            link.throttled_until_us if link else 0,
        )
        call = leader.call if link else None
        if failed.wait.metadata and isinstance(call, MetadataCall):
            self._tracing.mark_critical(call.row)
            behind_us = call.flight.sent_us + call.behind_us - failed.error_us
            failed.metadata_queued_us = min(failed.wait.metadata, max(0, behind_us))
