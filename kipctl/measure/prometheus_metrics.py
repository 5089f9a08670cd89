"""The figures of a run so far, as Prometheus reads them: times in seconds, totals that grow."""

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)

from kipctl import __version__
from kipctl.measure.live_totals import EndToEndTotals
from kipctl.measure.time_histogram import BUCKETS_US, TimeHistogram
from kipctl.protocol.error_codes import ErrorCode
from kipctl.trace.codes import Decision, MetadataCause


def families(
    totals: EndToEndTotals, due: int, wall_offset_us: int, is_up: bool
) -> Iterator[Metric]:
    """All metrics of a run.

    `due` is how many records should have been sent by now; `wall_offset_us` plus a moment of the
    monotonic clock is one of the wall clock (Unix epoch), in microseconds.
    """
    matching = totals.matching
    yield _gauge("up", "1 while producer and consumer work.", int(is_up))
    version = GaugeMetricFamily("kipctl_build_info", "The version of kipctl.", labels=["version"])
    version.add_metric([__version__], 1)
    yield version
    start_s, until_s = (
        (us + wall_offset_us) / 1e6 for us in (totals.start_us, totals.counted_until_us)
    )
    yield _gauge("start_time_seconds", "When the run began, Unix time.", start_s)
    yield _gauge(
        "counted_until_seconds", "What happened until then is counted, Unix time.", until_s
    )
    for name, help_text, value in (
        ("records_due", "Records whose intended send time has come.", due),
        ("records_acknowledged", "Records that brokers acknowledged.", matching.acknowledged),
        ("records_consumed", "Records that the consumer read, each time.", matching.read),
        (
            "records_delivered",
            "Acknowledged records that the consumer read in time.",
            matching.records,
        ),
        (
            "records_lost",
            "Acknowledged records that the consumer did not read in time (--lost-after).",
            matching.lost,
        ),
        ("records_late", "Lost records that came after all.", matching.late),
        ("records_twice", "Records that the consumer read again.", matching.twice),
        (
            "records_extra",
            "Records read that are of no acknowledged batch: appended, then failed; or others'.",
            matching.extra,
        ),
    ):
        yield CounterMetricFamily(f"kipctl_{name}", help_text, value)
    yield _gauge(
        "records_waiting", "Acknowledged records that are neither read nor lost.", matching.waiting
    )
    failed = CounterMetricFamily(
        "kipctl_records_failed", "Records that the producer gave up.", labels=["error"]
    )
    for error in {ErrorCode.REQUEST_TIMED_OUT.name, *totals.failed}:
        failed.add_metric([error], totals.failed[error])
    yield failed
    yield from _times(totals)
    yield from _client_metrics(totals)
    leading = GaugeMetricFamily(
        "kipctl_leading_partitions",
        "Partitions by the broker that acknowledged their last batch.",
        labels=["broker"],
    )
    for broker, count in sorted(totals.leading.items()):
        leading.add_metric([str(broker)], count)
    yield leading


def _times(totals: EndToEndTotals) -> Iterator[Metric]:
    for name, help_text, times in (
        (
            "acknowledge_seconds",
            "From the intended send time to the acknowledgement.",
            totals.acknowledged,
        ),
        (
            "end_to_end_seconds",
            "From the intended send time to the Fetch answer that brought the record.",
            totals.delivered,
        ),
    ):
        histogram = HistogramMetricFamily(f"kipctl_{name}", help_text)
        _add(histogram, [], times.latency)
        yield histogram


def _client_metrics(totals: EndToEndTotals) -> Iterator[Metric]:
    waits = HistogramMetricFamily(
        "kipctl_move_wait_seconds",
        "What a client itself took from the first refusal by a moved leader to the send that "
        "succeeded.",
        labels=["client"],
    )
    redirected = CounterMetricFamily(
        "kipctl_redirected",
        "Batches, or Fetches, that a broker refused because it does not lead.",
        labels=["client"],
    )
    refused = CounterMetricFamily(
        "kipctl_refusals",
        "Answers that a broker does not lead, by what became of their leader hint (KIP-951).",
        labels=["client", "hint"],
    )
    metadata = CounterMetricFamily(
        "kipctl_metadata_requests", "Metadata requests (KIP-526).", labels=["client", "cause"]
    )
    for client, met in totals.clients.items():
        _add(waits, [client], met.waits)
        redirected.add_metric([client], met.redirected)
        for decision in Decision:
            name = decision.name.lower()
            if decision is not Decision.NOT_APPLICABLE:
                refused.add_metric([client, name], met.refused[name])
        for cause in MetadataCause:
            name = cause.name.lower()
            metadata.add_metric([client, name], met.metadata[name])
    yield from (waits, redirected, refused, metadata)


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"kipctl_{name}", help_text, value)


def _add(histogram: HistogramMetricFamily, labels: list[str], spread: TimeHistogram) -> None:
    bounds = (*(str(bound / 1e6) for bound in BUCKETS_US), "+Inf")
    buckets = [*zip(bounds, map(float, spread.cumulative), strict=True)]
    histogram.add_metric(labels, buckets, spread.sum_us / 1e6)
