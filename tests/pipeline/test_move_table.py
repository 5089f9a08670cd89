"""The table of moves: equal to the live summary's, by rule and by period."""

import random
from collections.abc import Iterator

import numpy as np
import pytest
from campaigns import campaign
from frames import frame, rows_by
from pyspark.sql import DataFrame, SparkSession
from rows import rows_of
from test_redirect_table import as_exported, random_failures, random_runs

from kipctl.measure.moves import moves as live_moves
from kipctl.measure.moves import moves_document
from kipctl.pipeline.moves import move_table, moves
from kipctl.trace.rows import IntRows

pytestmark = pytest.mark.spark


@campaign
def test_the_numbers_are_those_of_the_live_summary(spark: SparkSession) -> None:
    raw, exported = random_runs("moves")
    traced = frame(spark, "redirects", exported)
    for run, row in rows_by(traced.transform(moves).transform(move_table), "run").items():
        live = moves_document([live_moves(rows_of("redirects", *raw.pop(run)))])
        assert row["moves"] == live["met"] > 20
        assert row["not_ready"] == live["not_ready"] > 0
        for name, count in live["by_wait"].items():
            assert row[name] == count, name
        for name, ms in live["wait_ms"].items():
            assert row[f"wait_{name}_us"] / 1000 == ms, name
    assert not raw


def fetch_failures(choose: random.Random, partition: int, now_us: int) -> Iterator[dict[str, int]]:
    """Rows of a consumer of one partition: Fetches from the same offsets fail again and again."""
    for episode in range(40):
        for row in random_failures(choose, 0):
            now_us += choose.randint(1, 50_000)
            same = {"topic": 0, "partition": partition, "first_seq": episode // 3}
            yield row | same | {"error_us": now_us}


def test_each_client_and_each_of_its_apis_meets_its_own_moves(spark: SparkSession) -> None:
    """Two workers of a run end to end, each with partitions of its own: as live, put together."""
    choose = random.Random(7)
    live: dict[str, list[IntRows]] = {"produce": [], "fetch": []}
    traced: DataFrame | None = None
    for worker in range(2):
        produced = [
            row | {"partition": 2 * row["partition"] + worker}
            for seq in range(200)
            for row in random_failures(choose, seq)
        ]
        fetched = [
            row
            for partition in (worker, 2 + worker)
            for row in fetch_failures(choose, partition, partition)
        ]
        for api, raw in (("produce", produced), ("fetch", fetched)):
            live[api].append(rows_of("redirects", *raw))
            rows = [as_exported(row) | {"api": api} for row in raw]
            redirects = frame(spark, "redirects", rows, client=f"kipctl-{worker}")
            traced = redirects if traced is None else traced.unionAll(redirects)
    assert traced is not None
    of_api = rows_by(traced.transform(moves).transform(move_table), "run", "arm", "api")
    for api, parts in live.items():
        document = moves_document([live_moves(np.concatenate(parts))])
        row = of_api["r", "kip951", api]
        assert (row["moves"], row["not_ready"]) == (document["met"], document["not_ready"])
        assert [row[name] for name in document["by_wait"]] == list(document["by_wait"].values())
        assert row["wait_max_us"] / 1000 == document["wait_ms"]["max"]
        assert document["met"] > 8
    # Of both APIs together nothing is lost, and nothing is one that two clients met.
    of_clients = rows_by(traced.transform(moves).transform(move_table, ("client",)), "client")
    assert sum(row["moves"] for row in of_clients.values()) == sum(
        row["moves"] for row in of_api.values()
    )
