"""The demo's one screen: what it answers from the numbers, and nothing more."""

from typing import Any

import pytest

from kipctl.report.demo_tables import BASELINE, HINTED, WAYS, demo_answer, demo_closing, demo_table
from kipctl.report.tables import Tone
from kipctl.trace.codes import PHASES


def measured(
    with_ms: float = 0.4,
    stale_ms: float = 0.0,
    different: bool | None = True,
    doubts: tuple[str, ...] = (),
) -> dict[str, Any]:
    waits = dict(zip(WAYS, (with_ms, 4.0, 100.0), strict=True))
    phases = dict.fromkeys(PHASES, 0.0) | {"backoff": 1.0, "detect": 3.0}
    return {
        "stale_metadata_ms": stale_ms,
        "throughput": 300,
        "acks": "1",
        "run_count": 3,
        "doubts": list(doubts),
        "comparisons": [
            {
                "without": BASELINE,
                "with": HINTED,
                "without_ms": 100.0,
                "with_ms": with_ms,
                "cut_percent": 100.0 - with_ms,
                "different": different,
                "verdict": "cannot be told: one run on a side, 3 are needed",
            }
        ],
        "arms": [
            {
                "arm": name,
                "move_wait_ms": ms,
                "rotations": 12,
                "records": {"failed": 0},
                "redirects": {
                    "moves": {"met": 30},
                    "phases_ms": {phase: {"sum": ms} for phase, ms in phases.items()},
                },
            }
            for name, ms in waits.items()
        ],
    }


def demo(fresh: dict[str, Any], stale: dict[str, Any]) -> dict[str, Any]:
    return {"kafka_version": "4.3.1", "partitions": 100, "fresh": fresh, "stale": stale}


def test_the_answer_is_the_cut_with_fresh_and_with_stale_metadata() -> None:
    fresh, stale = demo_answer(demo(measured(), measured(0.6, 300.0)))
    assert fresh.first == (
        "Hints cut the wait for a moved leader from 100.0 to 0.4 ms (99.6 % less)."
    )
    assert stale.first.startswith("With Metadata 300 ms stale they cut it from")
    assert (fresh.tone, stale.tone) == (Tone.GOOD, Tone.GOOD)


@pytest.mark.parametrize(
    ("fresh", "said"),
    [
        (measured(130.0), "Hints raised the wait for a moved leader"),
        (measured(90.0, different=False), "Hints made no sure difference: from 100.0 to 90.0 ms."),
        (measured(different=None), "leader? It cannot be told: one run on a side"),
    ],
)
def test_what_is_not_so_is_not_said(fresh: dict[str, Any], said: str) -> None:
    assert said in demo_answer(demo(fresh, measured()))[0].first


def test_a_doubt_is_said_once_and_in_the_answer() -> None:
    busy = "{} % busy. More: kipctl explain machine-busy"
    fresh, stale = ("Few moves.", busy.format(98)), ("Few moves.", busy.format(100))
    shown = demo_answer(demo(measured(doubts=fresh), measured(doubts=stale)))
    assert [said.first for said in shown[2:]] == [
        "In doubt: Few moves.",
        f"In doubt: {busy.format(100)}",
    ]


def test_bars_are_as_long_as_the_waits() -> None:
    rows = demo_table(demo(measured(50.0), measured(0.0))).rows
    assert [len(str(row[3])) for row in rows] == [7, 1, 14, 0, 1, 14]


def test_the_rest_is_whose_time_it_was_and_how_to_see_more() -> None:
    moved, whose, *_, tap, more = demo_closing(demo(measured(), measured()), None)
    assert moved == ("100 leaders moved 72 times under 300 records/s, acks=1, on Kafka 4.3.1.")
    assert whose.endswith("brokers 75 %, client 25 %, queues 0 %.")
    assert tap.endswith("--rotate TOPIC")  # a client meets a redirect where leaders move
    assert "--record" in more
    assert (
        "kipctl runs show mine-probe-kip951.1"
        in demo_closing(demo(measured(), measured()), "mine")[-1]
    )


def test_all_of_it_fits_80_columns() -> None:
    document = demo(measured(12.3), measured(12.3, 300.0))
    table = demo_table(document)
    titles = [column if isinstance(column, str) else column.title for column in table.columns]
    columns = zip(titles, *table.rows, strict=True)
    widths = [max(len(str(cell)) for cell in cells) for cells in columns]
    assert sum(widths) + 2 * (len(widths) - 1) <= 80, widths
    lines = [*demo_closing(document, None), *(said.first for said in demo_answer(document))]
    assert [line for line in lines if len(line) > 80] == []
