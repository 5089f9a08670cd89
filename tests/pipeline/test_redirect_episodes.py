"""Episodes in SQL: where they begin, what is wrong with hints; and that they are `Episode`'s."""

import random
from typing import Any

import pytest
from frames import Row, of_schema, part_of, rows_by
from pyspark.sql import SparkSession

from kipctl.client_behaviour.episode import BACKOFF_US, PAUSE_US, Episode, Hint, HintFault, Outcome
from kipctl.pipeline.redirect_episodes import ATTEMPTS, episodes

pytestmark = pytest.mark.spark

MS = 1000
METADATA = 3


def asked(broker: int | None, sent_ms: float, took_ms: float, error: int = 0, **more: Any) -> Row:
    """One attempt, sent and answered then, on the broker's connection."""
    sent_us = round(sent_ms * MS)
    answered = {"received_us": sent_us + round(took_ms * MS), "connection": f"to {broker}"}
    return {"broker": broker, "sent_us": sent_us, "error": error, **answered, **more}


def hint(leader: int, epoch: int, fault: str | None = None) -> Row:
    return {"hint_leader": leader, "hint_epoch": epoch, "hint_fault": fault}


def shown(leader: int, epoch: int, at_ms: float) -> Row:
    """Metadata that names a leader."""
    return asked(9, at_ms - 1, 1, api_key=METADATA, **hint(leader, epoch))


FOLLOWED = Outcome.FOLLOWED.value
NOT_HINTED = Outcome.NOT_HINTED.value
CASES: dict[str, tuple[list[Row], list[Row]]] = {
    "never refused": ([asked(1, 0, 1), asked(2, 5, 1, error=3), asked(2, 9, 1)], []),
    "two episodes": (
        [
            asked(1, 10, 2, 6, **hint(2, 6)),
            asked(2, 14, 3),
            asked(2, 200, 1, 74, base_offset=0),
            asked(1, 303, 1),
        ],
        [
            {
                "first_error_us": 12 * MS,
                "ended_us": 17 * MS,
                "errors": 1,
                "hints": 1,
                "outcome": FOLLOWED,
                "faults": [],
                "reaction_us": 2 * MS,
                "wait_us": 2 * MS,
                "brokers": "1->2",
                "looped": False,
                "appended_then_failed": 0,
            },
            {
                "outcome": NOT_HINTED,
                "reaction_us": 102 * MS,
                "appended_then_failed": 1,
                "brokers": "2->1",
            },
        ],
    ),
    "refusals of what was under way begin no episode of their own": (
        [
            *(asked(1, at, 1, 6, **hint(2, 6)) for at in range(5)),
            asked(2, 2.5, 0.1),
            # It comes back, much later.
            asked(1, 100, 1, 6, **hint(2, 6)),
            asked(2, 103, 1),
        ],
        [{"errors": 2, "reaction_us": MS // 2}, {"errors": 1, "reaction_us": 2 * MS}],
    ),
    "a client that stalled sends on, and then reads both refusals": (
        [
            asked(1, 0, 1, 6, **hint(2, 6)),
            asked(1, 60, 1, 6, **hint(2, 6)),
            asked(2, 64, 1),
        ],
        [{"outcome": FOLLOWED, "reaction_us": 3 * MS, "wait_us": 63 * MS}],
    ),
    "a client that was sent back, and went on by Metadata": (
        [
            asked(1, 0, 1, 6, **hint(2, 6)),
            asked(1, 60, 1, 6, **hint(2, 6)),
            shown(2, 6, 62),
            asked(2, 64, 1),
        ],
        [{"outcome": Outcome.SENT_BACK.value, "reaction_us": 3 * MS}],
    ),
    "the wait is until it went to the one that took it": (
        [
            asked(1, 0, 1, 6, **hint(2, 6)),
            asked(2, 3, 1, 6, **hint(3, 7)),
            asked(3, 8, 1, 6),
            asked(3, 109, 1),
        ],
        [{"outcome": FOLLOWED, "reaction_us": 2 * MS, "wait_us": 7 * MS, "brokers": "1->3"}],
    ),
    "neither the end nor a reaction is seen": (
        [asked(1, 0, 1, 6, **hint(2, 6)), {"broker": 1, "sent_us": 5 * MS, "error": 0}],
        [{"outcome": Outcome.UNSEEN.value, "ended_us": None, "last_us": 5 * MS, "wait_us": None}],
    ),
    "older than Metadata showed": (
        [shown(2, 7, 0), asked(1, 1, 1, 6, **hint(3, 6)), asked(3, 4, 1)],
        [{"outcome": NOT_HINTED, "faults": [HintFault.OLDER.value]}],
    ),
    "another leader at the epoch that a hint had": (
        [asked(1, 0, 1, 6, **hint(2, 7)), asked(2, 2, 1, 6, **hint(3, 7)), asked(2, 60, 1)],
        [{"outcome": FOLLOWED, "faults": []}],
    ),
    "another leader at the epoch that Metadata showed": (
        [shown(2, 7, 0), asked(1, 1, 1, 6, **hint(3, 7)), asked(3, 4, 1)],
        [{"outcome": NOT_HINTED, "faults": [HintFault.SAME_EPOCH.value]}],
    ),
    "what Metadata showed already": (
        [shown(2, 7, 0), asked(1, 1, 1, 6, **hint(2, 7)), asked(2, 4, 1)],
        [{"outcome": FOLLOWED, "faults": []}],
    ),
    "Metadata of another partition": (
        [shown(2, 9, 0) | {"partition": 1}, asked(1, 1, 1, 6, **hint(2, 7)), asked(2, 4, 1)],
        [{"outcome": FOLLOWED, "faults": []}],
    ),
    "the reaction stood behind another request of its connection": (
        [
            asked(1, 0, 1, 6, **hint(2, 6)),
            asked(2, 90, 1, free_us=89 * MS),
            asked(2, 200, 1, 6, **hint(1, 7)),
            asked(1, 300, 1, free_us=1 * MS),
        ],
        [{"was_behind": True, "outcome": FOLLOWED}, {"was_behind": False, "outcome": FOLLOWED}],
    ),
    "another leader at the epoch of an episode before": (
        [
            asked(1, 0, 1, 6, **hint(2, 7)),
            asked(2, 4, 1),
            asked(2, 99, 1, 6, **hint(3, 7)),
            asked(3, 102, 1),
        ],
        [{"outcome": FOLLOWED}, {"outcome": FOLLOWED}],
    ),
    "brokers that are not known": (
        [asked(1, 0, 1, 6, **hint(2, 7)), asked(None, 2, 1)],
        [{"outcome": None, "reaction_us": None, "wait_us": None, "hints": 1, "brokers": "1->-"}],
    ),
}


def found_by_client(spark: SparkSession, rows: list[Row]) -> dict[str, list[Row]]:
    random.Random(6).shuffle(rows)
    by_client: dict[str, list[Row]] = {}
    frame = episodes(of_schema(spark, ATTEMPTS, rows))
    for key, row in sorted(rows_by(frame, "client", "first_error_us").items()):
        by_client.setdefault(key[0], []).append(row | {"first_error_us": key[1]})
    return by_client


def test_episodes_by_table(spark: SparkSession) -> None:
    rows = [
        {"api_key": 0, "client": name, **row} for name, (given, _) in CASES.items() for row in given
    ]
    by_client = found_by_client(spark, rows)
    for name, (_, expected) in CASES.items():
        episodes_of = by_client.get(name, [])
        assert len(episodes_of) == len(expected), name
        shown_of = [part_of(row, part) for row, part in zip(episodes_of, expected, strict=True)]
        assert shown_of == expected, name


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
    by_client = rows_by(
        episodes(of_schema(spark, ATTEMPTS, [{"api_key": 0} | row for row in rows])),
        "cluster",
        "client",
    )
    assert {key: row["ended_us"] for key, row in by_client.items()} == {(None, "c"): 102 * MS}


def random_attempts(choose: random.Random) -> list[Row]:
    """What a client may do, and more; no two moments are the same."""
    step = choose.choice([1, 6, 30])
    times = iter(choose.sample(range(0, 400 * step, step), 200))
    rows: list[Row] = []
    for _ in range(choose.randint(3, 40)):
        sent_ms, answered_ms = sorted((next(times), next(times)))
        if choose.random() < 0.15:
            rows.append(shown(choose.choice([1, 2, 3]), choose.randint(4, 8), answered_ms))
            continue
        broker = choose.choice([1, 1, 2, 3])
        took_ms = min(answered_ms - sent_ms, choose.choice([step, 40 * step])) - 0.5
        error = choose.choice([0, 6, 6, 6, 74, 7]) if choose.random() < 0.8 else 6
        row = asked(broker, answered_ms - took_ms, took_ms, error)
        if choose.random() < 0.3:
            row["free_us"] = row["sent_us"] - choose.choice([1, 100]) * MS
        if choose.random() < 0.2:
            row["connection"] += ", another"
        if error == 7 and choose.random() < 0.5:
            row["received_us"] = None
        if error in (6, 74) and choose.random() < 0.8:
            leader, epoch = choose.choice([-1, 1, 2, 3]), choose.randint(5, 8)
            is_own = leader == broker
            row |= hint(leader, epoch, HintFault.REFUSER.value if is_own else None)
        rows.append(row)
    if choose.random() < 0.3:
        start = choose.randint(0, 200)
        end = start + choose.randint(50, 200)
        own = hint(1, 5, HintFault.REFUSER.value)
        times_in_row = range(start, end, choose.choice([5, 12, 30]))
        rows += [asked(1, at + 0.01, 0.03, 6, **own) for at in times_in_row]
    return rows


def walked(rows: list[Row]) -> list[Row]:
    """The episodes of one partition, by telling an Episode of one event after the other."""
    events: list[tuple[int, int, Row]] = []
    for row in rows:
        answered_us = row["received_us"]
        if row.get("api_key") == METADATA:
            events.append((answered_us, 1, row))
            continue
        events.append((row["sent_us"], 2, row))
        if row["error"] in (6, 74):
            events.append((row["sent_us"] if answered_us is None else answered_us, 0, row))
        elif row["error"] == 0 and answered_us is not None:
            events.append((answered_us, 3, row))
    events.sort(key=lambda event: event[:2])
    ended: list[Row] = []
    episode: Episode | None = None
    shown_by_metadata: tuple[int, int] | None = None
    known: tuple[int, int] | None = None
    named: set[int] = set()
    refused_us: dict[str, int] = {}

    for number, (at_us, kind, row) in enumerate(events):
        broker, connection = row["broker"], row["connection"]
        if kind == 0:
            if episode is None:
                known = shown_by_metadata
            given = None
            if row.get("hint_leader") is not None and row["hint_leader"] >= 0:
                leader, epoch = row["hint_leader"], row["hint_epoch"]
                fault = HintFault(row["hint_fault"]) if row["hint_fault"] else None
                if fault is None and known and epoch < known[0]:
                    fault = HintFault.OLDER
                elif fault is None and known and epoch == known[0] and leader != known[1]:
                    fault = HintFault.SAME_EPOCH
                given = Hint(leader, epoch, fault)
            in_flight = at_us - refused_us.get(connection, -BACKOFF_US) < BACKOFF_US
            refused_us[connection] = at_us
            if episode is not None:
                episode.refused(broker, connection, at_us, given)
            elif not in_flight:
                episode = Episode.begin(broker, connection, at_us, given)
                named = set()
                taker = next(
                    (later["broker"] for _, of_kind, later in events[number:] if of_kind == 3), None
                )
            if episode is not None:
                episode.is_fenced |= row["error"] == 74
            if (
                given
                and not row["hint_fault"]
                and episode
                and (not known or given.epoch > known[0])
            ):
                known = (given.epoch, given.leader)
        elif kind == 1:
            now_shown = (row["hint_epoch"], row["hint_leader"])
            if shown_by_metadata is None or now_shown[0] > shown_by_metadata[0]:
                shown_by_metadata = now_shown
            if known is None or now_shown[0] > known[0]:
                known = now_shown
            named.add(row["hint_leader"])
            if episode is not None:
                episode.metadata_answered()
        elif kind == 2 and episode is not None:
            free_us = row.get("free_us", -1)
            episode.sent(
                broker,
                connection,
                at_us,
                is_named=broker in named,
                leads=broker == taker,
                was_behind=free_us > episode.last_us and at_us - free_us < PAUSE_US,
            )
        elif kind == 3 and episode is not None:
            ended.append(told(episode, at_us))
            episode = None
    return [*ended, told(episode, None)] if episode is not None else ended


def told(episode: Episode, ended_us: int | None) -> Row:
    return {
        "first_error_us": episode.first_us,
        "ended_us": ended_us,
        "errors": episode.refusals,
        "outcome": episode.outcome.value,
        "faults": {fault.value for fault in episode.faults},
        "looped": episode.is_loop,
        "fenced": episode.is_fenced,
        "not_ready": episode.not_ready,
        "reaction_us": episode.reaction_us,
        "wait_us": episode.wait_us,
    }


def test_episodes_are_those_of_the_rules_on_random_sequences(spark: SparkSession) -> None:
    expected: dict[str, list[Row]] = {}
    rows: list[Row] = []
    for seed in range(300):
        attempts = random_attempts(random.Random(seed))
        expected[f"client {seed}"] = walked(attempts)
        rows += [{"api_key": 0, "client": f"client {seed}", **row} for row in attempts]
    by_client = found_by_client(spark, list(rows))
    for name, of_client in expected.items():
        have = [
            part_of(row, told_of)
            for row, told_of in zip(by_client.get(name, []), of_client, strict=False)
        ]
        have = [row | {"faults": set(row["faults"])} for row in have]
        assert have == of_client, (name, [row for row in rows if row["client"] == name])
        assert len(by_client.get(name, [])) == len(of_client), name
    every = [row for of_client in expected.values() for row in of_client]
    outcomes = {row["outcome"] for row in every}
    assert outcomes == set(Outcome)
    assert sum(row["looped"] for row in every) > 5
    assert {fault for row in every for fault in row["faults"]} >= {
        HintFault.OLDER,
        HintFault.REFUSER,
        HintFault.SAME_EPOCH,
    }
