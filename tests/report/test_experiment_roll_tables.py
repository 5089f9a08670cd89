"""The roll's tables, from runs whose rows are made by hand."""

import numpy as np
import pytest

from kipctl.documents.experiments import RollExperimentDocument
from kipctl.experiments.arms.end_to_end import Written
from kipctl.experiments.arms.figures import Figures
from kipctl.experiments.arms.halves import Records, halves
from kipctl.experiments.arms.names import parse_arms
from kipctl.experiments.arms.restarts import Restart
from kipctl.experiments.roll.experiment import RolledRun, cell_document
from kipctl.experiments.roll.published import published_for
from kipctl.report.experiment_roll_tables import roll_tables
from kipctl.report.tables import Table
from kipctl.trace.columns import COLUMNS

ARMS = parse_arms("probe-baseline,probe-kip951")
EMPTY = {name: np.empty((0, len(columns)), dtype=np.int64) for name, columns in COLUMNS.items()}


def restarts() -> list[Restart]:
    """Three brokers, one every 10 s from second 10 on."""
    return [
        Restart(
            broker,
            controlled=True,
            leaders=34,
            called_us=broker * 10_000_000,
            away_us=broker * 10_000_000 + 250_000,
            ended_us=broker * 10_000_000 + 300_000,
            started_us=broker * 10_000_000 + 3_000_000,
            in_sync_us=broker * 10_000_000 + 4_000_000,
            elected_us=broker * 10_000_000 + 4_000_000,
            back_us=broker * 10_000_000 + 4_100_000,
        )
        for broker in (1, 2, 3)
    ]


def rolled(latency_us: int, failed: int | None = 0) -> RolledRun:
    """A record every 10 ms; each hundredth has the latency, the others 1 ms."""
    written = Written("kipctl 1", "probe", 0, 0, 10_000_000, 0, failed, 40_000_000, {})
    intended = np.arange(0, 38_000_000, 10_000)
    latency = np.where(np.arange(len(intended)) % 50 == 0, latency_us, 1_000)
    records = Records(intended, latency, np.ones(len(intended), dtype=np.int64))
    spans = halves(restarts(), 0)
    figures = Figures(records.in_halves(spans), EMPTY["batches"], EMPTY["redirects"], EMPTY["rpcs"])
    return RolledRun(written, restarts(), spans, records, records, figures, figures)


def tables(runs: dict[str, list[RolledRun]]) -> dict[str, Table]:
    cell = cell_document("1", 100, ARMS, runs)
    published = published_for("1", 100)
    cell["published_rolls"] = [row.as_document("brokers 3 (6)") for row in published]
    document: RollExperimentDocument = {
        "kafka_version": "4.3.1",
        "broker_count": 3,
        "controller_count": 1,
        "restart_count": 3,
        "controlled": True,
        "throughput": 100,
        "record_size": 1000,
        "run_count": len(runs["probe-baseline"]),
        "worker_count": 1,
        "settle_seconds": 5,
        "cells": [cell],
        "differs": ["3 brokers, the KIP's 6"],
    }
    return {table.name: table for table in roll_tables(document)}


def row(table: Table, number: int) -> dict[str, object]:
    return dict(zip(table.titles, table.rows[number], strict=True))


def test_arms_side_by_side_and_beside_what_was_published() -> None:
    shown = tables({"probe-baseline": [rolled(100_000)] * 3, "probe-kip951": [rolled(50_000)] * 3})
    assert shown["doubts"].notes == (
        "acks=1, 100 partitions: Few moved leaders were met in a run (probe-baseline 0 | 0 | 0; "
        "probe-kip951 0 | 0 | 0; 20 are wanted in each): more --partitions, --restarts or "
        "--throughput let clients meet more. More: kipctl explain few-moves",
    )
    assert row(shown["arms"], 0)["produce p99 ms"] == 100.0
    assert row(shown["arms"], 1)["end to end p99 ms"] == 50.0
    assert row(shown["differences"], 0)["verdict"] == "cannot be told"
    assert "Cannot be told: a run has no value." in shown["differences"].notes
    difference = row(shown["differences"], 1)
    assert difference["of"] == "produce, p99"
    assert difference["cut %"] == pytest.approx(50.0, abs=0.1)
    assert difference["verdict"] == "different"
    published = row(shown["published"], 0)
    assert published["partitions"] == "108 (here 100)"
    assert published["KIP before ms, its runs"] == "3.3 | 3.2"
    assert published["its runs overlap"] is False
    assert published["cut here"] == "probe-kip951 against probe-baseline: 50.0 %"
    assert published["here (the KIP's)"] == "brokers 3 (6)"
    assert shown["published"].notes == ("Differs: 3 brokers, the KIP's 6.",)
    assert len(shown["moves"].rows) == 4
    assert len(shown["restarts"].rows) == 2 * 3 * 3


def test_steps_of_a_restart_are_counted_from_its_call_and_its_election() -> None:
    by_name = tables({"probe-baseline": [rolled(5_000)], "probe-kip951": [rolled(5_000)]})
    first = row(by_name["restarts"], 0)
    assert first["away after s"] == 0.25
    assert first["started after s"] == 3.0
    assert first["in sync after s"] == 4.0
    assert first["back after s"] == 0.1
    assert first["away: produce p99 ms"] == 5.0
    assert row(by_name["differences"], 1)["verdict"] == "cannot be told"
    assert by_name["differences"].notes[-1] == "Cannot be told: one run on a side, 3 are needed."


def test_failures_that_nobody_counted_are_not_none() -> None:
    by_name = tables({"probe-baseline": [rolled(5_000, None)], "probe-kip951": [rolled(5_000, 2)]})
    assert [row(by_name["arms"], number)["failed"] for number in (0, 1)] == [None, 2]
