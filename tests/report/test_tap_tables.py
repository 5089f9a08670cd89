"""The answer and the table of `tap`: whether each client follows the hints that it is sent."""

from typing import Any

import pytest
from test_formats import text

from kipctl.report.formats import OutputFormat
from kipctl.report.layout import laid_out
from kipctl.report.tables import Report
from kipctl.report.tap_tables import clients_table, tap_answer, tap_tables


def client(
    name: str = "shop",
    software: str | None = "librdkafka",
    version: str | None = "2.16",
    *,
    requests: int = 10,
    errors: int = 12,
    sent: int = 12,
    draft: int = 0,
    dropped: int = 0,
    met: int = 12,
    p50_ms: float = 0.5,
    **decisions: int,
) -> dict[str, Any]:
    return {
        "client_id": name,
        "software_name": software,
        "software_version": version,
        "connections": {"open": 1, "made": 1, "lost": 0, "reset": 0},
        "requests": {"total": requests, "per_second": 1.0, "not_decoded": 0, "by_api": {}},
        "produce_errors": {"NOT_LEADER_OR_FOLLOWER": errors, "REQUEST_TIMED_OUT": 2},
        "fetch_errors": {},
        "leader_errors": errors,
        "redirects": errors,
        "hints": {"sent": sent, "draft": draft, "dropped": dropped},
        "refused_by_hint": decisions,
        "moves": {"met": met, "wait_ms": {"p50": p50_ms, "p99": p50_ms, "max": p50_ms}},
        "metadata_rpcs": {"total": 0, "by_cause": {}},
    }


def document(*clients: dict[str, Any]) -> dict[str, Any]:
    return {"conditions": {}, "clients": list(clients), "listeners": [], "dropped": []}


WAITS = "shop (librdkafka 2.16) gets hints, but waits: p50 {} moved leaders (its backoff, Metadata,"
WAITS += (
    " or batches ahead in its own queue). What to set: kipctl explain clients-ready-for-kip-951"
)
UNTOLD = "shop (librdkafka 2.16) gets hints with 12 leader errors{}; whether it follows them cannot"
UNTOLD += " be told.{} Run again with --drop-hints, on a machine with nothing else to do: a wait as"
UNTOLD += " long as this one means no gain."


SHOP = "shop (librdkafka 2.16)"
SAID = {
    "follows": (
        client(followed=10, known=2),
        f"{SHOP} follows hints: waits p50 0.5 ms for 12 moved leaders.",
    ),
    "waits": (
        client(met=20, followed=2, known=9, p50_ms=362.0),
        WAITS.format("362.0 ms for 20"),
    ),
    "waits, and ignores some": (
        client(errors=225, met=41, followed=7, known=74, ignored=25, p50_ms=114.6),
        WAITS.format("114.6 ms for 41"),
    ),
    "waits, and ignores all": (
        client(errors=191, met=108, followed=1, known=101, ignored=89, p50_ms=112.3),
        WAITS.format("112.3 ms for 108"),
    ),
    "not ready": (
        client(followed=6, stale=6, met=6, p50_ms=100.0),
        UNTOLD.format(
            " (6 followed, 6 older than what the client knew)",
            " It waits p50 100.0 ms for 6 moved leaders.",
        ),
    ),
    "ignored": (
        client(met=20, ignored=20, p50_ms=2.0),
        UNTOLD.format(" (20 ignored)", " It waits p50 2.0 ms for 20 moved leaders."),
    ),
    "some followed": (
        client(known=10, followed=3, ignored=17, p50_ms=130.0),
        UNTOLD.format(
            " (3 followed, 10 known already, 17 ignored)",
            " It waits p50 130.0 ms for 12 moved leaders.",
        ),
    ),
    "known": (
        client(known=10, ignored=2, p50_ms=229.4),
        UNTOLD.format(
            " (10 known already, 2 ignored)", " It waits p50 229.4 ms for 12 moved leaders."
        ),
    ),
    "never found": (client(met=0, p50_ms=0.0), UNTOLD.format("", "")),
    "old": (
        client("old", None, None, sent=0, met=1, p50_ms=104.0, absent=12),
        "old is sent no hints with 12 leader errors: waits p50 104.0 ms for 1 moved leader.",
    ),
    "dropped": (
        client(sent=12, dropped=12, p50_ms=107.6, absent=12),
        f"{SHOP} had to do without hints (12 dropped by the tap): it waited p50 107.6 ms for 12"
        " moved leaders.",
    ),
    "draft": (
        client(sent=0, draft=12, met=0, absent=12),
        f"{SHOP} is sent no hints that it could read (12 in the draft's form) with 12 leader"
        " errors.",
    ),
}


@pytest.mark.parametrize(("seen", "said"), SAID.values(), ids=SAID)
def test_what_a_client_makes_of_hints(seen: dict[str, Any], said: str) -> None:
    assert tap_answer(document(seen)).first == said


def test_the_busiest_three_that_met_leader_errors_are_named() -> None:
    met = [client(name, requests=n, met=20, followed=12) for n, name in enumerate("abcd")]
    answer = tap_answer(document(*met, client("calm", requests=99, errors=0)))
    assert [line[0] for line in (answer.first, *answer.others)] == ["d", "c", "b", "C"]
    assert answer.others[-1] == "Clients that met leader errors too: 1."


@pytest.mark.parametrize(
    ("by_api", "begins", "ends"),
    [
        (
            {"Produce": 9, "Metadata": 1},
            "No leader moved while it was looked at: whether clients follow hints cannot be said.",
            " Move some: kipctl reassign --rotate --topic T",
        ),
        (
            {"Metadata": 62, "ApiVersions": 2},
            "No client has produced or fetched anything: ",
            "kipctl inspect leaders --topic T",
        ),
    ],
)
def test_where_no_client_met_a_leader_error_it_is_said_what_to_do(
    by_api: dict[str, int], begins: str, ends: str
) -> None:
    calm = client(errors=0, sent=0, met=0)
    calm["requests"]["by_api"] = by_api
    said = tap_answer(document(calm)).first
    assert said.startswith(begins)
    assert said.endswith(ends)


def test_where_no_client_has_come_it_says_where_they_connect() -> None:
    nobody = document() | {"clients_connect_to": "127.0.0.1:9192"}
    said = "No client has connected. Give clients bootstrap.servers=127.0.0.1:9192"
    report = Report("tap", nobody, tap_tables(nobody), opening=(tap_answer(nobody),))
    assert text(OutputFormat.PLAIN, report) == f"{said}\n"


def test_of_few_moves_it_warns() -> None:
    said = tap_answer(document(client(followed=10, met=19), client("b", met=20, followed=10)))
    assert said.others[-1] == (
        "Few moved leaders were met in a run (shop 19; 20 are wanted in each): their waits say"
        " little; let more leaders move in each run, or send to more partitions. More: kipctl"
        " explain few-moves"
    )
    assert len(tap_answer(document(client(followed=10, met=20))).others) == 0


def test_a_connection_that_its_client_closed_is_no_error() -> None:
    seen = client()
    seen["connections"]["lost"] = 3
    table = clients_table(document(seen))
    said = "2 x REQUEST_TIMED_OUT, 3 x connection closed with requests under way"
    assert table.rows[0][-1] == said
    assert "no error" in table.notes[-1]
    assert "no error" not in clients_table(document(client())).notes[-1]


def test_on_a_narrow_terminal_what_decides_stays() -> None:
    software = ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0")
    many = [
        client(f"orders-{n}", *software, errors=n, sent=n, met=n, p50_ms=n, followed=n, ignored=n)
        for n in range(1, 13)
    ]
    lines = laid_out(clients_table(document(*many)), 80)
    shown = " ".join(lines.headings)
    assert max(map(len, (*lines.headings, *lines.rows))) <= 80
    for word in ("leader errors", "followed", "moved leaders", "wait p50 ms"):
        assert all(part in shown for part in word.split()), (word, shown)
