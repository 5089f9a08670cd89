"""From runs to the document and its tables: comparisons, the published table, curve, prediction."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from redirect_runs import arm_runs, batch, redirect
from trace_rows import record, table

from kipctl.errors import UsageError
from kipctl.experiments.arms.names import parse_arms
from kipctl.experiments.arms.stand import Place
from kipctl.experiments.arms.tapped import Conditions
from kipctl.experiments.redirect.plan import Scale, planned
from kipctl.experiments.redirect.predict import predicted, recorded_curve
from kipctl.experiments.redirect.result import curve_document, curve_lines, document, set_up
from kipctl.load.metadata.convergence import Sightings
from kipctl.report.experiment_tables import redirect_tables
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Report, Table
from kipctl.trace.store import Run
from kipctl.transport.access import Access

BASELINE = arm_runs("java-3.6.0", [101, 103, 108], [104, 102, 107], [105, 101, 106])
CAPPED = arm_runs("java-4.3.1-capped", [41, 48, 58], [44, 50, 57], [45, 46, 56])
HINTED = arm_runs("java-4.3.1", [41, 47, 52], [44, 50, 59], [42, 58, 45])
FOUND = (BASELINE, CAPPED, HINTED)
PLAN = planned(
    Scale.DEFAULT, {"arms": tuple(arm.arm for arm in FOUND), "throughput": 1000}, Conditions()
)
HERE = set_up(PLAN, Place(), 3, "4.3.1")
DOCUMENT = document(PLAN, HERE, FOUND)


def shown(table: Table) -> str:
    stream = StringIO()
    write(Report("experiment", {}, (table,)), OutputFormat.PLAIN, stream, is_terminal=False)
    return stream.getvalue()


def test_arms_of_one_client_are_compared_and_what_hints_do_is_told_apart() -> None:
    comparisons = {(row["without"], row["with"]): row for row in DOCUMENT["comparisons"]}
    assert list(comparisons) == [
        ("java-3.6.0", "java-4.3.1-capped"),
        ("java-3.6.0", "java-4.3.1"),
        ("java-4.3.1-capped", "java-4.3.1"),
    ]
    assert [comparison["takes_hints"] for comparison in comparisons.values()] == [False, True, True]
    assert comparisons["java-3.6.0", "java-4.3.1"]["verdict"] == "different"
    assert comparisons["java-4.3.1-capped", "java-4.3.1"]["different"] is False


def test_each_arm_stands_beside_what_was_published_of_its_like() -> None:
    rows = {row["arm"]: row for row in DOCUMENT["beside_published"]}
    assert rows["java-3.6.0"]["published_latency_ms"]["p999"] == 1675
    assert rows["java-3.6.0"]["against"] is None
    assert rows["java-4.3.1-capped"]["published_latency_ms"]["p999"] == 3022
    hinted = rows["java-4.3.1"]
    assert (
        hinted["latency_ms"]["p999"],
        hinted["against"],
        hinted["published_latency_ms"]["p999"],
    ) == (
        59,
        "java-3.6.0",
        215,
    )
    assert hinted["cut_percent"] == pytest.approx(100 * (1 - 59 / 108))


def test_what_is_set_up_otherwise_comes_from_the_plan() -> None:
    told = {
        row["what"]: (row["published_value"], row["value_here"])
        for row in DOCUMENT["set_up_otherwise"]
    }
    assert told["records/s"] == ("100,000", "1,000")
    assert told["leader rotations in a run"] == ("1", "4")
    assert "partitions" not in told
    elsewhere = set_up(PLAN, Place(Access("kafka.example.org:9092")), 12, None)
    assert (elsewhere.brokers, elsewhere.controllers, elsewhere.machines) == (12, None, None)


def test_the_tables_say_what_the_document_says() -> None:
    doubtful, moved, compared, arms, published, otherwise = redirect_tables(DOCUMENT)
    assert doubtful.title.startswith("Read with care")
    assert doubtful.notes[0].startswith(
        "Few moved leaders were met in a run (java-3.6.0 3 | 3 | 3; java-4.3.1-capped 3 | 3 | 3; "
        "java-4.3.1 3 | 3 | 3; 20 are wanted in each)"
    )
    assert moved.title == "Wait for a moved leader, acks=1"
    assert moved.rows[0][:5] == ("java-3.6.0", 104.0, 108.0, "103.0 | 104.0 | 105.0", 9)
    assert moved.rows[0][5:11] == (0, 0, 0, 100, 0, 0)
    assert arms.rows[0][:6] == ("java-3.6.0", 5.0, 107.0, 108.0, "108 | 107 | 106", "2 | 2 | 2")
    assert arms.title == "Records while leaders rotated, acks=1"
    assert compared.rows[1][-1] == "different"
    assert published.rows[2][-4:-1] == (215, "346 | 174 | 125", pytest.approx(87.2, abs=0.1))
    assert published.titles[-1] == "here (the KIP's)"
    for *_, kip_arm, _, _, _, differs in published.rows:
        assert "records/s 1,000 (100,000); " in str(differs), kip_arm
        assert "; acks 1 (all); " in str(differs)
        assert "; leader rotations in a run 4 (1); " in str(differs)
        assert "partitions" not in str(differs)
    for result in (moved, arms, compared, published, otherwise):
        assert shown(result)
    conditions = Conditions(metadata_delay_us=300_000, stale_metadata_us=1_000_000)
    moved = redirect_tables(document(replace(PLAN, conditions=conditions), HERE, FOUND))[1]
    assert moved.title.endswith("Metadata answers 300 ms late, Metadata stale for 1000 ms")


def test_an_arm_that_did_not_keep_up_is_told() -> None:
    asked = replace(PLAN, throughput=2000, num_records=20_000)
    notes = redirect_tables(document(asked, HERE, FOUND))[3].notes
    assert notes[0].startswith("Of 2,000 records/s asked for there were: java-3.6.0 1,00")
    assert "asked for" not in redirect_tables(DOCUMENT)[3].notes[0]


def test_a_busy_machine_is_said_and_enough_moves_are_no_doubt() -> None:
    many = arm_runs("java-4.3.1", *([5] * 20 for _ in range(3)))
    busy = replace(many, runs=tuple(replace(run, busy=0.97) for run in many.runs))
    (said,) = document(PLAN, HERE, (busy,))["doubts"]
    assert said.startswith("This machine was 97 % busy")
    # Many moves in other runs do not make up for few in one.
    uneven = arm_runs("java-4.3.1", [5] * 40, [5] * 4, [5] * 40)
    (said,) = document(PLAN, HERE, (uneven,))["doubts"]
    assert said.startswith(
        "Few moved leaders were met in a run (java-4.3.1 40 | 4 | 40; 20 are wanted in each)"
    )


STALE = {
    0: FOUND,
    1000: (
        arm_runs("java-3.6.0", [1001, 1003, 1008], [1004, 1002, 1007], [1000, 1003, 1009]),
        arm_runs("java-4.3.1-capped", [1301, 1303, 1308], [1304, 1302, 1307], [1300, 1303, 1309]),
        arm_runs("java-4.3.1", [41, 47, 52], [44, 50, 59], [42, 48, 55]),
    ),
}


def test_a_gain_curve_has_a_line_for_each_arm_and_what_hints_save_at_each_point() -> None:
    (fresh, fresh_ms), (stale, stale_ms) = curve_lines(STALE)["java-4.3.1-capped"]
    assert (fresh, stale) == (0.0, 1000.0)
    assert fresh_ms == pytest.approx((48 * 50 * 46) ** (1 / 3), rel=1e-3)
    assert stale_ms == pytest.approx(1303.3, abs=0.1)
    curve = curve_document(STALE)
    points = curve["savings"]
    saved = {(point["stale_metadata_ms"], point["without"]): point["saved_ms"] for point in points}
    expected = {
        (0, "java-3.6.0"): 56.7,
        (0, "java-4.3.1-capped"): 0.7,
        (1000, "java-3.6.0"): 955.0,
        (1000, "java-4.3.1-capped"): 1255.0,
    }
    assert saved == pytest.approx(expected, abs=0.2)
    lines, savings = redirect_tables({**DOCUMENT, "gain_curve": curve})[-2:]
    assert lines.titles == ("arm", "0 ms", "1000 ms")
    assert lines.rows[2] == ("java-4.3.1", *(pytest.approx(ms, abs=0.1) for ms in (47.3, 48.3)))
    assert [(row[0], row[2], row[-1]) for row in savings.rows] == [
        ("java-3.6.0", 0, "different"),
        ("java-3.6.0", 1000, "different"),
        ("java-4.3.1-capped", 0, "not different"),
        ("java-4.3.1-capped", 1000, "different"),
    ]


def test_a_prediction_reads_how_far_brokers_are_behind_off_the_curve() -> None:
    seen = (
        Sightings(1, (70_000,), (0, 0, 0)),
        Sightings(2, (90_000,), (20_000, 100_000, 2_000_000)),
    )
    prediction = predicted(seen, parse_arms("java-3.6.0,java-4.3.1"), curve_lines(STALE))
    assert prediction["behind_ms"] == {"p50": 0, "p99": 2000, "max": 2000}
    assert prediction["brokers"][0] == {"broker": 1, "behind_ms": {"p50": 0, "p99": 0, "max": 0}}
    first, *_, last = prediction["savings"]
    assert (first["behind_statistic"], first["beyond_the_curve"]) == ("p50", False)
    assert first["saved_ms"] == pytest.approx(56.7, abs=0.2)
    assert (last["behind_statistic"], last["beyond_the_curve"]) == ("max", True)
    assert last["saved_ms"] == pytest.approx(955.0, abs=0.2)
    (table,) = redirect_tables({"prediction": prediction})
    assert table.rows[-1][-1] is True


def recorded(folder: Path, arm: str, stale_ms: float, wait_ms: float) -> Path:
    run = Run.create(folder)
    batches = (batch(2 * k, 1000 * k, 7, seq_stride=1) for k in range(50))
    record(run, "batches", table("batches", *batches), arm)
    record(run, "redirects", table("redirects", redirect(0, wait_ms) | {"error_us": 1}), arm)
    run.describe(
        {
            "arm": arm,
            "warmup_records": 10,
            "tap": {"stale_metadata_ms": stale_ms},
            "summary": {"actions": [{"called_ms": 1.0}]},
        }
    )
    return folder


def test_a_curve_is_read_from_the_runs_that_were_recorded_of_it(tmp_path: Path) -> None:
    folders = [
        recorded(tmp_path / str(number), *arguments)
        for number, arguments in enumerate(
            [
                ("probe-baseline", 1000.0, 1050),
                ("probe-baseline", 0.0, 105),
                ("probe-kip951", 0.0, 44),
                ("probe-kip951", 0.0, 45),
            ]
        )
    ]
    arms, lines = recorded_curve(folders)
    assert {arm.name for arm in arms} == {"probe-baseline", "probe-kip951"}
    (fresh, fresh_ms), (stale, stale_ms) = lines["probe-baseline"]
    assert (fresh, stale) == (0.0, 1000.0)
    assert (fresh_ms, stale_ms) == pytest.approx((105.0, 1050.0))
    ((_, hinted_ms),) = lines["probe-kip951"]
    assert hinted_ms == pytest.approx((44 * 45) ** 0.5, rel=1e-3)
    with pytest.raises(UsageError, match="none with hints beside one without"):
        recorded_curve(folders[:2])


def test_runs_of_another_command_are_no_curve(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run")
    run.describe({"arm": "kip951", "command": "perf produce"})
    with pytest.raises(UsageError, match="was not recorded by kipctl experiment redirect"):
        recorded_curve([run.folder])
