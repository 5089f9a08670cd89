"""The synthetic runs' known answers are true of their rows; test_latency.py has Spark find them."""

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pytest

from benchmarks.synthetic import INTERVAL_NS, QUANTILES, WARMUP_RECORDS, SyntheticRun
from kipctl.trace.store import Run

RUNS = [
    SyntheticRun(1280, topics=1),  # a single group: levels 1 to 7
    SyntheticRun(1280 * 3, topics=3),
    SyntheticRun(128_000, topics=3),
    SyntheticRun(1280 * 1499, topics=4, partitions=7),  # of several row groups
]
Values = npt.NDArray[np.int64]


def every_value(run: Run) -> dict[tuple[str, str], Values]:
    """Each record's time on its own, by measure and topic, from the rows as they are stored."""
    rows = run.read("batches")
    rows = rows.filter(pc.equal(rows["error"], 0))
    first, stride, count, sent, acked = (
        rows[name].to_numpy()
        for name in ("first_seq", "seq_stride", "records", "sent_us", "acked_us")
    )
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    seqs = np.repeat(first, count) + within * np.repeat(stride, count)
    measured = seqs >= run.description["warmup_records"]
    topics = np.repeat(rows["topic"].to_numpy(zero_copy_only=False), count)
    values = {
        "latency": np.repeat(acked, count) - seqs * INTERVAL_NS // 1000,
        "service": np.repeat(acked - sent, count),
    }
    return {
        (measure, topic): each[measured & (topics == topic)]
        for measure, each in values.items()
        for topic in sorted(set(topics))
    }


def nearest_rank(values: Values) -> dict[str, float]:
    ordered = np.sort(values)
    ranks = {name: math.ceil(q * len(ordered)) for name, q in QUANTILES.items()}
    quantiles = {f"{name}_us": int(ordered[rank - 1]) for name, rank in ranks.items()}
    mean = float(ordered.mean())
    return {"records": len(ordered), "mean_us": mean, **quantiles, "max_us": int(ordered[-1])}


@pytest.mark.parametrize("synthetic", RUNS, ids=lambda run: str(run.records))
def test_the_answers_are_those_of_every_record_sorted(
    tmp_path: Path, synthetic: SyntheticRun
) -> None:
    values = every_value(synthetic.write(tmp_path / "run"))
    assert {topic for _, topic in values} == set(synthetic.topic_names)
    for measure in ("latency", "service"):
        parts = [values[measure, topic] for topic in synthetic.topic_names]
        for number, part in enumerate(parts):
            assert synthetic.answer(measure, number) == pytest.approx(nearest_rank(part), rel=1e-12)
        whole = synthetic.answer(measure)
        assert whole == pytest.approx(nearest_rank(np.concatenate(parts)), rel=1e-12)


def test_a_run_holds_what_must_not_count_and_says_how_many(tmp_path: Path) -> None:
    synthetic = SyntheticRun(128_000)
    run = synthetic.write(tmp_path / "run")
    rows = run.read("batches")
    assert rows.num_rows == synthetic.batches
    failed = rows.filter(pc.not_equal(rows["error"], 0))
    assert pc.sum(failed["records"]).as_py() == synthetic.failed_records > 0
    total = pc.sum(rows["records"]).as_py()
    assert total == WARMUP_RECORDS + synthetic.records + synthetic.failed_records
    assert total == run.description["num_records"]
    # One batch lies across the end of the warm-up, so leaving out whole batches is not enough.
    last = pc.add(rows["first_seq"], rows["records"])
    across = pc.and_(pc.less(rows["first_seq"], WARMUP_RECORDS), pc.greater(last, WARMUP_RECORDS))
    assert rows.filter(across)["records"].to_pylist() == [16]
    assert set(rows["records"].to_pylist()) == {8, 16}


def test_every_batch_follows_the_one_before_and_is_sent_when_its_records_are_due(
    tmp_path: Path,
) -> None:
    rows = SyntheticRun(128_000).write(tmp_path / "run").read("batches")
    first, count, intended = (
        rows[name].to_numpy() for name in ("first_seq", "records", "intended_us")
    )
    assert first[0] == 0
    assert (first[1:] == first[:-1] + count[:-1]).all()
    assert (intended == first * INTERVAL_NS // 1000).all()
    sent_late = pc.subtract(rows["sent_us"], pc.add(rows["intended_us"], 10 * 7))
    assert pc.min(sent_late).as_py() >= 0  # null where a batch was given up unsent


def test_the_same_run_is_written_twice(tmp_path: Path) -> None:
    synthetic = SyntheticRun(12_800)
    first, second = (synthetic.write(tmp_path / name) for name in ("a", "b"))
    assert first.read("batches") == second.read("batches")
    assert first.description == second.description


@pytest.mark.parametrize("records", [0, 1000, 1280, 2560])
def test_a_number_that_does_not_fill_its_units_is_refused(records: int) -> None:
    with pytest.raises(ValueError, match=f"{records} records"):
        SyntheticRun(records, topics=3)
