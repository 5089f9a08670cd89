"""Two sides compared on Spark: the values, what is real of their difference, and the gate."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from one_process import OneProcess, Said
from pyspark.sql import SparkSession
from runs import write_run

from kipctl.errors import UsageError
from kipctl.pipeline.compare import (
    MEASURES,
    UNITS,
    ComparedMeasure,
    Comparison,
    _is_there,
    compare,
)
from kipctl.pipeline.gates import parse_gate
from kipctl.pipeline.inputs import open_runs
from kipctl.trace.codes import PHASES
from kipctl.trace.store import Run

pytestmark = pytest.mark.spark

WARMUP = 50
INTERVAL_NS = 10_000_000
PER_SECOND = 100


def record(
    folder: Path, seed: int, factor: float = 1.0, seconds: int = 15, **description: Any
) -> Run:
    """One batch every 10 ms; every 20th is redirected; a few fail; Metadata is asked for at times.

    `factor` makes all that takes time take so much longer.
    """
    chance = np.random.default_rng(seed)
    batches, redirects, rpcs, reads = [], [], [], []
    for seq in range(seconds * PER_SECOND):
        due = seq * INTERVAL_NS // 1000
        latency = int(factor * chance.lognormal(8, 0.4))
        place = {"partition": seq % 3, "first_seq": seq}
        times = {"intended_us": due, "sent_us": due + 30, "acked_us": due + latency}
        reads.append({"time_us": due + latency, "records": seq % 3, "partition": seq % 3})
        error = 7 if seq % 400 == 399 else 0
        batches.append(place | times | {"bytes": 10, "attempts": 1, "error": error})
        if seq % 30 == 11:  # the consumer meets moves of its own, and some of the producer's
            moved = {"from_epoch": seq // 100, "to_epoch": seq // 100 + 1}
            waits = {f"{phase}_us": 0 for phase in PHASES} | {"backoff_us": int(factor * 9000)}
            met = {"attempt": 1, "error": 74, "error_us": due, "from_broker": 1, "to_broker": 2}
            fetch = {"api": "fetch", "partition": seq % 3, "first_seq": seq, "records": 0}
            redirects.append(fetch | met | moved | waits | {"decision": "absent"})
        if seq % 20 == 7:
            phases = {f"{phase}_us": 0 for phase in PHASES}
            phases |= {"backoff_us": int(factor * 500), "metadata_us": int(factor * (seq % 50))}
            moved = {"from_epoch": seq // 100, "to_epoch": seq // 100 + 1}
            hop = {"attempt": 1, "from_broker": 1, "to_broker": 2, **moved}
            met = {"error": 6, "error_us": due + 40, "base_offset": -1, "decision": "followed"}
            redirects.append({"api": "produce", "records": 1} | place | hop | met | phases)
        if chance.random() < 0.02:
            rpcs.append({"api_key": 3, "sent_us": due, "received_us": due + 100, "error": 0})
        rpcs.append({"api_key": 0, "sent_us": due, "received_us": due + latency, "error": 0})
    described = {"interval_ns": INTERVAL_NS, "warmup_records": WARMUP, "record_size": 10}
    return write_run(
        folder,
        {"command": "perf produce", "producer": {"acks": "1"}, **described, **description},
        batches=batches,
        redirects=redirects,
        rpcs=rpcs,
        reads=reads,
    )


def compared(spark: SparkSession, a: list[Run], b: list[Run]) -> dict[str, ComparedMeasure]:
    sides = (open_runs(spark, [str(run.folder) for run in side]) for side in (a, b))
    return {measure.measure.name: measure for measure in compare(*sides).measures}


def nearest_rank(values: list[int], q: float) -> int:
    return sorted(values)[max(1, math.ceil(round(q * len(values), 6))) - 1]


def expected(run: Run) -> dict[str, float]:
    """Every measure of a run, from its rows alone."""
    batches = run.read("batches").to_pylist()
    steady = [row for row in batches if row["first_seq"] >= WARMUP]
    latency = [row["acked_us"] - row["intended_us"] for row in steady]  # failed ones too
    service = [row["acked_us"] - row["sent_us"] for row in steady]
    done = [row for row in steady if not row["error"]]
    lasted_us = max(r["acked_us"] for r in done) - min(r["intended_us"] for r in done)
    redirects = run.read("redirects").to_pylist()
    of_api: dict[str, dict[tuple[int, int], int]] = {"produce": {}, "fetch": {}}
    for row in redirects:
        move, waits = (row["partition"], row["to_epoch"]), of_api[row["api"]]
        waits[move] = max(waits.get(move, 0), row["backoff_us"] + row["metadata_us"])
    written, read = ([*waits.values()] for waits in of_api.values())
    reads = [row for row in run.read("reads").to_pylist() if row["records"]]
    return {
        "move_wait_p50": nearest_rank(written, 0.5) / 1000,
        "move_wait_p99": nearest_rank(written, 0.99) / 1000,
        "moves_met": len(written),
        "read_move_wait_p50": nearest_rank(read, 0.5) / 1000,
        "read_move_wait_p99": nearest_rank(read, 0.99) / 1000,
        "read_moves_met": len(read),
        "mean": sum(latency) / len(latency) / 1000,
        "p50": nearest_rank(latency, 0.5) / 1000,
        "p95": nearest_rank(latency, 0.95) / 1000,
        "p99": nearest_rank(latency, 0.99) / 1000,
        "p999": nearest_rank(latency, 0.999) / 1000,
        "max": max(latency) / 1000,
        "service_p99": nearest_rank(service, 0.99) / 1000,
        "throughput": len(done) / lasted_us * 1e6,
        "read": sum(row["records"] for row in reads) / max(r["time_us"] for r in reads) * 1e6,
        "failed": sum(row["error"] != 0 for row in batches),
        "redirected": len(redirects),
        "metadata_rpcs": sum(row["api_key"] == 3 for row in run.read("rpcs").to_pylist()),
    }


Sides = tuple[list[Run], list[Run], dict[str, ComparedMeasure]]


@pytest.fixture(scope="module")
def sides(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Sides:
    """A run on the one side, two on the other, and what is said of them."""
    folder = tmp_path_factory.mktemp("sides")
    a = [record(folder / "a", 1)]
    b = [record(folder / "b", 2, 1.2), record(folder / "c", 3, 1.1, seconds=9)]
    return a, b, compared(spark, a, b)


def test_every_run_has_its_exact_values_and_a_side_their_mean(sides: Sides) -> None:
    *runs_of, measures = sides
    assert list(measures) == [measure.name for measure in MEASURES]
    for side, runs in zip("ab", runs_of, strict=True):
        for run in runs:
            for name, value in expected(run).items():
                of_run = measures[name].by_run[side, run.folder.name]
                assert of_run == pytest.approx(value, rel=1e-3 if name == "throughput" else 1e-9)
    b_values = [expected(run) for run in runs_of[1]]
    logs = [math.log(values["p99"] + 0.1) for values in b_values]
    assert measures["p99"].b == pytest.approx(math.exp(sum(logs) / 2) - 0.1)
    assert measures["redirected"].b == sum(values["redirected"] for values in b_values) / 2
    p50 = measures["p50"].as_document()
    assert list(p50["b_by_run"]) == ["b", "c"]
    assert p50["difference"] == p50["b"] - p50["a"]
    assert all(measure.verdict.is_different is None for measure in measures.values())


def test_moves_that_producer_and_consumer_met_are_told_apart(sides: Sides) -> None:
    """Put together they had 9 ms as their p99, which the producer never waited."""
    _, _, measures = sides
    of_producer, of_consumer = measures["move_wait_p99"].a, measures["read_move_wait_p99"].a
    assert of_producer is not None
    assert of_producer < 1
    assert of_consumer == pytest.approx(9)
    assert measures["read_moves_met"].a == 15


def test_a_gate_on_a_client_that_was_not_there_is_tripped(
    spark: SparkSession, tmp_path: Path
) -> None:
    def run(name: str, **datasets: list[dict[str, Any]]) -> Run:
        return write_run(tmp_path / name, {}, **datasets)

    read = {"time_us": 5000, "records": 1, "bytes": 9}
    sent = {"intended_us": 0, "sent_us": 10, "acked_us": 900, "first_seq": 0, "bytes": 9}
    for there, lacking, datasets in (
        ("read_move_wait_p50", "move_wait_p50", {"reads": [read]}),
        ("move_wait_p50", "read_move_wait_p50", {"batches": [sent]}),
    ):
        measures = compared(spark, *([run(f"{side} {there}", **datasets)] for side in "ab"))
        assert parse_gate(f"{lacking} > 1s", UNITS).trips(measures[lacking].for_gates)
        assert not parse_gate(f"{there} > 1s", UNITS).trips(measures[there].for_gates)


def test_slower_runs_are_told_from_equal_ones(spark: SparkSession, tmp_path: Path) -> None:
    base, equals = (
        [record(tmp_path / f"{name}{n}", seed + n, seconds=6) for n in range(3)]
        for name, seed in (("base", 0), ("equal", 20))
    )
    slow = [record(tmp_path / f"slow{n}", 10 + n, 1.3, seconds=6) for n in range(3)]
    slower = compared(spark, base, slow)
    for name in ("mean", "p50", "service_p99"):
        verdict, percent = slower[name].verdict, slower[name].percent
        assert verdict.is_different is True, name
        assert verdict.low is not None
        assert verdict.high is not None
        assert percent is not None
        assert 1 < verdict.low < 1 + percent / 100 < verdict.high
    for name in ("throughput", "failed", "redirected", "metadata_rpcs"):
        assert slower[name].verdict.is_different is False, name
    equal = compared(spark, base, equals)
    assert {name for name, measure in equal.items() if measure.verdict.is_different} == set()


def test_failed_records_count_with_what_they_waited_and_trip_a_gate_by_their_number(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The paused broker: 0 failed of one run and 271 of the other."""

    def run(name: str, failed: int) -> Run:
        rows = [
            {
                "first_seq": seq,
                "intended_us": 1000 * seq,
                "sent_us": 1000 * seq,
                "acked_us": 1000 * seq + (4_000_000 if seq >= 2000 - failed else 2000),
                "error": 7 if seq >= 2000 - failed else 0,
            }
            for seq in range(2000)
        ]
        described = {"interval_ns": 10**6, "warmup_records": 0}
        return write_run(tmp_path / name, described, batches=rows, redirects=[], rpcs=[])

    measures = compared(spark, [run("good", 0)], [run("paused", 271)])
    assert (measures["failed"].a, measures["failed"].b) == (0, 271)
    assert parse_gate("failed > +10%", UNITS).trips(measures["failed"].for_gates)
    assert parse_gate("p99 > +10%", UNITS).trips(measures["p99"].for_gates)
    assert measures["p99"].b == pytest.approx(4000)
    assert measures["p50"].b == pytest.approx(2)


def test_a_run_without_records_has_no_times_and_nothing_is_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    base = record(tmp_path / "base", 1, seconds=6)
    nothing = write_run(tmp_path / "nothing", {}, batches=[], redirects=[], rpcs=[])
    measures = compared(spark, [base], [nothing])
    assert measures["p99"].b is None
    assert measures["p99"].absolute is None
    assert measures["throughput"].b is None
    assert measures["failed"].b == 0
    # None of its requests are on record: that is not the same as none.
    assert measures["metadata_rpcs"].b is None
    verdict = measures["move_wait_p50"].verdict
    assert verdict.text == "cannot be told: one run on a side, 3 are needed"
    assert all(measure.verdict.is_different is None for measure in measures.values())


@pytest.mark.parametrize(
    ("seconds", "differ"),
    [((60, 60), False), ((60, 62), False), ((60, 70), True), ((0, 60), False)],
)
def test_runs_of_other_lengths_are_said(seconds: tuple[float, float], differ: bool) -> None:
    lasted = {("a", "x"): seconds[0], ("b", "y"): seconds[1]}
    assert Comparison((), lasted).lengths_differ is differ


def test_a_run_is_not_compared_with_itself(spark: SparkSession, tmp_path: Path) -> None:
    run = write_run(tmp_path / "all" / "one", {}, batches=[])
    write_run(tmp_path / "all" / "two", {}, batches=[])
    with pytest.raises(UsageError, match="on both sides"):
        compare(open_runs(spark, [str(tmp_path / "all")]), open_runs(spark, [str(run.folder)]))


def test_the_command_tells_how_runs_differ_and_is_a_gate(
    kipctl_again: OneProcess, tmp_path: Path
) -> None:
    def compare_runs(*words: str) -> Said:
        store = {"KIPCTL_RUNS": str(tmp_path)}
        return kipctl_again("runs", "compare", *words, "--master", "local[2]", **store)

    for name, seed in (("base", 1), ("base2", 4), ("base3", 5)):
        record(tmp_path / name, seed, seconds=7)
    for name, seed in (("slow", 2), ("slow3", 6)):
        record(tmp_path / name, seed, 1.3, seconds=7, producer={"acks": "all"})
    records = {"stopped": True, "num_records": 80_000, "summary": {"records": {"sent": 1500}}}
    record(tmp_path / "slow2", 3, 1.3, seconds=7, producer={"acks": "all"}, **records)
    gates = ("--fail-if", "p50 > +10%", "--fail-if", "throughput < -10%", "--fail-if", "p50 > 1s")
    tripped = compare_runs("base*", "slow,slow2,slow3", *gates)
    assert tripped.status == 7, tripped.err
    assert tripped.err.endswith("kipctl: It holds: p50 > +10%.\n")
    lines = [line.split() for line in tripped.out.splitlines()]
    assert ["acks", "1", "all"] in lines
    assert "slow2 was interrupted, and is compared as it is: 1,500 of 80,000 records\n" in (
        tripped.err
    )
    (told,) = (line for line in lines if line[:1] == ["interrupted"])
    assert told == ["interrupted", "-", "-", "|", "1,500", "of", "80,000", "records"]
    assert lines.index(["Settings", "that", "differ"]) < lines.index(["acks", "1", "all"])
    (p50,) = (line for line in lines if line[:3] == ["latency,", "p50,", "ms"])
    assert p50[-1] == "different"
    assert ["p50", ">", "+10%", "yes"] in lines
    assert ["throughput", "<", "-10%", "no"] in lines

    passed = compare_runs("slo[v-w]", "slow2", *gates[:4], "--output", "json")
    assert passed.status == 0, passed.err
    said = passed.document
    assert said["_command"] == "runs compare"
    assert (said["a_runs"], said["b_runs"]) == (["slow"], ["slow2"])
    assert [row["setting"] for row in said["settings"]] == ["num_records", "interrupted"]
    assert said["lengths_differ"] is False
    assert [row["measure"] for row in said["measures"]] == [m.name for m in MEASURES]
    assert said["doubts"] == [
        "Few moved leaders were met in a run (A's consumer 7; B's consumer 7; 20 are wanted in "
        "each): their waits say little; let more leaders move in each run, or send to more "
        "partitions. More: kipctl explain few-moves"
    ]
    assert said["gates"] == [
        {"condition": "p50 > +10%", "holds": False},
        {"condition": "throughput < -10%", "holds": False},
    ]


def test_a_wait_of_0_is_something_to_compare_and_a_count_of_0_is_not() -> None:
    by_name = {measure.name: measure for measure in MEASURES}
    assert _is_there(by_name["move_wait_p50"], [0.0, None])
    assert not _is_there(by_name["move_wait_p50"], [None, None])
    assert not _is_there(by_name["failed"], [0.0, 0.0])
    assert _is_there(by_name["failed"], [0.0, 1.0])
