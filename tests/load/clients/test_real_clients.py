"""The benchmark of other people's clients: its plain count of request logs."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import pytest

from benchmarks.real_clients import PAGE_MARK, verdict_in, write_page
from benchmarks.request_counts import Refusals, Rotation, refusals
from kipctl.report.tables import Report, Table

NOON = datetime(2026, 7, 1, 12)
ROTATIONS = [Rotation(NOON.timestamp(), {0: 1, 1: 1}), Rotation(NOON.timestamp() + 3, {0: 2, 1: 2})]


def line(
    second: str, answers: Sequence[Mapping[str, object]], client: str = "shop", api: str = "PRODUCE"
) -> str:
    """A request's line, answered in that second after noon."""
    partitions = "partitionResponses" if api == "PRODUCE" else "partitions"
    request = {
        "requestHeader": {"clientId": client, "requestApiKeyName": api},
        "response": {"responses": [{partitions: answers}]},
    }
    stamp = f"[2026-07-01 12:00:{second}]"
    return f"{stamp} DEBUG Completed request:{json.dumps(request)} (kafka.request.logger)\n"


def produced(number: int, code: int, leader: int | None = None) -> dict[str, object]:
    hint = {} if leader is None else {"currentLeader": {"leaderId": leader, "leaderEpoch": 1}}
    return {"index": number, "errorCode": code} | hint


def fetched(number: int, code: int) -> dict[str, object]:
    return {"partitionIndex": number, "errorCode": code}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([line("01,000", [produced(0, 0)]), "[2026-07-01 12:00:01,000] INFO other\n"], (0, 0, [])),
        # Refused twice after one move, by a leader that is not ready, and after the next move.
        (
            [
                line("00,250", [produced(0, 6, 2), produced(1, 0)]),
                line("00,251", [produced(0, 6, 1)]),
                line("03,100", [produced(0, 6, 3), produced(1, 6, -1)]),
            ],
            (4, 3, [(0, 1), (0, 2), (1, 2)]),
        ),
        # Versions that name no leader, and a Fetch that told an older epoch.
        ([line("04,000", [produced(1, 6)])], (1, 0, [(1, 2)])),
        ([line("02,999", [fetched(1, 74), fetched(0, 3)], api="FETCH")], (1, 0, [(1, 1)])),
        # Before any move, and of another client.
        (["not a request\n", line("01,000", [produced(0, 6)], "other")], (0, 0, [])),
        ([line("01,000", [produced(0, 6)]).replace("12:00:01", "11:59:01")], (1, 0, [])),
    ],
)
def test_moves_after_which_a_client_was_refused(
    lines: list[str], expected: tuple[int, int, list[tuple[int, int]]]
) -> None:
    refused, hinted, moves = expected
    assert refusals(lines, "shop", ROTATIONS) == Refusals(refused, hinted, frozenset(moves))


def test_the_verdict_is_the_taps_own_sentence() -> None:
    printed = "shop-reader (x 1) waits.\nshop (x 1) follows hints.\n\nClients\nshop  x 1  3\n"
    assert verdict_in(printed, "shop", "x 1") == "follows hints."
    assert verdict_in(printed, "shop-reader", "x 1") == "waits."
    assert verdict_in(printed, "other", None) is None
    assert verdict_in("Nobody moved.\n\nClients\nshop  x 1  3\n", "shop", "x 1") is None


def test_the_pages_tables_are_those_of_the_last_run(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Clients\n\n{PAGE_MARK}\n\n### Before\n")
    report = Report("x", {}, (Table("Now", ("client",), (("shop",),)),))
    write_page(report, page)
    assert page.read_text().split("\n\n")[:3] == ["# Clients", PAGE_MARK, "### Now"]
    write_page(report, tmp_path / "new.md")
    assert (tmp_path / "new.md").read_text().startswith("### Now")
