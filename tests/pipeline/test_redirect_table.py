"""Episodes and their phases: equal to the live summary's; loops, brokers and actions by rule."""

import random

import pytest
from campaigns import as_many, campaign, chance
from frames import Row, action_frame, frame, only, part_of, rows_by
from pyspark.sql import SparkSession
from rows import rows_of

from kipctl.measure.client_totals import met_in
from kipctl.pipeline.redirects import episodes, failed_batches, redirect_table
from kipctl.trace.codes import PHASES, Decision

pytestmark = pytest.mark.spark

ZERO: Row = {f"{phase}_us": 0 for phase in PHASES}
REFUSED: Row = {**ZERO, "api": "produce", "error": 6, "decision": "absent", "records": 1}


@campaign
def test_the_counts_and_percentiles_are_those_of_the_live_summary(spark: SparkSession) -> None:
    raw, exported = random_runs("failed batches")
    table = (
        frame(spark, "redirects", exported)
        .transform(failed_batches, action_frame(spark, []))
        .transform(episodes)
        .transform(redirect_table)
    )
    for run, row in rows_by(table, "run").items():
        live = met_in(rows_of("redirects", *raw.pop(run))).redirects
        assert row["episodes"] == live["batches"] > 100
        assert row["errors"] == live["errors"]
        assert row["appended_then_failed"] == live["appended_then_failed"] > 0
        assert row["same_epoch_retries"] == live["same_epoch_retries"] > 0
        for hint, count in live["hints"].items():
            assert row[f"hints_{hint}"] == count > 0, hint
        for name, shown in {**live["phases_ms"], "client_share": live["client_share_ms"]}.items():
            for measure, ms in shown.items():
                assert row[f"{name}_{measure}_us"] / 1000 == ms, (name, measure)
    assert not raw


def random_failures(choose: random.Random, seq: int) -> list[dict[str, int]]:
    """The rows that a probe writes of one batch."""
    rows = []
    attempts = choose.randint(1, 4)
    generation = choose.choice([0, 0, 0, 1])
    for attempt in range(1, attempts + 1):
        error = choose.choice([6, 6, 6, 74, 13])
        epoch = choose.randint(-1, 4)
        generation = choose.choice([generation] * 9 + [0, 2])  # ids of lagging brokers come again
        went_on = attempt < attempts or choose.random() < 0.9
        to_epoch = choose.randint(-1, 5) if went_on else -1
        decision = (
            choose.choice([d for d in Decision if d is not Decision.NOT_APPLICABLE])
            if error != 13
            else Decision.NOT_APPLICABLE
        )
        rows.append(
            {
                "topic": seq % 2,
                "partition": seq % 3,
                "first_seq": seq // 6,
                "records": choose.randint(1, 20),
                "attempt": attempt,
                "error": error,
                "error_us": choose.randrange(10**6),
                "from_broker": choose.randint(1, 3),
                "from_epoch": epoch,
                "base_offset": choose.choice([-1, -1, 0, 17]),
                "hint_leader": choose.randint(-1, 3),
                "hint_epoch": choose.randint(-1, 5),
                "decision": int(decision),
                "to_broker": choose.randint(1, 3) if went_on else -1,
                "to_epoch": to_epoch,
                **{
                    f"{phase}_us": choose.choice([0, 5, choose.randrange(10**5)])
                    for phase in PHASES
                },
                "same_epoch_retry": went_on and to_epoch <= epoch,
                "topic_generation": generation,
            }
        )
    return rows


def random_runs(what: str) -> tuple[dict[str, list[dict[str, int]]], list[Row]]:
    """The rows that a probe writes, by run, and those of all as they are exported."""
    choose = chance(what)
    raw = {
        f"run {number}": [row for seq in range(300) for row in random_failures(choose, seq)]
        for number in range(as_many(2, 40))
    }
    return raw, [as_exported(row) | {"run": run} for run, rows in raw.items() for row in rows]


def as_exported(raw: dict[str, int]) -> Row:
    """As `kipctl.measure.export` writes it: names, and null for none."""
    nullable = ("to_broker", "to_epoch", "hint_leader", "hint_epoch", "base_offset")
    row: Row = {name: value for name, value in raw.items() if name != "same_epoch_retry"}
    row |= {name: None for name in nullable if raw[name] == -1}
    row |= {"api": "produce", "topic": f"t{raw['topic']}"}
    return row | {"decision": Decision(raw["decision"]).name.lower()}


def tries(*rows: tuple[int, int, int], then: int | None, then_epoch: int = 9) -> list[Row]:
    """A batch's rows: (broker, epoch, error) of each failed attempt; `then` is its last try."""
    brokers = [broker for broker, _, _ in rows[1:]] + [then]
    epochs = [epoch for _, epoch, _ in rows[1:]] + [then_epoch]
    return [
        {
            "attempt": number,
            "from_broker": broker,
            "from_epoch": epoch,
            "error": error,
            "to_broker": to_broker,
            "to_epoch": to_epoch,
            "error_us": 100 * number,
        }
        for number, ((broker, epoch, error), to_broker, to_epoch) in enumerate(
            zip(rows, brokers, epochs, strict=True), 1
        )
    ]


CASES: dict[str, tuple[list[Row], Row]] = {
    "one hop": (
        tries((1, 4, 6), then=2),
        {"brokers": "1->2", "looped": False, "attempts": 2, "errors": 1},
    ),
    "two hops": (
        tries((1, 4, 6), (2, 5, 6), then=3),
        {"brokers": "1->3", "looped": False, "attempts": 3, "errors": 2},
    ),
    "back to the first, which takes it": (
        tries((1, 4, 6), (2, 5, 6), then=1),
        {"brokers": "1->1", "looped": True, "attempts": 3},
    ),
    "back to the first, which refuses again": (
        tries((1, 4, 6), (2, 5, 74), (1, 4, 6), then=2),
        {"brokers": "1->2", "looped": True, "errors": 3, "attempts": 4},
    ),
    "back to a leader elected anew, by way of another": (
        tries((1, 4, 6), (2, 5, 6), (1, 6, 13), then=1),
        {"looped": True, "errors": 2, "other_errors": 1},
    ),
    "the same again, which is ready now": (
        tries((1, 4, 6), (2, 5, 6), then=2, then_epoch=5),
        {"brokers": "1->2", "looped": False, "same_epoch_retries": 1},
    ),
    "the same again at one epoch, and not ready yet": (
        tries((1, 4, 6), (2, 5, 6), (2, 5, 6), then=2, then_epoch=5),
        {"brokers": "1->2", "looped": True, "same_epoch_retries": 2},
    ),
    "the same again, which was elected anew": (
        tries((1, 4, 6), (1, 5, 6), then=2),
        {"brokers": "1->2", "looped": False, "same_epoch_retries": 0},
    ),
    "the same again without any epoch known": (
        tries((1, -1, 6), (1, -1, 6), then=2),
        {"looped": True},
    ),
    "a lost connection, and again": (
        tries((1, 4, 13), (1, 4, 6), then=2),
        {"brokers": "1->2", "looped": False, "errors": 1, "other_errors": 1},
    ),
    "away from a lost connection and back: nobody refused there": (
        tries((1, 4, 13), (2, 5, 6), then=1),
        {"brokers": "2->1", "looped": False},
    ),
    "given up": (
        tries((1, 4, 6), then=None),
        {"brokers": "1->-", "looped": False, "attempts": 1},
    ),
    "never refused": (tries((1, 4, 13), then=1), {"errors": 0, "brokers": "-->-"}),
}


def test_brokers_attempts_and_loops(spark: SparkSession) -> None:
    rows = [row | {"topic": name} for name, (attempts, _) in CASES.items() for row in attempts]
    random.Random(1).shuffle(rows)
    failed = frame(spark, "redirects", rows, **{**REFUSED, "error": 6}).transform(
        failed_batches, action_frame(spark, [])
    )
    by_topic = rows_by(failed, "topic")
    assert {name: part_of(by_topic[name], expected) for name, (_, expected) in CASES.items()} == {
        name: expected for name, (_, expected) in CASES.items()
    }
    row = only(failed.transform(episodes).transform(redirect_table))
    looped = [case for case, (_, expected) in CASES.items() if expected.get("looped")]
    assert row["loops"] == len(looped)
    assert row["longest_loop"] == 3
    assert row["episodes"] == len(CASES) - 1


def test_an_episode_belongs_to_the_last_action_before_its_first_error(spark: SparkSession) -> None:
    actions = action_frame(
        spark,
        [
            {"number": 1, "action": "rotate", "called_us": 1000},
            {"number": 2, "action": "elect", "called_us": 2000},
            {"run": "other", "number": 1, "action": "restart:2", "called_us": 10},
        ],
    )
    first_errors = {1: 999, 2: 1000, 3: 1999, 4: 2000, 5: 10**9}
    rows = [
        {"first_seq": seq, "attempt": attempt, "error_us": error_us + 5000 * (attempt - 1)}
        for seq, error_us in first_errors.items()
        for attempt in (1, 2)
    ]
    rows.append({"run": "other", "first_seq": 1, "attempt": 1, "error_us": 999})
    failed = frame(spark, "redirects", rows, **REFUSED, from_broker=1, from_epoch=1).transform(
        failed_batches, actions
    )
    by_batch = {
        key: (row["number"], row["action"])
        for key, row in rows_by(failed, "run", "first_seq").items()
    }
    assert by_batch == {
        ("r", 1): (0, "-"),
        ("r", 2): (1, "rotate"),
        ("r", 3): (1, "rotate"),
        ("r", 4): (2, "elect"),
        ("r", 5): (2, "elect"),
        ("other", 1): (1, "restart:2"),
    }
    by_action = rows_by(redirect_table(failed, ["run", "action"]), "run", "number", "action")
    assert {key: row["episodes"] for key, row in by_action.items()} == {
        ("r", 0, "-"): 1,
        ("r", 1, "rotate"): 2,
        ("r", 2, "elect"): 2,
        ("other", 1, "restart:2"): 1,
    }


def test_phases_are_of_the_whole_batch_and_add_up_to_its_latency(spark: SparkSession) -> None:
    rows = [
        {"first_seq": 1, "attempt": 1, "error": 13, "backoff_us": 50, "detect_us": 7},
        {"first_seq": 1, "attempt": 2, "metadata_us": 20, "acknowledge_us": 3},
        {"first_seq": 2, "attempt": 1, "backoff_us": 5, "queued_us": 1000},
        {"first_seq": 3, "attempt": 1, "error": 13, "backoff_us": 10**6},
    ]
    table = (
        frame(spark, "redirects", rows, **{**REFUSED, "from_broker": 1, "from_epoch": 1})
        .transform(failed_batches, action_frame(spark, []))
        .transform(episodes)
        .transform(redirect_table)
    )
    expected = {
        "episodes": 2,
        "backoff_p50_us": 5,
        "backoff_p99_us": 50,
        "backoff_sum_us": 55,
        "metadata_p50_us": 0,
        "metadata_sum_us": 20,
        "client_share_p50_us": 5,
        "client_share_p99_us": 70,
        "client_share_sum_us": 75,
        "latency_p50_us": 80,
        "latency_max_us": 1005,
    }
    assert part_of(only(table), expected) == expected


def test_without_redirects_there_is_no_row(spark: SparkSession) -> None:
    failed = frame(spark, "redirects", []).transform(failed_batches, action_frame(spark, []))
    assert failed.transform(episodes).transform(redirect_table).collect() == []
