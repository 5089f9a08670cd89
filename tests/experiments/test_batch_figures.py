"""What batch sizes come to, by table: rotations, latency meanwhile, waits, differences, words."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from redirect_runs import SECOND, batch, redirect
from trace_rows import table

from kipctl.errors import UsageError
from kipctl.experiments.arms.halves import records
from kipctl.experiments.batch.figures import BatchRun, Rotation, arm_document, document
from kipctl.experiments.batch.plan import BatchPlan, parse_sizes
from kipctl.report.experiment_batch_tables import batch_answer, batch_tables, sentence

LEADERS = 60


def run_of(
    rotation_s: float,
    slow_ms: int,
    waits_ms: Sequence[float] = (),
    rotations: int = 1,
    busy: float | None = None,
) -> BatchRun:
    """Rotations from second 1, 101, ... on. Records are due every 10 ms; they take 5 ms, but for
    those that are due in a rotation, which take `slow_ms`."""
    spans = tuple(
        Rotation((1 + 100 * n) * SECOND, round((1 + 100 * n + rotation_s) * SECOND))
        for n in range(rotations)
    )
    rows = []
    for number in range(100 * (100 * rotations + 1)):
        due_us = 10_000 * number
        is_slow = any(span.began_us <= due_us < span.ended_us for span in spans)
        took_us = 1000 * (slow_ms if is_slow else 5)
        rows.append(batch(number, due_us, took_us, records=1, seq_stride=1))
    moved = [redirect(partition, wait_ms) for partition, wait_ms in enumerate(waits_ms)]
    return BatchRun(
        spans, records(table("batches", *rows), 10_000_000), table("redirects", *moved), busy=busy
    )


def test_a_run_is_its_rotations_the_records_due_meanwhile_and_its_waits() -> None:
    run = run_of(2.0, 40, [3.0, 5.0, 10.0], rotations=2)
    assert run.rotation_ms == 2000
    assert run.latency.total == 400
    assert (run.latency_ms(0.5), run.latency_ms(0.99)) == (40, 40)
    assert len(run.moves) == 3
    assert run.waited_ms == 9.0  # 18 ms in two rotations


def test_what_a_rotation_leaves_behind_is_its_own() -> None:
    run = run_of(2.0, 140, rotations=2)
    assert (run.latency.total, run.late) == (400, 200)
    later = replace(run, after_us=SECOND)
    assert (later.latency.total, later.late) == (600, 200)  # those that came later took 5 ms
    assert (later.latency_ms(0.5), later.rotation_ms) == (140, 2000)
    arm = arm_document(20, LEADERS, [run, run_of(1.0, 40)])
    assert (arm["late_records"], arm["late_records_by_run"]) == (100, [200, 0])


def test_of_a_rotation_in_which_no_record_was_due_there_is_no_latency() -> None:
    run = run_of(0.0, 40)
    assert (run.rotation_ms, run.latency_ms(0.99), run.waited_ms) == (0, None, 0)
    arm = arm_document(60, LEADERS, [run])
    assert (arm["latency_ms_of_runs"]["p99"], arm["move_wait_ms"]) == (None, None)
    assert arm["move_wait_ms_by_run"] == [None]


def test_an_arm_has_the_geometric_mean_of_its_runs_and_each_of_them() -> None:
    runs = [run_of(2.0, 40, [4.0] * 20), run_of(8.0, 160, [16.0] * 20)]
    arm = arm_document(20, LEADERS, runs)
    assert arm["rotation_ms"] == pytest.approx(4000, rel=1e-3)
    assert arm["rotation_ms_by_run"] == [2000, 8000]
    assert arm["latency_ms_of_runs"]["p99"] == pytest.approx(80, rel=1e-2)
    assert arm["latency_ms_by_run"]["p99"] == [40, 160]
    assert arm["move_wait_ms"] == pytest.approx(8, rel=1e-1)
    assert arm["moves_met_by_run"] == [20, 20]
    assert (arm["moves"]["met"], arm["moves"]["wait_ms"]["max"]) == (40, 16)
    assert arm["partition_wait_ms_by_run"] == [80, 320]
    assert (arm["batch"], arm["batches"], arm["rotations"]) == (20, 3, 2)


def found(least_moves: int = 20) -> dict[int, list[BatchRun]]:
    """One at a time takes long, with a p99 of 6 ms; all at once is quick, with one of 90 ms."""
    waits = [4.0] * least_moves
    return {
        1: [run_of(s, 6, waits) for s in (10.0, 10.1, 10.2)],
        60: [run_of(s, 90, waits) for s in (0.5, 0.51, 0.52)],
    }


def test_sizes_are_compared_with_the_largest_by_runs() -> None:
    told = document(LEADERS, found())
    assert told["doubts"] == []
    by_measure = {row["measure"]: row for row in told["differences"]}
    assert {(row["without"], row["with"]) for row in told["differences"]} == {(60, 1)}
    assert {name: row["different"] for name, row in by_measure.items()} == {
        "rotation": True,
        "latency_p99": True,
        "move_wait": False,
    }
    assert by_measure["latency_p99"]["cut_percent"] == pytest.approx(93, abs=1)
    of_one = document(LEADERS, {60: found()[60]})
    assert (of_one["differences"], [arm["batch"] for arm in of_one["arms"]]) == ([], [60])


def test_what_spoils_it_is_said() -> None:
    told = document(LEADERS, found(least_moves=3))
    assert "Few moved leaders were met in a run (1 3 | 3 | 3; 60 3 | 3 | 3;" in told["doubts"][0]
    busy = {60: [run_of(1, 5, [1.0] * 20, busy=0.97)] * 3}
    assert "This machine was 97 % busy" in document(LEADERS, busy)["doubts"][0]


@pytest.mark.parametrize(
    ("size", "runs", "said"),
    [
        (
            1,
            [run_of(10, 6, [4.0] * 9)],
            "One at a time: 60 leaders moved in 10.0 s; clients waited 4.0 ms for a moved leader"
            " (p50), records took 6 ms (p99), and 0 in a rotation over 100 ms.",
        ),
        (
            20,
            [run_of(2, 240, [4.0]), run_of(8, 240, [4.0])],
            "Batches of 20: 60 leaders moved in 4.0 s (2.0 to 8.0 by run); clients waited 4.0 ms"
            " for a moved leader (p50, 4.0 to 4.0 by run), records took 240 ms (p99), and 500 in a"
            " rotation over 100 ms.",
        ),
        (
            60,
            [run_of(0, 40)],
            "All at once: 60 leaders moved in 0.0 s; clients met no moved leader in some run.",
        ),
    ],
)
def test_the_first_sentence_answers(size: int, runs: list[BatchRun], said: str) -> None:
    assert sentence(arm_document(size, LEADERS, runs)) == said


def test_the_answer_comes_first() -> None:
    about = {
        "kafka_version": "4.3.1",
        "run_count": 3,
        "acks": "all",
        "throughput": 300.0,
        "leader_discovery": "kip951",
        "settle_seconds": 2.0,
    }
    shown = {**about, **document(LEADERS, found())}
    answer, (arms, differences) = batch_answer(shown), batch_tables(shown)
    assert answer.others[0].startswith("One at a time: 60 leaders moved in 10.1 s")
    assert [row[0] for row in arms.rows] == ["1", "all"]
    assert len({len(row) for row in arms.rows} | {len(arms.columns)}) == 1
    assert {row[1] for row in differences.rows} == {
        "rotation",
        "latency p99",
        "wait for a moved leader, p50",
    }


@pytest.mark.parametrize(
    ("text", "partitions", "sizes"),
    [
        ("1,5,20,all", 60, (1, 5, 20, 60)),
        ("all", 60, (60,)),
        ("20, 1,20", 60, (1, 20)),
        ("1,5,20,60,all", 30, (1, 5, 20, 30)),
        ("1,5", 1, (1,)),
    ],
)
def test_sizes_are_read(text: str, partitions: int, sizes: tuple[int, ...]) -> None:
    assert parse_sizes(text, partitions) == sizes


@pytest.mark.parametrize("text", ["", "0", "-1", "some", "1,", "1;5", "1.5", "ALL"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match="are no batch sizes"):
        parse_sizes(text, 60)


def test_what_it_takes_is_told() -> None:
    plan = BatchPlan(sizes=(1, 60), runs=3, rotations=2, partitions=60)
    assert plan.batches(20) == 3
    assert plan.batches(50) == 2
    assert plan.resources_needed.startswith("6 runs with 2 rotations of 60 leaders in each: some ")
