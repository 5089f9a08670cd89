"""The table of moves: equal to the live summary's, by rule and by period."""

import random

import pytest
from frames import frame, only
from pyspark.sql import SparkSession
from rows import rows_of
from test_redirect_table import as_exported, random_failures

from kipctl.measure.moves import moves as live_moves
from kipctl.measure.moves import moves_document
from kipctl.pipeline.moves import move_table, moves

pytestmark = pytest.mark.spark


def test_the_numbers_are_those_of_the_live_summary(spark: SparkSession) -> None:
    for seed in range(3):
        choose = random.Random(seed)
        raw = [row for seq in range(300) for row in random_failures(choose, seq)]
        live = moves_document([live_moves(rows_of("redirects", *raw))])
        traced = frame(spark, "redirects", map(as_exported, raw))
        row = only(traced.transform(moves).transform(move_table))
        assert row["moves"] == live["met"] > 20
        assert row["not_ready"] == live["not_ready"] > 0
        for name, count in live["by_wait"].items():
            assert row[name] == count, name
        for name, ms in live["wait_ms"].items():
            assert row[f"wait_{name}_us"] / 1000 == ms, name
