"""What a reader has to know of a run besides its times: quotas, other topics, a client too slow."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from kipctl.probe.leader_finder import LeaderFinder
from kipctl.probe.network import Network


@dataclass(frozen=True, slots=True)
class Health:
    """How well the client itself went on, and what changed under it.

    `throttle_ms` is the sum of the throttle times that brokers announced (quotas, KIP-219).
    `topic_changes` say what became of topics. The lag is how much later than it should have, by the
    clock, the client went on (microseconds): what it was late is in the latencies, and not Kafka's.
    """

    throttle_ms: int = 0
    topic_changes: tuple[str, ...] = ()
    lag_p50_us: int = 0
    lag_p99_us: int = 0
    lag_max_us: int = 0

    def as_document(self) -> dict[str, Any]:
        """Its part of the object that `--output json` prints."""
        return {
            "throttle_ms": self.throttle_ms,
            "topic_changes": list(self.topic_changes),
            "loop_lag_ms": {
                "p50": self.lag_p50_us / 1000,
                "p99": self.lag_p99_us / 1000,
                "max": self.lag_max_us / 1000,
            },
        }


HEALTHY = Health()


def health(network: Network[Any], finder: LeaderFinder[Any, Any], start_us: int) -> Health:
    """That of a client, as it is now; its run began at `start_us` (monotonic microseconds)."""
    return Health(
        network.throttle_ms,
        tuple(
            f"Topic {change}, as Metadata showed after {(seen_us - start_us) / 1e6:.1f} s."
            for change, seen_us in finder.topic_changes.items()
        ),
        _quantile(network.lags_us, 0.5),
        _quantile(network.lags_us, 0.99),
        max(network.lags_us, default=0),
    )


def _quantile(counts: Mapping[int, int], q: float) -> int:
    """The nearest-rank quantile of values that occurred so often; 0 if there are none."""
    rank = max(1, ceil(round(q * sum(counts.values()), 6)))
    for value in sorted(counts):
        rank -= counts[value]
        if rank <= 0:
            return value
    return 0
