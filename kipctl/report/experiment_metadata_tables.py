"""Tables of `experiment metadata`, from the document that `--output json` prints."""

from collections.abc import Mapping
from typing import Any

from kipctl.report.metadata_tables import requests_table
from kipctl.report.tables import Cell, Column, Paragraph, Table, paragraphs

Document = Mapping[str, Any]


def claims_answer(document: Document) -> tuple[Paragraph, ...]:
    """How each client asks for new topics, and whether it forgets those that it no longer uses."""
    forgets = {True: "forgets idle ones", False: "forgets none", None: "idle ones not watched"}
    return paragraphs(
        *(
            f"{claim['client']} asks for new topics {claim['asks_for_new_topics'] or '(not seen)'},"
            f" and {forgets[claim['forgets_idle_topics']]}."
            for claim in document["claims"]
        )
    )


def claims_tables(document: Document) -> tuple[Table, ...]:
    """What KIP-526 claims, client by client, and the requests that show it."""
    return (
        claims_table(document),
        requests_table(document),
        latency_table(document),
    )


def claims_table(document: Document) -> Table:
    """How each client stands to the KIP's claims."""
    topics = document["topics"]
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            claim["client"],
            claim["asks_for_new_topics"],
            claim["startup_requests"],
            claim["startup_topics_asked"],
            claim["startup_response_bytes"],
            claim["renewal_topics"],
            claim["leader_change_requests"],
            claim["leader_change_topics"],
            claim["forgets_idle_topics"],
            claim["topics_asked_once_idle"],
            claim["requests_for_returned_topics"],
        )
        for claim in document["claims"]
    )
    return Table(
        f"What KIP-526 asks of producers: {topics:,} topics",
        (
            "client",
            "asks for new topics",
            "requests at startup",
            "topics asked at startup",
            "bytes answered at startup",
            "topics of a renewal",
            "requests as leaders move",
            "topics of one",
            "forgets idle topics",
            "asked once idle",
            "requests as they return",
        ),
        rows,
        (
            f"Before the KIP a producer asked for all topics it knew with each new one: for "
            f"{topics * (topics + 1) // 2:,} of them at such a startup; with it, for {topics:,}.",
            "As the tap saw it. What a request is for it has from the wire alone: a renewal by a "
            "client that has forgotten topics may be taken for their return.",
        ),
        name="claims",
    )


def latency_table(document: Document) -> Table:
    """How long the records of each phase took."""

    def of(spread: Mapping[str, float] | None, *names: str) -> tuple[float | None, ...]:
        return tuple(None if spread is None else spread[name] for name in names)

    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            client["client"],
            client["version"],
            phase["phase"],
            phase["records"],
            phase["failed"],
            phase["moves"],
            *of(phase["request_ms"], "p50", "max"),
            *of(phase["latency_ms"], "p50", "p99", "max"),
            phase["seconds"],
        )
        for client in document["clients"]
        for phase in client["phases"]
    )
    return Table(
        "Records of each phase",
        (
            "client",
            "software",
            "phase",
            "records",
            "failed",
            "moves",
            *(Column(f"Metadata {name} ms", 1) for name in ("p50", "max")),
            *(Column(f"latency {name} ms", 1) for name in ("p50", "p99", "max")),
            Column("seconds", 1),
        ),
        rows,
        (
            "Latency: from when the client says the record was made (or should have been) to its "
            "acknowledgement at the tap. A record that waits for Metadata within the client's send "
            "is made after that.",
        ),
        name="latency",
    )
