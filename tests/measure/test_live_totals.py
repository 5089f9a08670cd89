"""What is counted of a run while it lasts, and how Prometheus reads it."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as as_openmetrics
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from rows import rows_of
from test_delivery import INTERVAL_NS, START_US, batch, read

from kipctl.measure.client_totals import LiveMoves, WholeBatches
from kipctl.measure.live_totals import CONSUMER, DATASETS, PRODUCER, EndToEndTotals
from kipctl.measure.moves import MOVE_COLUMNS, moves
from kipctl.measure.prometheus_metrics import families
from kipctl.measure.time_histogram import BUCKETS_US, TimeHistogram
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.trace.codes import Decision, MetadataCause
from kipctl.trace.rows import IntRows

S = 1_000_000
WALL_US = 1_700_000_000 * S
NOT_LEADER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def refused(
    partition: int, epoch: int, wait_us: int, decision: Decision, attempt: int = 1, seq: int = 0
) -> dict[str, int]:
    """A batch that the leader of an epoch refused, and that went on to the one of the next."""
    return {
        "partition": partition,
        "first_seq": seq,
        "attempt": attempt,
        "error": NOT_LEADER,
        "from_epoch": epoch,
        "to_epoch": epoch + 1,
        "to_broker": 2,
        "decision": decision,
        "metadata_us": wait_us,
    }


def metadata(cause: MetadataCause) -> dict[str, int]:
    return {"api_key": ApiKey.METADATA, "cause": cause}


def taken(totals: EndToEndTotals, until_s: float, **given: list[Any]) -> None:
    """Rows by `client_dataset`."""
    named = {
        (client, dataset): rows_of(dataset, *given.get(f"{client}_{dataset}", []))
        for client, datasets in DATASETS.items()
        for dataset in datasets
    }
    totals.add(named, START_US + round(until_s * S))


@pytest.fixture
def totals() -> EndToEndTotals:
    """A run in which something of everything was met."""
    live_totals = EndToEndTotals(START_US, INTERVAL_NS, 1, 60 * S, 150 * S, 3600 * S)
    taken(
        live_totals,
        1,
        producer_batches=[
            batch(0, 0, 2, 10, broker=1),
            batch(1, 2, 2, 0, broker=2),
            batch(2, 4, 1, 0, broker=1),
            batch(1, 5, 3, -1, error=int(ErrorCode.REQUEST_TIMED_OUT)),
        ],
        consumer_reads=[read(0, 10, 2, at_ms=5), read(1, 0, 2, at_ms=70_000)],
        producer_redirects=[
            refused(0, 3, 41_000, Decision.FOLLOWED),
            refused(1, 5, 100, Decision.ABSENT),
            refused(1, 6, 100, Decision.KNOWN, attempt=2),
        ],
        producer_rpcs=[metadata(MetadataCause.START), {"api_key": ApiKey.PRODUCE, "cause": -1}],
        consumer_rpcs=[metadata(MetadataCause.MAX_AGE)] * 2,
    )
    taken(live_totals, 75)
    taken(live_totals, 90)
    return live_totals


def test_the_record_that_took_longest_is_kept() -> None:
    totals = EndToEndTotals(START_US, INTERVAL_NS, 0, 60 * S, 150 * S, 3600 * S)
    for seq, wait_us in enumerate((5000, 9000, 7000)):
        due_us = START_US + seq * 1000
        taken(totals, 1, producer_batches=[batch(seq, seq, 1, 0, acked_us=due_us + wait_us)])
    assert totals.acknowledged.record_times.longest == (9000, START_US + 1000, 1)


def exposed(metrics: list[Metric], generate: Any = generate_latest) -> str:
    class Given(Collector):
        def collect(self) -> list[Metric]:
            return metrics

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Given())
    return str(generate(registry).decode())


def text_of(totals: EndToEndTotals) -> str:
    return exposed(list(families(totals, 8, WALL_US - START_US, True)))


def parsed(text: str) -> dict[str, dict[str, float]]:
    """By metric and labels, as Prometheus' own parser reads it; none is there twice."""
    metrics: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation, family
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            assert labels not in metrics.setdefault(sample.name, {}), sample
            metrics[sample.name][labels] = sample.value
    return metrics


def test_all_that_was_counted_is_told_to_prometheus(totals: EndToEndTotals) -> None:
    metrics = parsed(text_of(totals))
    assert all(name.startswith("kipctl_") for name in metrics)
    unlabelled = {name: samples[""] for name, samples in metrics.items() if list(samples) == [""]}
    assert (
        unlabelled.items()
        >= {
            "kipctl_up": 1,
            "kipctl_start_time_seconds": 1_700_000_000,
            "kipctl_counted_until_seconds": 1_700_000_090,
            "kipctl_records_due_total": 8,
            "kipctl_records_acknowledged_total": 5,
            "kipctl_records_delivered_total": 4,
            "kipctl_records_consumed_total": 4,
            "kipctl_records_lost_total": 1,
            "kipctl_records_late_total": 0,
            "kipctl_records_twice_total": 0,
            "kipctl_records_extra_total": 0,
            "kipctl_records_waiting": 0,
        }.items()
    )
    assert metrics["kipctl_records_failed_total"] == {'error="REQUEST_TIMED_OUT"': 3}
    assert metrics["kipctl_leading_partitions"] == {'broker="1"': 2, 'broker="2"': 1}
    assert metrics["kipctl_redirected_total"] == {'client="producer"': 2, 'client="consumer"': 0}
    refusals = metrics["kipctl_refusals_total"]
    told = {labels: count for labels, count in refusals.items() if count}
    assert told == {
        f'client="producer",hint="{hint}"': 1 for hint in ("followed", "absent", "known")
    }
    requests = metrics["kipctl_metadata_requests_total"]
    assert {labels: count for labels, count in requests.items() if count} == {
        'cause="start",client="producer"': 1,
        'cause="max_age",client="consumer"': 2,
    }
    assert metrics["kipctl_move_wait_seconds_count"]['client="producer"'] == 3
    assert metrics["kipctl_move_wait_seconds_sum"]['client="producer"'] == 0.0412
    # The first record is the warm-up: it is counted, and has no time.
    assert metrics["kipctl_acknowledge_seconds_count"] == {"": 4}
    assert metrics["kipctl_end_to_end_seconds_count"] == {"": 3}
    # Record 1 came after 4 ms, 2 and 3 after 70 s: more than any bucket but the last.
    buckets = metrics["kipctl_end_to_end_seconds_bucket"]
    assert [buckets[f'le="{bound}"'] for bound in ("0.002", "0.004", "65.536", "+Inf")] == [
        *(0, 1, 1, 3)
    ]


def test_prometheus_own_parser_reads_it(totals: EndToEndTotals) -> None:
    kinds = {family.name: family.type for family in text_string_to_metric_families(text_of(totals))}
    assert kinds["kipctl_records_lost"] == "counter"
    assert kinds["kipctl_move_wait_seconds"] == "histogram"
    assert kinds["kipctl_build_info"] == "gauge"


def test_it_is_right_as_openmetrics_too_which_prometheus_asks_for(totals: EndToEndTotals) -> None:
    """Whose parser is strict about the order and the names of samples."""
    text = exposed(list(families(totals, 8, 0, True)), as_openmetrics)
    types = {family.name: family.type for family in openmetrics_families(text)}
    assert types["kipctl_records_lost"] == "counter"
    assert types["kipctl_end_to_end_seconds"] == "histogram"


def test_the_page_names_each_metric_and_no_other(totals: EndToEndTotals) -> None:
    page = (Path(__file__).parents[2] / "docs" / "consuming.md").read_text()
    rows_ = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `kipctl_")]
    named = re.findall(r"`(kipctl_\w+)`", "".join(rows_))
    served = [line.split()[2] for line in text_of(totals).splitlines() if line.startswith("# TYPE")]
    assert sorted(named) == sorted(served)


def test_buckets_are_cumulative_and_hold_what_is_no_longer_than_their_bound() -> None:
    spread = TimeHistogram()
    spread.add(np.array([-5, 0, 1000, 1001, 2000, 65_536_000, 65_536_001]), np.arange(1, 8))
    counts = spread.cumulative
    assert counts == sorted(counts)
    assert (len(counts), len(BUCKETS_US)) == (18, 17)
    assert (counts[0], counts[1], counts[-2], counts[-1]) == (6, 15, 21, 28)
    assert spread.sum_us == 3000 + 4004 + 10_000 + 6 * 65_536_000 + 7 * 65_536_001


def test_times_are_kept_to_three_digits_and_take_no_more_memory_for_more_of_them() -> None:
    spread = TimeHistogram()
    times = np.random.default_rng(1).integers(0, 60 * S, 50_000)
    spread.add(times)
    few = len(spread.distribution.values)
    for _ in range(20):
        spread.add(times)
    assert len(spread.distribution.values) == few < 5000
    assert spread.distribution.total == 21 * 50_000
    exact = np.sort(times)
    for q in (0.5, 0.99, 1.0):
        true = exact[math.ceil(q * len(exact)) - 1]
        assert 0 <= true - spread.distribution.quantile(q) <= true / 100
    spread = TimeHistogram()
    spread.add(np.array([0, 7, 999, 1000, 1009, 12_345, 60_000_001]))
    assert spread.distribution.values.tolist() == [0, 7, 999, 1000, 12_300, 60_000_000]


def redirect_rows(*rows: Mapping[str, int]) -> IntRows:
    return rows_of("redirects", *map(dict, rows))


def test_a_move_that_many_batches_met_over_time_is_one_with_the_longest_wait() -> None:
    batches = [
        redirect_rows(refused(0, 3, wait_us, Decision.ABSENT, seq=seq))
        for seq, wait_us in enumerate((500, 90_000, 700))
    ]
    other = redirect_rows(refused(1, 8, 40, Decision.ABSENT))
    moved = LiveMoves()
    waits = [moved.add(rows_, at_s * S).tolist() for at_s, rows_ in enumerate(batches)]
    waits.append(moved.add(other, 3 * S).tolist())
    waits.append(moved.add(redirect_rows(), 12 * S).tolist())
    assert waits == [[], [], [], [], [90_000]]
    # Of one that is over no second one is made.
    assert moved.add(batches[0], 13 * S).tolist() == [40]
    assert moved.add(redirect_rows(), 30 * S).tolist() == []
    assert moved.finish().tolist() == []
    whole = moves(np.concatenate([*batches, other]))
    assert sorted(whole[:, MOVE_COLUMNS.index("wait_us")].tolist()) == [40, 90_000]


def test_moves_that_are_over_are_forgotten_in_the_end() -> None:
    moved = LiveMoves()
    for hour in range(200):
        moved.add(redirect_rows(refused(0, hour, 40, Decision.ABSENT)), 3600 * hour * S)
    assert len(moved._ended_us) + len(moved._open) < 5


def test_a_batch_whose_rows_are_read_in_two_halves_is_one() -> None:
    whole = WholeBatches()
    first = [refused(0, 3, 5, Decision.ABSENT), refused(0, 4, 5, Decision.KNOWN, attempt=2)]
    second = [refused(0, 5, 5, Decision.KNOWN, attempt=3)]
    third = [refused(1, 3, 5, Decision.ABSENT)]
    counts = [
        len(whole.add(redirect_rows(*given)))
        for given in (first[:1], first[1:], second + third, [], [])
    ]
    assert counts == [0, 0, 3, 1, 0]


def test_both_clients_are_told_apart(totals: EndToEndTotals) -> None:
    taken(totals, 91, consumer_redirects=[refused(0, 3, 9000, Decision.FOLLOWED)])
    totals.finish()
    of_consumer = totals.clients[CONSUMER].moves
    assert of_consumer["wait_ms"] == dict.fromkeys(("p50", "p99", "max"), 9.0)
    assert totals.clients[PRODUCER].moves["met"] == 3
