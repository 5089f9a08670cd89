"""The answer and the table of `tap`: whether each client follows the hints that it is sent."""

from typing import Any

import pytest
from test_formats import text

from kipctl.client_behaviour.findings.catalogue import FINDINGS
from kipctl.client_behaviour.findings.document import finding_document
from kipctl.client_behaviour.findings.finding import Times
from kipctl.report.formats import OutputFormat
from kipctl.report.html.answer import told_by_taps
from kipctl.report.layout import laid_out
from kipctl.report.run_tables import compare_answer
from kipctl.report.tables import Report
from kipctl.report.tap_tables import clients_table, tap_answer, tap_tables


def client(
    name: str = "shop",
    *,
    requests: int = 10,
    errors: int = 12,
    sentence: str = "follows hints.",
    advice: str | None = None,
    took: tuple[float, float, float] | None = (1.0, 20.0, 3000.0),
    acks_0: int = 0,
    given_up: int = 0,
    wait_ms: float = 0.5,
    host: str = "10.0.0.1",
    findings: tuple[dict[str, Any], ...] = (),
    **causes: int,
) -> dict[str, Any]:
    return {
        "client_id": name,
        "host": host,
        "software_name": "librdkafka",
        "software_version": "2.16",
        "verdict": {"sentence": sentence, "advice": advice},
        "findings": list(findings),
        "connections": {"open": 1, "made": 1, "lost": 0, "reset": 0},
        "requests": {"total": requests, "per_second": 1.0, "not_decoded": 0, "acks_0": acks_0}
        | {"by_api": {"Produce": 1}},
        "produce_errors": {"NOT_LEADER_OR_FOLLOWER": errors, "REQUEST_TIMED_OUT": 2},
        "fetch_errors": {},
        "leader_errors": errors,
        "redirects": errors,
        "hints": {"sent": errors, "draft": 0, "dropped": 0},
        "refused_by_hint": {"followed": errors},
        "moves": {"met": errors, "given_up": given_up}
        | {"wait_ms": dict.fromkeys(("p50", "p99", "max"), wait_ms)},
        "records_took_ms": took and dict(zip(("p50", "p99", "max"), took, strict=True)),
        "metadata_rpcs": {"total": sum(causes.values()), "by_cause": causes}
        | {"answered_the_same": 239},
    }


def document(*clients: dict[str, Any]) -> dict[str, Any]:
    return {"conditions": {}, "clients": list(clients), "listeners": [], "dropped": []}


TOOK = "Its records took p50 1.0 ms, p99 20.0 ms, at most 3,000.0 ms."
SAID = {
    "verdict, cost, advice": (
        client(sentence="loops.", advice="Update the client."),
        f"shop (librdkafka 2.16) loops. {TOOK} Update the client.",
    ),
    "it only reads": (client(took=None), "shop (librdkafka 2.16) follows hints."),
    "acks=0": (
        client(took=None, acks_0=9),
        "shop (librdkafka 2.16) follows hints. 9 requests had acks=0: no answer can refuse them.",
    ),
    "gave up": (
        client(took=None, given_up=1),
        "shop (librdkafka 2.16) follows hints. What it was refused it did not send again in 1"
        " case.",
    ),
    "unexplained Metadata": (
        client(took=None, unexplained=240),
        "shop (librdkafka 2.16) follows hints. It asked for Metadata 240 times without a cause that"
        " is seen, 239 times for what it had just been told.",
    ),
}


@pytest.mark.parametrize(("seen", "said"), SAID.values(), ids=SAID)
def test_what_is_said_of_a_client(seen: dict[str, Any], said: str) -> None:
    assert tap_answer(document(seen)).first == said


def test_every_client_is_named_those_first_that_met_leader_errors() -> None:
    met = [client(name, requests=n) for n, name in enumerate("abcd")]
    answer = tap_answer(document(*met, client("calm", requests=99, errors=0)))
    assert [line.split()[0] for line in (answer.first, *answer.others)] == [*"dcba", "calm"]


def test_each_half_has_its_own_doubts() -> None:
    halves = [document(client()) | {"doubts": [f"{late} ms late."]} for late in (139, 54)]
    told = tap_answer(halves[0] | {"without_hints": halves[1]}).others
    assert told[-2:] == ("139 ms late.", "Without hints: 54 ms late.")


def test_clients_of_one_id_are_told_apart_by_their_host() -> None:
    answer = tap_answer(document(client(), client(host="10.0.0.2", requests=1)))
    assert [line.split(" (")[0] for line in (answer.first, *answer.others)] == [
        "shop at 10.0.0.1",
        "shop at 10.0.0.2",
    ]


def test_a_report_and_a_comparison_of_its_runs_say_what_it_said() -> None:
    seen = document(client())
    run = {"run": "noon", "failed": None, "stopped": False, "end_of": None, "doubts": []}
    assert told_by_taps({"runs": [run | seen]})[0] == tap_answer(seen).first
    compared = {"measures": [], "settings": [], "clients_by_side": {"a": ["noon: shop"], "b": []}}
    assert compare_answer(compared)[1:] == ("noon: shop",)


def test_a_run_of_an_older_kipctl_was_not_judged() -> None:
    old = client()
    del old["verdict"], old["records_took_ms"], old["host"]
    said = tap_answer(document(old)).first
    assert said.startswith("shop (librdkafka 2.16) met 12 leader errors; what it makes of hints")
    assert tap_tables(document(old))[0].rows


@pytest.mark.parametrize(
    ("by_api", "begins", "ends"),
    [
        (
            {"Produce": 9, "Metadata": 1},
            "No leader moved while it was looked at: whether clients follow hints cannot be said.",
            " Move some: kipctl reassign --rotate",
        ),
        (
            {"Metadata": 62, "ApiVersions": 2},
            "No client has produced or fetched anything: ",
            "kipctl inspect leaders",
        ),
    ],
)
def test_where_no_client_met_a_leader_error_it_is_said_what_to_do(
    by_api: dict[str, int], begins: str, ends: str
) -> None:
    calm = client(errors=0)
    calm["requests"]["by_api"] = by_api
    said = tap_answer(document(calm)).first
    assert said.startswith(begins)
    assert said.endswith(ends)


def test_leaders_that_the_tap_moved_in_vain_are_told() -> None:
    rotated = document(client(errors=0)) | {"rotations": 10, "rotated_topic": "orders"}
    said = tap_answer(rotated).first
    assert said == "Leaders of orders moved 10 times and no client met one: does it use orders?"


@pytest.mark.parametrize(
    ("with_ms", "without_ms", "met", "said"),
    [
        (3.0, 104.0, 20, "Hints save shop 101.0 ms a moved leader (p50): 3.0 ms"),
        (104.0, 3.0, 20, "Hints cost shop 101.0 ms a moved leader (p50): 104.0 ms"),
        (3.01, 3.04, 20, "No difference is seen for shop, with hints or without: 3.0 ms."),
        (3.0, 104.0, 19, "What hints are worth to shop cannot be said: it met 30 moved leaders"),
    ],
)
def test_what_hints_are_worth_is_said_where_enough_were_met(
    with_ms: float, without_ms: float, met: int, said: str
) -> None:
    worth = {"client_id": "shop", "host": "h", "with_ms": with_ms, "without_ms": without_ms}
    seen = document(client()) | {"hints_worth": [worth | {"met_with": 30, "met_without": met}]}
    assert tap_answer(seen).first.startswith(said)
    doubted = tap_answer(seen | {"doubts": ["This machine was 100 % busy."]})
    assert doubted.first.endswith(
        "What is said below of the machine or the tap may account for it."
    )


def test_where_no_client_has_come_it_says_where_they_connect() -> None:
    nobody = document() | {"clients_connect_to": "127.0.0.1:9192"}
    said = "No client has connected. Give clients bootstrap.servers=127.0.0.1:9192"
    report = Report("tap", nobody, tap_tables(nobody), opening=(tap_answer(nobody),))
    assert text(OutputFormat.PLAIN, report) == f"{said}\n"


def test_what_spoils_it_is_said() -> None:
    spoilt = document(client()) | {"doubts": ["This machine was busy."]}
    assert tap_answer(spoilt).others == ("This machine was busy.",)


def test_a_connection_that_its_client_closed_is_no_error() -> None:
    seen = client()
    seen["connections"]["lost"] = 3
    table = clients_table(document(seen))
    said = "2 x REQUEST_TIMED_OUT, 3 x connection closed with requests under way"
    assert table.rows[0][-1] == said
    assert "no error" in table.notes[-1]
    assert "no error" not in clients_table(document(client())).notes[-1]


def test_on_a_narrow_terminal_what_decides_stays() -> None:
    many = [client(f"orders-{n}", errors=n, wait_ms=n) for n in range(1, 13)]
    for row in many:
        row["software_name"], row["software_version"] = "confluent-kafka-python", "2.16.1-rdkafka"
    lines = laid_out(clients_table(document(*many)), 80)
    shown = " ".join(lines.headings)
    assert max(map(len, (*lines.headings, *lines.rows))) <= 80
    for word in ("leader errors", "followed", "moved leaders", "wait p50 ms"):
        assert all(part in shown for part in word.split()), (word, shown)


def finding(id: str, is_known: bool = False) -> dict[str, Any]:
    declared = FINDINGS[id]
    document = finding_document(declared, Times(3, 12), declared.known[0] if is_known else None)
    return {**document, "first": {"ms": 1500.0, "topic": "orders", "partition": 4, "broker": 1}}


def test_findings_come_first_and_the_worst_of_all_clients_before_others() -> None:
    waiting = client("one", findings=(finding("hint-waited"),))
    problems = (finding("hint-hot-loop", is_known=True), finding("hint-ignored"))
    looping = client("two", findings=problems)
    first, clients, *_ = tap_tables(document(waiting, looping))
    assert (first.name, clients.name) == ("findings", "clients")
    told = text(OutputFormat.PLAIN, Report("tap", {}, (first,))).splitlines()
    rows = [line.split(maxsplit=3) for line in told[2:5]]
    assert [row[:3] for row in rows] == [
        ["problem", "hint-hot-loop", "two"],
        ["warning", "hint-ignored", "two"],
        ["note", "hint-waited", "one"],
    ]
    assert (
        "3 of 12  after 1.5 s, orders-4, broker 1  twmb/franz-go#1412, mended in 1.21.7" in told[2]
    )
    assert told[4].endswith("  -")
    assert any(line.startswith("hint-hot-loop: Hundreds of requests a second") for line in told)
    assert told[-1] == "More of one: kipctl explain hint-hot-loop"


def test_without_findings_there_is_no_table_of_them() -> None:
    assert tap_tables(document(client()))[0].name == "clients"
