"""What is made of a roll's rows: halves of restarts, records within them, detection and waits."""

import numpy as np
import pytest
from trace_rows import table

from kipctl.errors import UsageError
from kipctl.experiments.arms.figures import Figures
from kipctl.experiments.arms.halves import Half, Records, figures_in, halves, records
from kipctl.experiments.arms.names import parse_arms
from kipctl.experiments.arms.restarts import Restart
from kipctl.experiments.roll.experiment import actions, unsettled
from kipctl.experiments.roll.plan import RollPlan, nodes_of, sizes
from kipctl.experiments.roll.published import (
    HIGH,
    LOW,
    PUBLISHED,
    Workload,
    published_for,
    set_up_differences,
    set_up_line,
)

START_US = 1_000_000


def restart(broker: int, called_s: float, elected_s: float = 0, back_s: float = 0) -> Restart:
    def at(seconds: float) -> int:
        return START_US + round(seconds * 1e6) if seconds else 0

    return Restart(
        broker,
        True,
        33,
        at(called_s),
        at(called_s + 1),
        elected_us=at(elected_s),
        back_us=at(back_s),
    )


def of(*latencies: tuple[int, int]) -> Records:
    """Records by (intended, latency), one each."""
    intended, latency = zip(*latencies, strict=True)
    return Records(np.array(intended), np.array(latency), np.ones(len(latencies), dtype=np.int64))


def test_a_half_ends_where_the_next_begins() -> None:
    assert halves([restart(1, 5, 9, 9.4), restart(2, 12, 15, 15.2)], START_US) == [
        Half(1, "away", 5_000_000, 9_000_000),
        Half(1, "back", 9_000_000, 12_000_000),
        Half(2, "away", 12_000_000, 15_000_000),
        Half(2, "back", 15_000_000, 16_200_000),
    ]
    # One that broke off has those that it began.
    assert [half.direction for half in halves([restart(1, 5)], START_US)] == ["away"]
    assert [half.direction for half in halves([restart(1, 5, 9)], START_US)] == ["away", "back"]


def test_records_of_a_batch_have_times_of_their_own() -> None:
    batch = {"first_seq": 10, "seq_stride": 2, "records": 3, "intended_us": 1, "acked_us": 50_000}
    failed = {"first_seq": 16, "seq_stride": 1, "records": 1, "acked_us": 9, "error": 6}
    timed = records(table("batches", batch, failed), interval_ns=1_000_000, skip_records=11)
    assert timed.intended_us.tolist() == [12_000, 14_000]
    assert timed.latency_us.tolist() == [38_000, 36_000]
    assert timed.count.tolist() == [1, 1]


def test_without_an_interval_records_have_the_time_of_their_batch() -> None:
    rows = table(
        "batches",
        {"first_seq": 0, "seq_stride": 1, "records": 4, "intended_us": 100, "acked_us": 700},
        {"first_seq": 4, "seq_stride": 1, "records": 4, "intended_us": 200, "acked_us": 900},
    )
    timed = records(rows, interval_ns=0, skip_records=6)
    assert timed.intended_us.tolist() == [200]
    assert timed.latency_us.tolist() == [700]
    assert timed.count.tolist() == [2]


def test_the_quiet_beginning_is_left_out() -> None:
    spans = [Half(1, "away", 100, 200), Half(1, "back", 200, 300)]
    timed = of((50, 1), (100, 2), (199, 3), (200, 4))
    assert timed.in_halves(spans).tolist() == [[2, 1], [3, 1], [4, 1]]
    assert timed.in_halves([]).tolist() == []
    assert timed.due(100, 200).tolist() == [[2, 1], [3, 1]]


def test_latencies_are_not_taken_for_something_else() -> None:
    none = np.empty((0, 1), dtype=np.int64)
    timed = of((50, 1000), (100, 2000))
    figures = Figures(timed.due(0, 1000), none, none, none)
    assert figures.quantile_ms(1) == 2
    with pytest.raises(ValueError, match="rows of 2"):
        Figures(np.ones((4, 3), dtype=np.int64), none, none, none)


def test_the_figures_of_a_half() -> None:
    away, back = Half(1, "away", 100_000, 200_000), Half(1, "back", 200_000, 300_000)
    redirects = table(
        "redirects",
        # Refused at once, and again by a leader that did not know yet: one batch.
        {"attempt": 1, "error": 6, "error_us": 150_000, "detect_us": 2_000, "backoff_us": 1_000},
        {"attempt": 2, "error": 6, "error_us": 160_000, "not_ready_us": 9_000, "metadata_us": 500},
        # A lost connection.
        {"attempt": 1, "error": -1, "error_us": 170_000, "detect_us": 30_000},
        # While leaders move back.
        {"attempt": 1, "error": 6, "error_us": 250_000, "detect_us": 4_000},
    )
    produced = of((120_000, 5_000), (130_000, 7_000), (220_000, 90_000))
    half = figures_in([away], produced, of((120_000, 8_000)), redirects)
    assert half["batches_sent_again"] == 2
    assert half["detection_ms"] == {"p50": 2.0, "p99": 30.0, "max": 30.0}
    assert half["client_wait_ms"]["max"] == 1.5
    assert half["not_ready_ms"]["max"] == 9.0
    assert half["acknowledged_ms"] == {"p50": 5.0, "p99": 7.0, "max": 7.0}
    assert half["latency_ms"]["max"] == 8.0
    assert figures_in([away, back], produced, produced, redirects)["batches_sent_again"] == 3
    nothing = figures_in([away], produced, produced, table("redirects"))
    assert nothing["batches_sent_again"] == 0
    assert nothing["detection_ms"] == {"p50": 0.0, "p99": 0.0, "max": 0.0}


def test_restarts_and_elections_are_actions_of_the_run() -> None:
    taken = actions([restart(2, 5, 9, 9.4), restart(3, 12)], START_US)
    assert [(a["action"], a["called_ms"], a["answered_ms"]) for a in taken] == [
        ("restart:2", 5000.0, None),
        ("elect", 9000.0, 9400.0),
        ("restart:3", 12000.0, None),
    ]


@pytest.mark.parametrize(
    ("partitions", "which"),
    [(6, LOW), (100, LOW), (108, LOW), (900, LOW), (1000, HIGH), (9000, HIGH)],
)
def test_cells_stand_beside_the_workload_that_is_nearer(partitions: int, which: Workload) -> None:
    rows = published_for("1", partitions)
    assert [(row.workload, row.measure) for row in rows] == [
        (which, "produce"),
        (which, "end_to_end"),
    ]


def test_the_kips_own_scales_have_its_workloads() -> None:
    arms = parse_arms("probe-baseline,probe-kip951")
    low = RollPlan(arms=arms, **sizes("kip-low", {"runs": None}))
    assert (low.partitions, low.throughput, low.record_size) == ((108,), 234_000, 512)
    assert (low.settle_s, low.runs, nodes_of("kip-low")) == (600, 2, (6, 3))
    high = RollPlan(arms=arms, **sizes("kip-high", {"throughput": 100.0}))
    assert (high.partitions, high.throughput) == ((9000,), 100)
    assert RollPlan(arms=arms, **sizes("default", {})).partitions == (108,)


def test_published_cuts_are_those_that_the_kip_names() -> None:
    cuts = [round(row.cut_percent, 1) for row in PUBLISHED]
    assert cuts == [2.5, 2.1, 4.2, 4.7, 1.7, 5.2, 9.2, 0.0]
    # In all but one row a run with hints lies among those before.
    apart = [row for row in PUBLISHED if not row.runs_overlap]
    assert [(row.acks, row.workload, row.measure) for row in apart] == [("1", LOW, "produce")]


ROLLED = {
    "broker_count": 3,
    "controller_count": 1,
    "controlled": True,
    "throughput": 500.0,
    "record_size": 1000,
    "settle_seconds": 2.0,
    "run_count": 3,
    "worker_count": 1,
}


def test_what_differs_is_told_from_the_result() -> None:
    document = ROLLED | {"cells": [{"partitions": 108}]}
    told = " ".join(set_up_differences(document))
    assert "3 brokers, the KIP's 6" in told
    assert "killed" not in told
    assert "workload low: 234,000/s of 512 bytes to 108 partitions by 6 producers" in told
    assert "workload high" not in told
    assert "after 2 s, in the KIP every 10 minutes" in told
    alike = " ".join(set_up_differences(document | {"broker_count": 6, "controlled": False}))
    assert "the KIP's 6" not in alike
    assert "killed" in alike


def test_what_was_under_way_at_the_end_is_not_settled() -> None:
    rows = table(
        "batches",
        {"records": 3, "error": 13, "acked_us": 900},
        {"records": 5, "error": 6, "acked_us": 400},  # refused before the end
        {"records": 7, "acked_us": 950},
    )
    assert unsettled(rows, ended_us=500) == 3


def test_what_differs_stands_beside_each_published_figure() -> None:
    assert set_up_line(ROLLED, 108) == (
        "machines 1 (15); brokers 3 (6); controllers 1 (3); records/s 500 (234,000); "
        "bytes of a record 1,000 (512); producers 1 (6); consumers 1 (18); "
        "s between restarts 2 (600); runs 3 (2)"
    )
    killed = set_up_line(ROLLED | {"controlled": False}, 2000)
    assert "; partitions 2,000 (9,000); records/s 500 (23,400); " in killed
    assert killed.endswith("; runs 3 (2); brokers killed (stopped in good order)")
    alike = ROLLED | {
        "broker_count": 6,
        "controller_count": 3,
        "settle_seconds": 600,
        "run_count": 2,
    }
    alike |= {"throughput": 234_000, "record_size": 512}
    assert set_up_line(alike, 108) == "machines 1 (15); producers 1 (6); consumers 1 (18)"


@pytest.mark.parametrize(
    ("arms", "partitions", "workers", "said"),
    [
        ("probe-kip951", 5, 6, "6 workers share 5 partitions"),
        ("probe-kip951,java-4.3.1", 9, 2, "java-4.3.1 is one process"),
        ("probe-kip951", 5, 0, "--workers is 0"),
    ],
)
def test_workers_are_for_kipctls_own_clients_each_with_a_partition(
    arms: str, partitions: int, workers: int, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        RollPlan(arms=parse_arms(arms), partitions=(partitions,), workers=workers)
    RollPlan(arms=parse_arms("probe-kip951"), partitions=(partitions,), workers=2)
