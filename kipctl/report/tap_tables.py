"""Tables of a tap, from the document that `--output json` prints."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from kipctl.counts import counted
from kipctl.documents.tap import (
    Conditions,
    FirstSeen,
    HintsSent,
    HintsWorth,
    TapClient,
    TapDocument,
    TapFinding,
    TapSeen,
)
from kipctl.measure.doubts import MIN_MOVES
from kipctl.next_step import Command
from kipctl.protocol.address import is_loopback
from kipctl.report.findings import known_in_words
from kipctl.report.tables import Cell, Column, Paragraph, Table, Tone, table_of
from kipctl.severity import Severity
from kipctl.trace.codes import Decision

if TYPE_CHECKING:
    from kipctl.tap.spec import TapSpec


class _ClientsFinding(TapFinding):
    client: str


_DATA = ("Produce", "Fetch", "ShareFetch", "ShareAcknowledge")
_CAUSES = (
    *("start", "new_topic", "leader_change", "max_age", "idle_eviction", "error_retry"),
    "unexplained",
)
A_TAPS_WAIT = "from the first refusal of a partition until the client asked a broker that led it."
"""As tables say it."""
HINTED = tuple(
    decision.name.lower()
    for decision in Decision
    if decision not in (Decision.NOT_APPLICABLE, Decision.ABSENT, Decision.DRAFT)
)
"""What becomes of a hint that a client can read."""
_MANY_UNEXPLAINED = 10
"""Metadata requests: fewer are not worth a sentence."""


def tap_answer(document: TapDocument) -> Paragraph:
    """Whether clients follow hints: each that met leader errors, the busiest first, then others."""
    clients = document["clients"]
    if not clients:
        # A run that was repaired does not say where.
        address = document.get("clients_connect_to", "HOST:PORT of the tap")
        none = f"No client has connected. Give clients bootstrap.servers={address}"
        return Paragraph(none, tone=Tone.WARNING)
    met = [client for client in clients if client["leader_errors"]]
    doubts = [*document.get("doubts", ())]
    if without := document.get("without_hints"):
        doubts += [f"Without hints: {doubt}" for doubt in without.get("doubts", ())]
    if not met and not any(map(_has_data, clients)):
        return Paragraph(
            "No client has produced or fetched anything: whether clients follow hints "
            "cannot be said. Is their topic there? " + Command("inspect leaders"),
            tone=Tone.WARNING,
        )
    worth = [*map(_worth, document.get("hints_worth", ()))]
    if worth and doubts:
        worth[-1] += " What is said below of the machine or the tap may account for it."
    said = [*worth, *verdicts(clients)]
    if not met:
        said.insert(0, _no_move(document))
    return Paragraph(said[0], (*said[1:], *doubts))


def _no_move(document: TapDocument) -> str:
    if times := document.get("rotations"):
        topic = document.get("rotated_topic", "the topic")
        return (
            f"Leaders of {topic} moved {counted(times, 'time')} and no client met one: does it use"
            f" {topic}?"
        )
    return (
        "No leader moved while it was looked at: whether clients follow hints cannot "
        "be said. Move some: " + Command("reassign --rotate")
    )


def _worth(worth: HintsWorth) -> str:
    """Not how much, where few moved leaders were met."""
    with_ms, without_ms, name = worth["with_ms"], worth["without_ms"], worth["client_id"] or "-"
    saved = round(without_ms - with_ms, 1)
    if min(worth["met_with"], worth["met_without"]) < MIN_MOVES:
        return (
            f"What hints are worth to {name} cannot be said: it met {worth['met_with']:,} moved"
            f" leaders with them and {worth['met_without']:,} without, {MIN_MOVES} each are wanted."
        )
    if not saved:
        return f"No difference is seen for {name}, with hints or without: {with_ms:,.1f} ms."
    return (
        f"Hints {'save' if saved > 0 else 'cost'} {name} {abs(saved):,.1f} ms a moved leader (p50):"
        f" {with_ms:,.1f} ms with them ({worth['met_with']:,} met),"
        f" {without_ms:,.1f} ms without ({worth['met_without']:,} met)."
    )


def verdicts(clients: Sequence[TapClient]) -> Iterator[str]:
    """Of each client that produced or fetched, in the order of `tap_answer`."""
    ordered = sorted(clients, key=lambda row: (not row["leader_errors"], -row["requests"]["total"]))
    for client in ordered:
        if client["leader_errors"] or _has_data(client):
            yield f"{_name(client, ordered)} {_sentences(client)}"


def _has_data(client: TapClient) -> bool:
    return any(client["requests"]["by_api"].get(api) for api in _DATA)


def _name(client: TapClient, clients: Sequence[TapClient]) -> str:
    """With its host, if others have its id."""
    name, software = client["client_id"] or "-", _software(client)
    namesakes = sum(other["client_id"] == client["client_id"] for other in clients) > 1
    at = f" at {client['host']}" if namesakes and client.get("host") else ""
    return f"{name}{at}{f' ({software})' if software else ''}"


def _sentences(client: TapClient) -> str:
    """What the client makes of hints, what it cost, and what to do."""
    verdict = client.get("verdict")
    if verdict is None:
        errors = counted(client["leader_errors"], "leader error")
        return (
            f"met {errors}; what it makes of hints was not judged by the kipctl that recorded it."
        )
    said = [verdict["sentence"]]
    if took := client["records_took_ms"]:
        p50, p99, longest = (f"{ms:,.1f} ms" for ms in (took["p50"], took["p99"], took["max"]))
        said.append(f"Its records took p50 {p50}, p99 {p99}, at most {longest}.")
    if times := client["requests"]["acks_0"]:
        said.append(f"{counted(times, 'request')} had acks=0: no answer can refuse them.")
    if lost := client["moves"]["given_up"]:
        said.append(f"What it was refused it did not send again in {counted(lost, 'case')}.")
    unexplained = client["metadata_rpcs"]["by_cause"].get("unexplained", 0)
    if unexplained >= _MANY_UNEXPLAINED:
        same = client["metadata_rpcs"]["answered_the_same"]
        said.append(
            f"It asked for Metadata {unexplained:,} times without a cause that is seen,"
            f" {same:,} times for what it had just been told."
        )
    return " ".join(filter(None, (*said, verdict["advice"])))


def tap_tables(document: TapDocument) -> tuple[Table, ...]:
    """Clients, their Metadata requests, and the addresses that stand for brokers."""
    tables = [findings_table(document), clients_table(document)]
    if not tables[0].rows:
        del tables[0]
    if without := document.get("without_hints"):
        tables.append(replace(clients_table(without), name="clients_without_hints"))
    if any(client["metadata_rpcs"]["total"] for client in document["clients"]):
        tables.append(_metadata_table(document))
    if document["listeners"]:
        ports = tuple((entry["broker"], str(entry["port"])) for entry in document["listeners"])
        tables.append(Table("Listeners", ("broker", "the tap's port"), ports, name="listeners"))
    if dropped := document["dropped"]:
        rows = tuple((line,) for line in dropped)
        tables.append(Table("Dropped connections", ("what",), rows, name="dropped"))
    return tuple(tables)


def findings_table(document: TapDocument) -> Table:
    """What clients are found to do wrong, the worst first; without rows if that is nothing."""
    findings: list[_ClientsFinding] = [
        {**finding, "client": client["client_id"] or "-"}
        for client in document["clients"]
        for finding in client.get("findings", ())
    ]
    findings.sort(key=lambda finding: (Severity(finding["severity"]).rank, -finding["times"]))
    notes = [f"{finding['id']}: {finding['costs']} {finding['change']}" for finding in findings]
    if findings:
        notes.append("More of one: " + Command("explain", findings[0]["id"]))
    return table_of(
        "Findings, the worst first",
        findings,
        {
            "severity": "severity",
            "finding": "id",
            "client id": "client",
            "seen": lambda finding: f"{finding['times']:,} of {finding['of']:,}",
            "first": lambda finding: _first_seen(finding["first"]),
            "known": known_in_words,
        },
        tuple(dict.fromkeys(notes)),
        name="findings",
    )


def _first_seen(first: FirstSeen) -> str:
    where = [f"after {first['ms'] / 1000:.1f} s"]
    if first["topic"] is not None:
        where.append(f"{first['topic']}-{first['partition']}")
    if first["broker"] is not None:
        where.append(f"broker {first['broker']}")
    return ", ".join(where)


def clients_table(document: TapSeen) -> Table:
    """One row for each client."""
    return table_of(
        "Clients through the tap" + conditions_in_words(document["conditions"]),
        document["clients"],
        {
            "client id": lambda client: client["client_id"] or "-",
            Column("software", detail=True): lambda client: _software(client) or "-",
            Column("connections", detail=True): lambda client: (
                client["connections"]["open"] or client["connections"]["made"]
            ),
            Column("requests/s", 1, detail=True): "requests.per_second",
            Column("requests", detail=True): "requests.total",
            Column("not decoded", detail=True): "requests.not_decoded",
            "leader errors": "leader_errors",
            Column("hints", detail=True): lambda client: _hints(client["hints"]),
            "hints followed": lambda client: hints_followed(client["refused_by_hint"]),
            Column("redirects", detail=True): "redirects",
            "moved leaders": "moves.met",
            Column("wait p50 ms", 1): partial(_wait, "p50"),
            Column("at most ms", 1, detail=True): partial(_wait, "max"),
            Column("records p50 ms", 1, detail=True): partial(_took, "p50"),
            Column("records p99 ms", 1, detail=True): partial(_took, "p99"),
            Column("Metadata", detail=True): "metadata_rpcs.total",
            "other errors": _other_errors,
        },
        tuple(_counting(document["clients"])),
        name="clients",
    )


def _counting(clients: Sequence[TapClient]) -> Iterator[str]:
    """What the columns count."""
    if clients:
        yield (
            "Leader errors and hints are counted by partition of an answer, hints followed by"
            " attempt of a batch or fetch, redirects by batch or fetch that got through after such"
            " errors, moved leaders by partition and leader epoch; a wait is " + A_TAPS_WAIT
        )
    if any(client["connections"]["lost"] for client in clients):
        yield "A consumer that ends closes connections with a Fetch under way: that is no error."


def hints_followed(by_decision: Mapping[str, int]) -> str:
    """How many refusals of a batch or fetch named a leader, and how many of these were followed, by
    a client that may have known it already; the refusals are counted by what became of the hint."""
    present = sum(by_decision.get(decision, 0) for decision in HINTED)
    if not present:
        refusals = sum(by_decision.values())
        return f"none in {counted(refusals, 'refusal')}" if refusals else "-"
    used = sum(by_decision.get(decision, 0) for decision in ("followed", "known"))
    return f"{used:,} of {present:,}"


def _wait(name: Literal["p50", "max"], client: TapClient) -> Cell:
    return client["moves"]["wait_ms"][name] if client["moves"]["met"] else None


def _took(name: Literal["p50", "p99"], client: TapClient) -> Cell:
    took = client.get("records_took_ms")
    return took[name] if took else None


def _software(client: TapClient) -> str:
    return " ".join(part for part in (client["software_name"], client["software_version"]) if part)


def _hints(hints: HintsSent) -> str:
    said = [str(hints["sent"])]
    if hints["draft"]:
        said.append(f"{hints['draft']} draft")
    if hints["dropped"]:
        said.append(f"{hints['dropped']} dropped")
    return ", ".join(said)


def _other_errors(client: TapClient) -> str:
    """Errors that say nothing of leaders, produce and fetch together."""
    counts = Counter(client["produce_errors"]) + Counter(client["fetch_errors"])
    for name in ("NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH"):
        counts.pop(name, None)
    if lost := client["connections"]["lost"]:
        counts["connection closed with requests under way"] = lost
    return ", ".join(f"{count:,} x {name}" for name, count in counts.items()) or "-"


def _metadata_table(document: TapDocument) -> Table:
    def times(cause: str, client: TapClient) -> int:
        return client["metadata_rpcs"]["by_cause"].get(cause, 0)

    clients = document["clients"]
    unexplained = (times("unexplained", client) for client in clients)
    return table_of(
        "Metadata requests by cause, as far as the wire shows it",
        clients,
        {
            "client id": lambda client: client["client_id"] or "-",
            **{
                cause.replace("_", " "): partial(times, cause)
                for cause in _CAUSES
                if any(times(cause, client) for client in clients)
            },
            **({"just told": "metadata_rpcs.answered_the_same"} if any(unexplained) else {}),
        },
        name="metadata",
    )


def conditions_in_words(conditions: Conditions) -> str:
    """What the tap changes on the way, in brackets; empty where it only looks on."""
    said = []
    for name, highest in conditions.get("cap", {}).items():
        said.append(f"{name} at most {highest}")
    for name, delay_ms in conditions.get("delay_ms", {}).items():
        said.append(f"{name} held {delay_ms:g} ms")
    if conditions.get("drop_hints"):
        said.append("hints dropped")
    if stale_ms := conditions.get("stale_metadata_ms"):
        said.append(f"Metadata stale for {stale_ms:g} ms")
    if resets := conditions.get("resets_per_minute"):
        said.append(f"{resets:g} resets/min")
    return f" ({', '.join(said)})" if said else ""


def exposure(spec: "TapSpec") -> str:
    """What it means that the tap listens there, in one or two lines; "" where that is nothing."""
    host, _ = spec.listen_address
    if is_loopback(host) and not spec.identity:
        return ""
    if spec.tls.client_ca:
        who = f"whoever has a certificate of {spec.tls.client_ca}"
    else:
        who = "every user of this machine" if is_loopback(host) else "whoever reaches it"
    how = "" if spec.tls.certificate else ", unencrypted"
    if spec.identity:
        does = f"is {spec.identity} to the brokers{how}.\nNothing else stands behind it."
    else:
        does = (
            f"reaches the cluster through this machine{how}, as if from here.\n"
            "Only the cluster's own authentication stands behind it, if it has one."
        )
    return f"Listening at {host}: {who} {does}"


def client_protocol(spec: "TapSpec") -> str:
    """What clients of the tap are to speak, where that or what brokers speak is no plain text.

    TLS ends at the tap; a login passes, so clients log in as if the tap were not there.
    """
    security = spec.access.security
    transport = "SSL" if spec.tls.certificate else "PLAINTEXT"
    protocol = f"SASL_{transport}" if security.sasl else transport
    if protocol == security.protocol == "PLAINTEXT":
        return ""
    return f" with security.protocol={protocol}"
