"""The screen of a run, drawn from what is known of it at a moment."""

from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from test_tap_tables import client

from kipctl.load.live import ActionProgress, ClientProgress, Interval, RunProgress
from kipctl.progress import ProgressText
from kipctl.report.live import RunScreen, run_lines, tap_lines
from kipctl.report.progress_bar import ProgressLine

BEGINNING = RunProgress(
    "perf produce to t", 0.4, 0.01, 1500.0, clients={"producer": ClientProgress()}
)
UNDER_WAY = RunProgress(
    "perf produce to t",
    12.2,
    0.4,
    1500.0,
    intervals=tuple(
        Interval(float(s), 700.0 if s == 5 else 1500.0, 41_300 if s == 5 else 820, 412_000)
        for s in range(1, 13)
    ),
    clients={
        "producer": ClientProgress(
            63, (300, 1200, 1250), {"known": 3, "followed": 62}, {"start": 1, "leader_change": 3}
        )
    },
    leaders={2: 33, 1: 34, 3: 33},
    actions=(
        ActionProgress(5.01, "rotate 1: 100 partitions in 31 ms, all brokers knew 12 ms later."),
        ActionProgress(11.5, "rotate 2: under way"),
    ),
)
AFTER_FAILURES = replace(
    UNDER_WAY,
    title="perf e2e on t",
    timed="e2e",
    intervals=(*UNDER_WAY.intervals, Interval(13.0, 0.0)),
    clients=UNDER_WAY.clients | {"consumer": ClientProgress()},
    actions=(ActionProgress(1.0, "restart:2 1: no answer", failed=True),),
    failed={"REQUEST_TIMED_OUT": 12},
    delivered={"waiting": 5, "lost": 2, "late": 0},
)
FOREVER = replace(BEGINNING, share=None, rate=None, title="perf e2e on " + 100 * "t")


def drawn(run: RunProgress, width: int) -> list[str]:
    return [line.plain.rstrip() for line in run_lines(run, width)]


def test_before_the_first_interval_it_says_that_nothing_has_come_yet() -> None:
    assert drawn(BEGINNING, 80) == [
        "perf produce to t" + 60 * " " + "0 s",
        "━" + "┄" * 61 + "    1 %, 40 s left",
        "",
        "The first records are on their way.",
        "",
        "producer     0 moved leaders met",
        "             refused 0 times; Metadata 0",
    ]


def test_under_way_it_shows_rates_times_moves_leaders_and_actions() -> None:
    assert drawn(UNDER_WAY, 80) == [
        "perf produce to t" + 59 * " " + "12 s",
        "━" * 25 + "┄" * 37 + "   40 %, 18 s left",
        "",
        "records/s        1,500  ████▄███████" + 36 * " " + "of 1,500",
        "latency p50    0.82 ms  ▁▁▁▁█▁▁▁▁▁▁▁" + 33 * " " + "max 41.3 ms",
        "latency p99     412 ms  ████████████" + 34 * " " + "max 412 ms",
        "actions              2       ▲     ▲",
        "",
        "producer     63 moved leaders met, waits p50 0.30 ms, p99 1.20 ms, most 1.25 ms",
        "             refused 65 times, hints: followed 62, known 3; Metadata 4",
        "by broker    1: 34, 2: 33, 3: 33 partitions",
        "",
        "at 5.0 s     rotate 1: 100 partitions in 31 ms, all brokers knew 12 ms later",
        "at 11.5 s    rotate 2: under way",
    ]


def test_after_failures_it_shows_what_was_lost_and_every_client() -> None:
    lines = drawn(AFTER_FAILURES, 80)
    assert lines[3].split()[:2] == ["records/s", "0"]
    assert lines[4].startswith("e2e p50              -  ▁▁▁▁█▁▁▁▁▁▁▁   ")
    assert lines[10:] == [
        "consumer     0 moved leaders met",
        "             refused 0 times; Metadata 0",
        "by broker    1: 34, 2: 33, 3: 33 partitions",
        "delivery     waiting 5, lost 2, late 0",
        "failed       REQUEST_TIMED_OUT 12",
        "",
        "at 1.0 s     restart:2 1: no answer",
    ]


def test_a_wider_terminal_shows_more_intervals() -> None:
    many = tuple(Interval(float(s), 100.0, s, s) for s in range(1, 201))
    bars = [
        len(drawn(replace(UNDER_WAY, intervals=many), width)[4].split()[4]) for width in (80, 120)
    ]
    assert bars[1] == bars[0] + 40


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("run", [BEGINNING, UNDER_WAY, AFTER_FAILURES, FOREVER])
def test_it_fits_a_terminal_of_24_lines(run: RunProgress, width: int) -> None:
    console = Console(width=width, height=24, color_system=None)
    with console.capture() as captured:
        console.print(RunScreen(run))
    lines = captured.get().splitlines()
    assert len(lines) <= 23
    assert max(map(len, lines)) <= width


RUN_1, RUN_2 = ProgressText("run 1", 0, 4), ProgressText("run 2", 1, 4)


@pytest.mark.parametrize(
    ("messages", "seconds", "drawn"),
    [
        ((), 5, ["Doing"]),
        (("copied",), 5, ["copied"]),
        ((RUN_1,), 5, ["run 1", "┄" * 51 + "    0 %"]),
        ((RUN_1, RUN_1, RUN_2, RUN_2), 60, ["run 2", "━" * 13 + "┄" * 38 + "   25 %"]),
        ((RUN_1, RUN_2), 0, ["run 2", "━" * 10 + "┄" * 30 + "   25 %, 30 s left"]),
        ((RUN_1, RUN_2), 4, ["run 2", "━" * 10 + "┄" * 30 + "   25 %, 26 s left"]),
        (
            (ProgressText("half, 7 min left", 5, 10, shows_time_left=True), "meanwhile"),
            0,
            ["meanwhile", "━" * 26 + "┄" * 25 + "   50 %"],
        ),
    ],
)
def test_a_line_of_progress_has_a_bar_where_it_is_known_how_far_it_is(
    messages: tuple[str, ...], seconds: float, drawn: list[str]
) -> None:
    clock = [0.0]
    line = ProgressLine("Doing", lambda: clock[0])
    for text in messages:
        line.update(text)
        clock[0] += 10 if text == "run 1" else 0
    clock[0] += seconds
    console = Console(width=58, color_system=None)
    with console.capture() as captured:
        console.print(line)
    assert captured.get().splitlines() == drawn


def tapped(number: int) -> dict[str, Any]:
    moves = {"met": 8, "wait_ms": {"p50": 100.2, "p99": 104.0, "max": 104.0}}
    seen = client(f"c{number}") | {"moves": moves, "software_version": "2.6.0"}
    seen |= {"refused_by_hint": {"ignored": 7, "followed": 1}}
    asked = {"per_second": number, "by_api": {"Produce": 12_000, "Metadata": 5}}
    return seen | {"connections": {"open": 4}, "requests": asked}


@pytest.mark.parametrize("height", [24, 40])
def test_a_tap_shows_its_busiest_clients_and_says_how_many_are_left_out(height: int) -> None:
    document = {
        "seconds": 35.2,
        "conditions": {"drop_hints": True},
        "leaders": {"1": 33, "2": 34},
        "clients": [tapped(number) for number in range(1, 10)],
    }
    lines = [line.plain.rstrip() for line in tap_lines(document, [20.0, 45.0], 80, height)]
    assert lines[:9] == [
        "tap (hints dropped): 9 clients" + 46 * " " + "35 s",
        "requests/s          45  ▄█" + 48 * " " + "max 45",
        "by broker    1: 33, 2: 34 partitions",
        "",
        "c9 librdkafka 2.6.0" + 34 * " " + "4 connections, 9 requests/s",
        "requests     Produce 12,000, Fetch 0, Metadata 5",
        "moves        8 moved leaders met, waits p50 100 ms, p99 104 ms, most 104 ms",
        "refusals     refused 8 times, hints: ignored 7, followed 1",
        "",
    ]
    shown = 3 if height == 24 else 6
    assert lines[-1] == f"And {9 - shown} clients with fewer requests."
    assert len(lines) < height


def test_a_client_of_a_tap_has_a_line_for_what_is_found_of_it() -> None:
    findings = [{"id": "hint-hot-loop", "times": 3, "severity": "problem"}]
    document = {
        "seconds": 1.0,
        "conditions": {},
        "leaders": {},
        "clients": [tapped(1) | {"findings": findings}, tapped(2)],
    }
    lines = [line.plain.rstrip() for line in tap_lines(document, [1.0], 80, 24)]
    assert "findings     hint-hot-loop 3" in lines
    assert len(lines) < 24
