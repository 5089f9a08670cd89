"""Two sides compared on Spark: the values, what is real of their difference, and the gate."""

import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from one_process import OneProcess, Said
from pyspark.sql import SparkSession
from runs import write_run

from kipctl.errors import UsageError
from kipctl.pipeline.compare import MEASURES, ComparedMeasure, _windows, compare
from kipctl.pipeline.inputs import open_runs
from kipctl.pipeline.significance import Difference
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
        if seq % 20 == 7:
            phases = {f"{phase}_us": 0 for phase in PHASES}
            phases |= {"backoff_us": int(factor * 500), "metadata_us": int(factor * (seq % 50))}
            hop = {"attempt": 1, "from_broker": 1, "from_epoch": 1, "to_broker": 2, "to_epoch": 2}
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
    return {one.measure.name: one for one in compare(*sides).measures}


def nearest_rank(values: list[int], q: float) -> int:
    return sorted(values)[max(1, math.ceil(round(q * len(values), 6))) - 1]


def expected(runs: list[Run]) -> dict[str, float]:
    """Every measure of one side, from its rows alone."""
    latency: list[int] = []
    service: list[int] = []
    share: list[int] = []
    failed = redirected = metadata = 0
    acknowledged = lasted_us = 0
    read = read_us = 0
    for run in runs:
        batches = run.read("batches").to_pylist()
        done = [row for row in batches if not row["error"] and row["first_seq"] >= WARMUP]
        latency += [row["acked_us"] - row["intended_us"] for row in done]
        service += [row["acked_us"] - row["sent_us"] for row in done]
        acknowledged += len(done)
        lasted_us += max(r["acked_us"] for r in done) - min(r["intended_us"] for r in done)
        failed += sum(row["error"] != 0 for row in batches)
        redirects = run.read("redirects").to_pylist()
        share += [row["backoff_us"] + row["metadata_us"] for row in redirects]
        redirected += len(redirects)
        metadata += sum(row["api_key"] == 3 for row in run.read("rpcs").to_pylist())
        reads = [row for row in run.read("reads").to_pylist() if row["records"]]
        read += sum(row["records"] for row in reads)
        read_us += max(row["time_us"] for row in reads)
    return {
        "mean": sum(latency) / len(latency) / 1000,
        "p50": nearest_rank(latency, 0.5) / 1000,
        "p95": nearest_rank(latency, 0.95) / 1000,
        "p99": nearest_rank(latency, 0.99) / 1000,
        "p999": nearest_rank(latency, 0.999) / 1000,
        "max": max(latency) / 1000,
        "service_p99": nearest_rank(service, 0.99) / 1000,
        "throughput": acknowledged / lasted_us * 1e6,
        "read": read / read_us * 1e6,
        "failed": failed / len(runs),
        "redirected": redirected / len(runs),
        "client_share_p50": nearest_rank(share, 0.5) / 1000,
        "metadata_rpcs": metadata / len(runs),
    }


def test_both_values_are_exact_for_one_run_and_for_several(
    spark: SparkSession, tmp_path: Path
) -> None:
    a = [record(tmp_path / "a", 1)]
    b = [record(tmp_path / "b", 2, 1.2), record(tmp_path / "c", 3, 1.1, seconds=9)]
    found = compared(spark, a, b)
    assert list(found) == [measure.name for measure in MEASURES]
    for name, value in expected(a).items():
        assert found[name].a == pytest.approx(value, rel=1e-3 if name == "throughput" else 1e-9)
    for name, value in expected(b).items():
        assert found[name].b == pytest.approx(value, rel=1e-3 if name == "throughput" else 1e-9)
    for run in b:
        for name, value in expected([run]).items():
            of_run = found[name].by_run["b", run.folder.name]
            assert of_run == pytest.approx(value, rel=1e-3 if name == "throughput" else 1e-9)
    p50 = found["p50"].as_document()
    assert list(p50["b_by_run"]) == ["b", "c"] or list(p50["b_by_run"]) == ["c", "b"]
    assert p50["difference"] == p50["b"] - p50["a"]
    assert p50["effect"] == pytest.approx(p50["b"] / p50["a"] - 1)


def test_a_slower_run_is_told_from_an_equal_one(spark: SparkSession, tmp_path: Path) -> None:
    base = record(tmp_path / "base", 1)
    slower = compared(spark, [base], [record(tmp_path / "slow", 2, 1.3)])
    for name in ("mean", "p50", "p95", "service_p99", "client_share_p50"):
        difference = slower[name].difference
        assert difference.is_real is True
        assert difference.low is not None
        assert difference.high is not None
        absolute = slower[name].absolute
        assert absolute is not None
        # The interval is of times cut to 0.1 %.
        assert 0 < difference.low <= absolute * 1.01
        assert absolute * 0.99 <= difference.high
    for name in ("throughput", "failed", "redirected", "metadata_rpcs"):
        assert slower[name].difference.is_real is False
        assert slower[name].as_document()["effect_is"] == "probability of superiority"
    assert slower["max"].difference.is_real is None
    equal = compared(spark, [base], [record(tmp_path / "equal", 3)])
    assert {name for name, one in equal.items() if one.difference.is_real} == set()


def test_a_run_of_few_windows_and_one_without_records_tell_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    base, short = record(tmp_path / "base", 1), record(tmp_path / "short", 2, seconds=3)
    for one in compared(spark, [base], [short]).values():
        assert one.difference.is_real is None
        assert one.b is not None
    nothing = write_run(tmp_path / "nothing", {}, batches=[], redirects=[], rpcs=[])
    found = compared(spark, [base], [nothing])
    assert found["p99"].b is None
    assert found["p99"].absolute is None
    assert found["throughput"].b is None
    assert found["failed"].b == 0
    assert all(one.difference.is_real is None for one in found.values())


def test_a_long_run_has_longer_windows(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        {"first_seq": k, "intended_us": k * 10**8, "sent_us": k * 10**8, "acked_us": k * 10**8 + 1}
        for k in range(10)
    ]
    a, b = (write_run(tmp_path / name, {}, batches=rows) for name in "ab")
    sides = (open_runs(spark, [str(run.folder)]) for run in (a, b))
    assert compare(*sides).window_us == 4_000_000  # 900 s in at most 300 windows


def test_windows_do_not_depend_on_the_order_of_rows(spark: SparkSession) -> None:
    chance = np.random.default_rng(1)
    rows = [
        ("latency", "a", f"run-{run}", window, int(value), 1)
        for run in range(5)
        for window in range(4)
        for value in chance.integers(1, 4000, 20)
    ]
    columns = "time string, side string, run string, window bigint, value_us bigint, records bigint"
    one, other = (
        _windows(spark.createDataFrame(in_order, columns).coalesce(1))["latency", "a"]
        for in_order in (rows, rows[::-1])
    )
    for part in fields(one):
        assert np.array_equal(getattr(one, part.name), getattr(other, part.name)), part.name


def test_a_run_is_not_compared_with_itself(spark: SparkSession, tmp_path: Path) -> None:
    run = write_run(tmp_path / "all" / "one", {}, batches=[])
    write_run(tmp_path / "all" / "two", {}, batches=[])
    with pytest.raises(UsageError, match="on both sides"):
        compare(open_runs(spark, [str(tmp_path / "all")]), open_runs(spark, [str(run.folder)]))


@pytest.mark.parametrize(
    ("a", "b", "overlap"),
    [
        ([1, 2], [3, 4], False),
        ([3, 4], [1, 2], False),
        ([1, 3], [2, 4], True),
        ([1, 9], [4, 5], True),
        ([1, 2], [2, 3], True),
        ([1], [2, 3], None),
        ([], [2, 3], None),
    ],
)
def test_single_runs_may_overlap(a: list[float], b: list[float], overlap: bool | None) -> None:
    by_run = {
        (side, str(number)): value
        for side, values in (("a", a), ("b", b))
        for number, value in enumerate(values)
    }
    one = ComparedMeasure(MEASURES[0], 1.0, 2.0, by_run, Difference(p_value=0.01))
    assert one.runs_overlap is one.as_document()["runs_overlap"] is overlap


def test_the_command_tells_how_runs_differ_and_is_a_gate(
    kipctl_again: OneProcess, tmp_path: Path
) -> None:
    def compare_runs(*words: str) -> Said:
        store = {"KIPCTL_RUNS": str(tmp_path)}
        return kipctl_again("runs", "compare", *words, "--master", "local[2]", **store)

    record(tmp_path / "base", 1)
    record(tmp_path / "slow", 2, 1.3, producer={"acks": "all"})
    records = {"stopped": True, "num_records": 80_000, "summary": {"records": {"sent": 1500}}}
    record(tmp_path / "slow2", 3, 1.3, producer={"acks": "all"}, **records)
    gates = ("--fail-if", "p50 > +10%", "--fail-if", "throughput < -10%", "--fail-if", "p50 > 1s")
    tripped = compare_runs("base", "slow,slow2", *gates)
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
    assert p50[-1] == "yes"
    assert ["p50", ">", "+10%", "yes"] in lines
    assert ["throughput", "<", "-10%", "no"] in lines

    passed = compare_runs("slo[v-w]", "slow?", *gates[:4], "--output", "json")
    assert passed.status == 0, passed.err
    said = passed.document
    assert said["_command"] == "runs compare"
    assert (said["a"], said["b"]) == (["slow"], ["slow2"])
    assert [row["setting"] for row in said["settings"]] == ["num_records", "interrupted"]
    assert said["window_seconds"] == 1.0
    assert [one["measure"] for one in said["measures"]] == [m.name for m in MEASURES]
    assert said["gates"] == [
        {"condition": "p50 > +10%", "holds": False},
        {"condition": "throughput < -10%", "holds": False},
    ]
