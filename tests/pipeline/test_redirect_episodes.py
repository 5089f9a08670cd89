"""Episodes from the sequence of one client's requests: where they begin and end, and what of it."""

import random

import pytest
from frames import Row, of_schema, part_of, rows_by
from pyspark.sql import SparkSession

from kipctl.pipeline.redirect_episodes import ATTEMPTS, episodes

pytestmark = pytest.mark.spark

MS = 1000
TICK_US = 100
"""All times of random attempts are multiples of it."""


def asked(
    broker: int | None, sent_ms: float, took_ms: float, error: int = 0, **more: object
) -> Row:
    """One attempt, sent and answered then."""
    sent_us = round(sent_ms * MS)
    answered = {"received_us": sent_us + round(took_ms * MS)}
    return {"broker": broker, "sent_us": sent_us, "error": error, **answered, **more}


def hinted(leader: int) -> Row:
    return {"hint_leader": leader}


ONE_HOP: list[Row] = [
    asked(1, 0, 1),
    asked(1, 10, 2, error=6),
    asked(2, 112, 3),
    asked(2, 120, 1),
]
CASES: dict[str, tuple[list[Row], list[Row]]] = {
    "never refused": ([asked(1, 0, 1), asked(2, 5, 1, error=3), asked(2, 9, 1)], []),
    "one hop": (
        ONE_HOP,
        [
            {
                "first_error_us": 12 * MS,
                "ended_us": 115 * MS,
                "attempts": 2,
                "errors": 1,
                "other_errors": 0,
                "duration_us": 103 * MS,
                "wait_us": 100 * MS,
                "answer_us": 3 * MS,
                "brokers": "1->2",
                "visited": 2,
                "looped": False,
                "hints_present": 0,
                "hints_reached": 0,
                "hints_used": 0,
                "appended_then_failed": 0,
            }
        ],
    ),
    "a leader that does not know yet": (
        [asked(1, 0, 2, error=74), asked(2, 4, 5, error=6), asked(3, 29, 1)],
        [{"errors": 2, "wait_us": 22 * MS, "answer_us": 6 * MS, "looped": False, "visited": 3}],
    ),
    "refused twice by the same": (
        [asked(1, 0, 2, error=6), asked(1, 102, 2, error=6), asked(2, 204, 1)],
        [{"errors": 2, "looped": True, "brokers": "1->2", "duration_us": 203 * MS}],
    ),
    "not ready, asked again, and then it was": (
        [asked(1, 0, 2, error=6), asked(2, 4, 2, error=6), asked(2, 106, 1)],
        [{"errors": 2, "looped": False}],
    ),
    "back to the first": (
        [asked(1, 0, 2, error=6), asked(2, 4, 2, error=6), asked(1, 8, 1)],
        [{"errors": 2, "looped": True, "brokers": "1->1", "visited": 2}],
    ),
    "several were under way: no reactions, no loop": (
        [
            asked(1, 0, 3, error=6),
            asked(1, 1, 3, error=6),
            asked(1, 2, 3, error=6),
            asked(2, 6, 4, error=6),
            asked(2, 6.5, 4, error=6),
            asked(3, 12, 1),
        ],
        [{"attempts": 6, "errors": 5, "looped": False, "wait_us": 2500, "duration_us": 10 * MS}],
    ),
    "one under way is overtaken by another": (
        [asked(1, 0, 10, error=6), asked(2, 12, 38), asked(3, 30, 10, error=6)],
        [{"wait_us": 2 * MS, "answer_us": 38 * MS, "duration_us": 40 * MS, "errors": 2}],
    ),
    "one under way is answered after the end": (
        [asked(1, 0, 10, error=6), asked(2, 12, 48), asked(2, 30, 10), asked(2, 90, 1)],
        [{"wait_us": 2 * MS, "answer_us": 28 * MS, "duration_us": 30 * MS, "attempts": 2}],
    ),
    "two errors at the very same time": (
        [asked(1, 0, 2, error=6), asked(1, 0, 2, error=7), asked(2, 10, 1)],
        [{"wait_us": 8 * MS, "answer_us": 1 * MS, "errors": 1, "other_errors": 0}],
    ),
    "the same line twice": (
        [asked(1, 0, 2, error=6), asked(1, 0, 2, error=6), asked(2, 10, 1), asked(2, 10, 1)],
        [{"wait_us": 8 * MS, "answer_us": 1 * MS}],
    ),
    "brokers that are not known": (
        [asked(None, 0, 2, error=6), asked(None, 5, 2, error=6), asked(None, 9, 1)],
        [{"errors": 2, "looped": False, "visited": 0, "brokers": "-->-"}],
    ),
    "answers of no duration, at one time": (
        [asked(2, 5, 0), asked(1, 5, 0, error=6)],
        [{"looped": False, "brokers": "1->2", "attempts": 2, "duration_us": 0}],
    ),
    "two episodes": (
        [*ONE_HOP, asked(2, 200, 1, error=6), asked(1, 205, 1)],
        [{"brokers": "1->2", "duration_us": 103 * MS}, {"brokers": "2->1", "duration_us": 5 * MS}],
    ),
    "lost on the way, and the end not seen": (
        [
            asked(1, 0, 2, error=6),
            {"broker": 2, "sent_us": 4 * MS, "received_us": None, "error": 13},
            # acks=0 has no answer: nobody knows whether it was a success.
            {"broker": 2, "sent_us": 6 * MS, "received_us": None, "error": 0},
        ],
        [
            {
                "attempts": 3,
                "errors": 1,
                "other_errors": 2,
                "ended_us": None,
                "duration_us": None,
                "answer_us": None,
                "wait_us": 4 * MS,
            }
        ],
    ),
    "an error before the first refusal is not of it": (
        [asked(1, 0, 1, error=7), asked(1, 5, 1, error=6), asked(2, 8, 1)],
        [{"attempts": 2, "other_errors": 0, "first_error_us": 6 * MS}],
    ),
    "appended, then failed": (
        [asked(1, 0, 70, error=6, base_offset=0), asked(2, 71, 1)],
        [{"appended_then_failed": 1}],
    ),
    "hint used": (
        [asked(1, 0, 2, error=6, **hinted(2)), asked(2, 12, 1)],
        [{"hints_present": 1, "hints_reached": 1, "hints_used": 1}],
    ),
    "there, but later: its own Metadata may have told it": (
        [asked(1, 0, 2, error=6, **hinted(2)), asked(2, 12.001, 1)],
        [{"hints_present": 1, "hints_reached": 1, "hints_used": 0}],
    ),
    "hint not followed": (
        [asked(1, 0, 2, error=6, **hinted(2)), asked(3, 3, 1)],
        [{"hints_present": 1, "hints_reached": 0, "hints_used": 0}],
    ),
    "no leader in the hint": (
        [asked(1, 0, 2, error=6, **hinted(-1)), asked(2, 3, 1)],
        [{"hints_present": 0, "hints_used": 0}],
    ),
    "each hint by the first attempt after it": (
        [
            asked(1, 0, 3, error=6, **hinted(2)),
            asked(1, 1, 3, error=6, **hinted(2)),
            asked(2, 5, 1, error=6, **hinted(3)),
            asked(2, 5.5, 9),
            asked(3, 8, 10),
        ],
        [{"hints_present": 3, "hints_reached": 3, "hints_used": 3}],
    ),
    "a hint that nothing came of": (
        [asked(1, 0, 3, error=6, **hinted(2))],
        [{"hints_present": 1, "hints_reached": 0, "ended_us": None, "brokers": "1->1"}],
    ),
}


def test_episodes_are_what_lies_between_a_refusal_and_the_next_success(
    spark: SparkSession,
) -> None:
    rows = [{"client": name, **row} for name, (attempts, _) in CASES.items() for row in attempts]
    random.Random(6).shuffle(rows)
    frame = episodes(of_schema(spark, ATTEMPTS, rows, api_key=0)).cache()
    found: dict[str, list[Row]] = {name: [] for name in CASES}
    for key, row in sorted(rows_by(frame, "client", "first_error_us").items()):
        found[key[0]].append(row | {"first_error_us": key[1]})
    for name, (_, expected) in CASES.items():
        assert len(found[name]) == len(expected), name
        shown = [part_of(row, of) for row, of in zip(found[name], expected, strict=True)]
        assert shown == expected, name
        for row in found[name]:
            assert row["wait_us"] >= 0
            assert row["duration_us"] is None or row["answer_us"] >= 0
    every = [row for rows in found.values() for row in rows]
    assert sum(row["ended_us"] is None for row in every) == 2
    assert sum(row["looped"] for row in every) == 2
    frame.unpersist()


def test_partitions_clients_apis_and_clusters_are_sequences_of_their_own(
    spark: SparkSession,
) -> None:
    """Another's success ends no episode, another's refusal begins none."""
    others: list[Row] = [
        {"partition": 1},
        {"topic": "u"},
        {"client": "d"},
        {"api_key": 1},
        {"cluster": "other"},
    ]
    rows = [asked(1, 0, 2, error=6), asked(2, 100, 2)]
    rows += [asked(3, 50, 1) | other for other in others]
    found = rows_by(episodes(of_schema(spark, ATTEMPTS, rows, api_key=0)), "cluster", "client")
    assert {key: row["duration_us"] for key, row in found.items()} == {(None, "c"): 100 * MS}
    [row] = found.values()
    assert (row["attempts"], row["brokers"]) == (2, "1->2")


def random_attempts(choose: random.Random, times: list[int]) -> list[Row]:
    """Requests of which several may be under way at a time; no two moments are the same."""
    rows: list[Row] = []
    for _ in range(choose.randint(3, 14)):
        span = choose.choice([1, 2, 5, 30])
        start = choose.randrange(len(times) - span)
        sent_us, received_us = times.pop(start), times.pop(start + span - 1)
        error = choose.choice([0, 0, 6, 6, 74, 7])
        lost = error == 7 and choose.random() < 0.5
        rows.append(
            {
                "broker": choose.choice([1, 2, 3]),
                "sent_us": sent_us,
                "received_us": None if lost else received_us,
                "error": error,
                "hint_leader": choose.choice([None, -1, 1, 2]) if error in (6, 74) else None,
            }
        )
    return rows


def answered(row: Row) -> int:
    return int(row["sent_us"] if row["received_us"] is None else row["received_us"])


def one_by_one(rows: list[Row]) -> list[Row]:
    """The episodes of one partition, by walking through its attempts."""
    found: list[Row] = []
    current: list[Row] = []
    for row in sorted(rows, key=answered):
        if current or row["error"] in (6, 74):
            current.append(row)
        if current and row["error"] == 0:
            found.append(episode_of(current, rows))
            current = []
    return [*found, episode_of(current, rows)] if current else found


def episode_of(episode: list[Row], rows: list[Row]) -> Row:
    refusals = [row for row in episode if row["error"] in (6, 74)]
    hints = [row for row in refusals if (row["hint_leader"] or -1) >= 0]
    reached = used = 0
    for row in hints:
        later = [other for other in rows if other["sent_us"] > answered(row)]
        following = min(later, key=lambda other: int(other["sent_us"]), default=None)
        if following and following["broker"] == row["hint_leader"]:
            reached += 1
            used += following["sent_us"] - answered(row) <= 10 * MS
    first_us = answered(episode[0])
    last_us = answered(episode[-1])
    ended = episode[-1]["error"] == 0
    wait_us = idle_us(rows, first_us, last_us)
    return {
        "first_error_us": first_us,
        "attempts": len(episode),
        "errors": len(refusals),
        "hints_present": len(hints),
        "hints_reached": reached,
        "hints_used": used,
        "wait_us": wait_us,
        "answer_us": last_us - first_us - wait_us if ended else None,
        "duration_us": last_us - first_us if ended else None,
        "looped": loops(episode, refusals, first_us),
    }


def idle_us(rows: list[Row], from_us: int, to_us: int) -> int:
    """In how much of this time no attempt was under way, by striking out when one was."""
    idle = set(range(from_us, to_us, TICK_US))
    for row in rows:
        idle.difference_update(range(row["sent_us"], answered(row), TICK_US))
    return len(idle) * TICK_US


def loops(episode: list[Row], refusals: list[Row], first_us: int) -> bool:
    reactions = [row for row in episode if row["sent_us"] >= first_us]
    at: int | None = None
    arrived_us: int | None = None
    for row in sorted(reactions, key=lambda row: int(row["sent_us"])):
        if at is not None and row["broker"] != at:
            arrived_us = row["sent_us"]
        at = row["broker"]
        refused_us = [answered(other) for other in refusals if other["broker"] == at]
        if arrived_us is not None and any(time <= arrived_us for time in refused_us):
            return True
        if row in refusals and any(time <= row["sent_us"] for time in refused_us):
            return True
    return False


def rows_of(rows: list[Row], client: str) -> list[Row]:
    return sorted((row for row in rows if row["client"] == client), key=answered)


def test_episodes_are_those_found_by_walking_through_the_attempts(spark: SparkSession) -> None:
    expected: dict[str, list[Row]] = {}
    rows: list[Row] = []
    for seed in range(150):
        choose = random.Random(seed)
        step_us = choose.choice([TICK_US, 40 * TICK_US])
        attempts = random_attempts(choose, [at * step_us for at in range(60)])
        expected[f"client {seed}"] = one_by_one(attempts)
        rows += [{"client": f"client {seed}", **row} for row in attempts]
    random.Random(7).shuffle(rows)
    found: dict[str, list[Row]] = {name: [] for name in expected}
    frame = episodes(of_schema(spark, ATTEMPTS, rows, api_key=0))
    for (name, at_us), row in sorted(rows_by(frame, "client", "first_error_us").items()):
        [of_time] = [row for row in expected[name] if row["first_error_us"] == at_us] or [{}]
        found[name].append(part_of(row | {"first_error_us": at_us}, of_time))
    for name, of_client in expected.items():
        assert found[name] == of_client, rows_of(rows, name)
    every = [row for rows in expected.values() for row in rows]
    assert sum(row["looped"] for row in every) > 20
    assert sum(row["hints_used"] for row in every) > 5
    assert sum(row["hints_reached"] > row["hints_used"] for row in every) > 5
