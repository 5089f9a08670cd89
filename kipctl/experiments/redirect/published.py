"""What KIP-951 published of its micro-benchmark, and how a run of it here is set up otherwise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kipctl.documents.experiments import SetUpDiffers

P999_BY_RUN_MS: Mapping[str, tuple[float, ...]] = {
    "baseline": (2967, 859, 1201),
    "with hints": (346, 174, 125),
    "rejected alternative": (1781, 1934, 5352),
}
"""p99.9 of produce latency over the whole run, of each run (KIP-951, "Micro-Benchmark")."""
P999_MS: Mapping[str, float] = {
    "baseline": 1675,
    "with hints": 215,
    "rejected alternative": 3022,
}
"""Their means, as the KIP has them."""
CUT_PERCENT = 88
"""Of the baseline's p99.9, by hints, as the KIP says it."""


def published_cut_percent(kip_arm: str) -> float | None:
    """By how much an arm's published p99.9 is below the baseline's, of that."""
    if kip_arm not in P999_MS or kip_arm == "baseline":
        return None
    return 100 * (1 - P999_MS[kip_arm] / P999_MS["baseline"])


@dataclass(frozen=True, slots=True, kw_only=True)
class SetUp:
    """What a run of the micro-benchmark is made with; None for what is not known.

    Sizes in bytes, `throughput` in records per second, times in milliseconds.
    """

    brokers: int
    controllers: int | None
    machines: str | None
    kafka: str | None
    records: int
    throughput: int
    record_size: int
    partitions: int
    acks: str | None
    idempotence: bool
    rotations: int | None
    runs: int
    metadata_delay_ms: float
    stale_metadata_ms: float
    measured: str


KIP = SetUp(
    brokers=6,
    controllers=3,
    machines="one for each node and client",
    kafka="a prototype, before 3.7",
    records=40_000_000,
    throughput=100_000,
    record_size=1000,
    partitions=100,
    acks="all",
    idempotence=True,  # the client's default with acks=all
    rotations=1,
    runs=3,
    metadata_delay_ms=0,
    stale_metadata_ms=0,
    measured="the whole run, as kafka-producer-perf-test says it",
)
HERE = "after a warm-up, from a batch's creation to its acknowledgement at the tap"
"""How it is measured by this experiment."""
HERE_WHOLE = "the whole run, from a batch's creation to its acknowledgement at the tap"
"""The same with `--scale kip`."""

_NAMES = {
    "brokers": "brokers",
    "controllers": "controllers",
    "machines": "machines",
    "kafka": "Kafka of the brokers",
    "records": "records",
    "throughput": "records/s",
    "record_size": "bytes of a record",
    "partitions": "partitions",
    "acks": "acks",
    "idempotence": "enable.idempotence",
    "rotations": "leader rotations in a run",
    "runs": "runs of each arm",
    "metadata_delay_ms": "Metadata answers held, ms",
    "stale_metadata_ms": "Metadata made stale for, ms",
    "measured": "latency is of",
}


def set_up_differences(here: SetUp, published: SetUp = KIP) -> tuple[SetUpDiffers, ...]:
    """All in which they differ, and what one of them does not say."""
    return tuple(
        SetUpDiffers(what=title, published_value=_text(theirs), value_here=_text(ours))
        for field, title in _NAMES.items()
        if (theirs := getattr(published, field)) != (ours := getattr(here, field)) or theirs is None
    )


def set_up_line(differences: Sequence[SetUpDiffers]) -> str:
    """On one line, to stand beside a figure: what is set up here, and in brackets the KIP's."""
    return "; ".join(
        f"{difference['what']} {difference['value_here']} ({difference['published_value']})"
        for difference in differences
    )


def _text(value: object) -> str:
    match value:
        case None:
            return "not said"
        case bool():
            return str(value).lower()
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.15g}"
        case _:
            return str(value)
