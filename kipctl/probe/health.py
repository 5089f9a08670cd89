"""What a reader has to know of a run besides its times: quotas, other topics, a client too slow."""

from dataclasses import dataclass

from kipctl.documents.runs import Health as HealthDocument


@dataclass(frozen=True, slots=True)
class Health:
    """How well the client itself went on, and what changed under it.

    `throttle_ms` is the sum of the throttle times that brokers announced (quotas, KIP-219).
    `topic_changes` say what became of topics. The lag is how much later than it should have, by the
    clock, the client went on (microseconds): what it was late is in the latencies, and not Kafka's.
    While a connection authenticates again (KIP-368) nothing is sent over it. `connection_failures`
    are brokers' addresses with why a connection did not come about, and how often;
    `hinted_elsewhere` are brokers with the address that hints gave and Metadata's other one, and
    how many such hints were followed.
    """

    throttle_ms: int = 0
    topic_changes: tuple[str, ...] = ()
    lag_p50_us: int = 0
    lag_p99_us: int = 0
    lag_max_us: int = 0
    reauthentications: int = 0
    reauthentication_max_us: int = 0
    connection_failures: tuple[tuple[str, int], ...] = ()
    hinted_elsewhere: tuple[tuple[str, int], ...] = ()

    def as_document(self) -> HealthDocument:
        """Its part of the object that `--output json` prints."""
        return {
            "throttle_ms": self.throttle_ms,
            "topic_changes": list(self.topic_changes),
            "loop_lag_ms": {
                "p50": self.lag_p50_us / 1000,
                "p99": self.lag_p99_us / 1000,
                "max": self.lag_max_us / 1000,
            },
            "reauthentications": {
                "count": self.reauthentications,
                "max_ms": self.reauthentication_max_us / 1000,
            },
            "connection_failures": dict(self.connection_failures),
            "hinted_elsewhere": dict(self.hinted_elsewhere),
        }


def health_document(health: Health | None) -> HealthDocument:
    """The same; null is what is not known."""
    if health:
        return health.as_document()
    return {
        "throttle_ms": None,
        "topic_changes": None,
        "loop_lag_ms": None,
        "reauthentications": None,
        "connection_failures": None,
        "hinted_elsewhere": None,
    }
