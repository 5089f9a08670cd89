"""What the request log will cost, from how many requests the brokers answer now."""

import math
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kipctl.at_once import at_once
from kipctl.cluster.broker_metrics import ALL_TIMEOUT_S, BrokerMetrics, broker_of, scrape
from kipctl.cluster.snapshot import Broker

BYTES_OF_LINE = 2_000
CPU_S_OF_LINE = 0.00015
"""Of each request, measured with Kafka 4.3: what is logged, and what that takes of a broker."""
SAMPLE_S = 2.0
_UNITS = ("B", "kB", "MB", "GB", "TB")
_FETCHES_BY_READER = ("FetchConsumer", "FetchFollower")
"""They are in Fetch too."""


def request_rates(urls: Sequence[str], brokers: Sequence[Broker]) -> dict[int, float]:
    """Requests per second by broker, counted by their exporters over two seconds.

    Brokers are left out whose exporter does not answer, or does not say whose it is.
    """
    before = at_once(_scraped, urls, ALL_TIMEOUT_S)
    if not any(isinstance(answer, _Counted) for answer in before):
        return {}
    time.sleep(SAMPLE_S)
    rates = {}
    for first, last in zip(before, at_once(_scraped, urls, ALL_TIMEOUT_S), strict=True):
        if not (isinstance(first, _Counted) and isinstance(last, _Counted)):
            continue
        if (broker := broker_of(first.metrics, brokers)) is not None:
            more = _answered(last.metrics) - _answered(first.metrics)
            rates[broker] = max(0, more) / (last.at_s - first.at_s)
    return rates


class _Counted(NamedTuple):
    metrics: BrokerMetrics
    at_s: float


def _scraped(url: str) -> _Counted:
    return _Counted(scrape(url), time.monotonic())


def _answered(metrics: BrokerMetrics) -> int:
    return sum(
        count for (api, _), count in metrics.requests.items() if api not in _FETCHES_BY_READER
    )


def estimate(brokers: Sequence[int], rates: Mapping[int, float], seconds: float | None) -> str:
    """What it costs the busiest of these brokers, in a sentence or two.

    `rates` are requests per second of those that are known.
    """
    known = {broker: rate for broker, rate in rates.items() if broker in brokers}
    if not known:
        return (
            "How many requests they answer is not known (--metrics-url would tell). A broker that"
            f" answers 10,000 a second writes {_cost(10_000, seconds)}."
        )
    busiest = max(known, key=lambda broker: known[broker])
    others = sorted(set(brokers) - set(known))
    return (
        f"Broker {busiest} answers {known[busiest]:,.0f} requests a second"
        f"{', the most of them' if len(known) > 1 else ''}: it will write"
        f" {_cost(known[busiest], seconds)}."
        + (f" Of broker {', '.join(map(str, others))} that is not known." if others else "")
    )


def _cost(rate: float, seconds: float | None) -> str:
    over = "" if seconds is None else f" ({_size(rate * BYTES_OF_LINE * seconds)} in all)"
    log, cores = _size(rate * BYTES_OF_LINE), rate * CPU_S_OF_LINE
    return f"about {log}/s of log{over}, at {cores:.1f} CPU cores"


def _size(number: float) -> str:
    """In the largest of these units that makes it 1 or more."""
    unit = max(0, min(4, int(math.log10(number) // 3))) if number else 0
    shown = number / 1000**unit
    return f"{shown:,.0f} {_UNITS[unit]}" if shown >= 10 else f"{shown:.1f} {_UNITS[unit]}"
