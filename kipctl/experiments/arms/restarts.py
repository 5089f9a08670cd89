"""A roll: the brokers of a lab restarted one by one, and when each step of it was over."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from kipctl.changes.elections.batches import BATCH, MAX_PER_REQUEST, elect_preferred
from kipctl.changes.execution.batch_execution import Execution
from kipctl.changes.execution.election_until_balanced import elect_until_balanced
from kipctl.changes.execution.pacing import Pace
from kipctl.changes.plans.plan import Plan, move_of
from kipctl.cleanup_failures import CleanupFailures
from kipctl.cluster.snapshot import Snapshot, from_metadata, take_snapshot
from kipctl.cluster.topics import await_topic
from kipctl.counts import counted
from kipctl.documents.experiments import RestartSeen
from kipctl.errors import InterruptedRunError, KipctlError, PartlyDoneError, TimedOutError
from kipctl.lab.cluster import Lab
from kipctl.next_step import Command, NextStep
from kipctl.protocol.metadata import metadata_request
from kipctl.trace.clock import now_us
from kipctl.transport.request import Cluster

_AWAY_TIMEOUT_S = 60.0
_PUT_BACK_TIMEOUT_S = 60.0
_LOOK_S = 0.02


@dataclass(slots=True)
class Restart:
    """One broker's restart. Times are monotonic microseconds, 0 for what did not happen.

    Leaders move away when the broker is told to stop (or is killed), and back by a preferred
    election, once it is in sync again.
    """

    broker: int
    controlled: bool
    leaders: int
    """Partitions that it led before."""
    called_us: int
    away_us: int = 0
    """Another broker's Metadata showed a leader for each of them, none of them this broker."""
    ended_us: int = 0
    """Its process had ended."""
    started_us: int = 0
    """It ran again and its log was read: the lab calls it ready."""
    in_sync_us: int = 0
    elected_us: int = 0
    """The preferred election was called."""
    back_us: int = 0
    """Every broker's Metadata showed the preferred leaders."""
    error: str = ""

    def as_document(self, start_us: int) -> RestartSeen:
        """For JSON: milliseconds since the run's start, None for what did not happen."""

        def ms(at_us: int) -> float | None:
            return (at_us - start_us) / 1000 if at_us else None

        return {
            "broker": self.broker,
            "controlled": self.controlled,
            "leader_count": self.leaders,
            "called_ms": ms(self.called_us),
            "away_ms": ms(self.away_us),
            "ended_ms": ms(self.ended_us),
            "started_ms": ms(self.started_us),
            "in_sync_ms": ms(self.in_sync_us),
            "elected_ms": ms(self.elected_us),
            "back_ms": ms(self.back_us),
            "error": self.error or None,
        }


def roll(
    lab: Lab,
    cluster: Cluster,
    topic: str,
    brokers: Sequence[int],
    controlled: bool,
    settle_s: float,
    message: Callable[[str], None],
) -> list[Restart]:
    """Restart these brokers one after the other; leaders of the topic move away and back.

    Each has `settle_s` of rest after it. What goes wrong with one is its `error`, and ends the
    roll. Raises InterruptedRunError on Ctrl-C, with what to look after.
    """
    restarts: list[Restart] = []
    for broker in brokers:
        before = take_snapshot(cluster, [topic])
        leaders = sum(partition.leader == broker for partition in before.partitions)
        restart = Restart(broker, controlled, leaders, now_us())
        restarts.append(restart)
        try:
            _restart(lab, cluster, topic, before, restart)
        except InterruptedRunError:
            raise
        except KeyboardInterrupt:
            raise InterruptedRunError(
                NextStep(
                    f"Interrupted. Broker {broker} was being restarted; see that it runs: ",
                    Command("lab status"),
                    ", ",
                    Command("lab start", broker, name=lab.name),
                    ".",
                )
            ) from None
        except KipctlError as error:
            restart.error = error.what
            message(f"broker {broker}: {error.what}")
            return restarts
        message(reported(restart))
        time.sleep(settle_s)
    return restarts


@contextmanager
def leaders_put_back(cluster: Cluster) -> Iterator[None]:
    """After the block, partitions of all topics that their preferred replica led before are again.

    What an experiment restarts leads other topics too. After an error nothing is done: a broker
    may be down. Where they cannot be put back, that is said after the result (`CleanupFailures`).
    """
    before = tuple(
        move_of(partition, partition.replicas)
        for partition in take_snapshot(cluster).partitions
        if partition.is_led_by_preferred
    )
    yield
    if not before:
        return
    try:
        change = Execution(
            cluster, Plan(before), None, timeout_s=_PUT_BACK_TIMEOUT_S, pace=Pace(BATCH)
        )
        elect_until_balanced(change, as_they_come=True)  # what is measured is over
    except KipctlError as failed:
        CleanupFailures.note(
            PartlyDoneError(
                f"Leaders that its restarts have moved were not put back: {failed.what}",
                "Put them back: " + Command("elect preferred --all"),
            )
        )


def reported(restart: Restart) -> str:
    """One line on a restart that went well."""

    def seconds(since: int, until: int) -> str:
        return f"{(until - since) / 1e6:.1f} s"

    how = "stopped" if restart.controlled else "killed"
    return (
        f"broker {restart.broker} {how}: {counted(restart.leaders, 'leader')} away after "
        f"{seconds(restart.called_us, restart.away_us)}, in sync again after "
        f"{seconds(restart.called_us, restart.in_sync_us)}, leaders back "
        f"{seconds(restart.elected_us, restart.back_us)} after their election."
    )


def _restart(lab: Lab, cluster: Cluster, topic: str, before: Snapshot, restart: Restart) -> None:
    end = lab.stop if restart.controlled else lab.kill
    other = next(broker for broker in before.broker_ids if broker != restart.broker)
    with ThreadPoolExecutor(1) as beside:
        restart.called_us = now_us()
        ending = beside.submit(end, restart.broker)
        ending.add_done_callback(lambda _: setattr(restart, "ended_us", now_us()))
        _await_leaders_away(cluster, other, topic, restart.broker)
        restart.away_us = now_us()
        ending.result()
    lab.start(restart.broker)
    restart.started_us = now_us()
    now = await_topic(cluster, topic, len(before.partitions))
    restart.in_sync_us = now_us()
    preferred = {partition.id: partition.preferred_leader for partition in now.partitions}
    # In one go, as brokers do it themselves: what is measured is the whole of it.
    held = elect_preferred(cluster, preferred, now, batch=MAX_PER_REQUEST)
    restart.elected_us, restart.back_us = held.called_us, held.converged_us


def _await_leaders_away(cluster: Cluster, other: int, topic: str, broker: int) -> None:
    """Raises TimedOutError when a partition stays without another leader."""
    deadline = time.monotonic() + _AWAY_TIMEOUT_S
    request = metadata_request([topic])
    while time.monotonic() < deadline:
        seen = from_metadata(cluster.broker(other).request(request))
        if not any(partition.leader in (broker, -1) for partition in seen.partitions):
            return
        time.sleep(_LOOK_S)
    raise TimedOutError(
        f"Partitions of {topic} have no other leader {_AWAY_TIMEOUT_S:.0f} s after broker {broker} "
        "was ended.",
        "Look: " + Command("inspect leaders"),
    )
