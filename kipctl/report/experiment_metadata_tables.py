"""Tables of `experiment metadata`, from the document that `--output json` prints."""

from kipctl.counts import counted
from kipctl.documents.experiments import ClaimsDocument
from kipctl.report.columns import measured
from kipctl.report.metadata_tables import requests_table
from kipctl.report.tables import Column, Paragraph, Table, paragraphs, table_of


def claims_answer(document: ClaimsDocument) -> tuple[Paragraph, ...]:
    """How each client asks for new topics, and whether it forgets those that it no longer uses."""
    forgets = {True: "forgets idle ones", False: "forgets none", None: "idle ones not watched"}
    return paragraphs(
        *(
            f"{claim['client']} asks for new topics {claim['asks_for_new_topics'] or '(not seen)'},"
            f" and {forgets[claim['forgets_idle_topics']]}."
            for claim in document["claims"]
        )
    )


def claims_tables(document: ClaimsDocument) -> tuple[Table, ...]:
    """What KIP-526 claims, client by client, and the requests that show it."""
    return (
        claims_table(document),
        requests_table(document),
        latency_table(document),
    )


def claims_table(document: ClaimsDocument) -> Table:
    """How each client stands to the KIP's claims."""
    topics = document["topic_count"]
    return table_of(
        f"What KIP-526 asks of producers: {counted(topics, 'topic')}",
        document["claims"],
        {
            "client": "client",
            "asks for new topics": "asks_for_new_topics",
            "requests at startup": "startup_requests",
            "topics asked at startup": "startup_topics_asked",
            "bytes answered at startup": "startup_response_bytes",
            "topics of a renewal": "renewal_topics",
            "requests as leaders move": "leader_change_requests",
            "topics of one": "leader_change_topics",
            "forgets idle topics": "forgets_idle_topics",
            "asked once idle": "topics_asked_once_idle",
            "requests as they return": "requests_for_returned_topics",
        },
        (
            f"Before the KIP a producer asked for all topics it knew with each new one: for "
            f"{topics * (topics + 1) // 2:,} of them at such a startup; with it, for {topics:,}.",
            "As the tap saw it. What a request is for it has from the wire alone: a renewal by a "
            "client that has forgotten topics may be taken for their return.",
        ),
        name="claims",
    )


def latency_table(document: ClaimsDocument) -> Table:
    """How long the records of each phase took."""
    return table_of(
        "Records of each phase",
        (
            {**phase, "client": client["client"], "software": client["version"]}
            for client in document["clients"]
            for phase in client["phases"]
        ),
        {
            **{name: name for name in ("client", "software", "phase")},
            **{name: name for name in ("records", "failed")},
            "moves": "move_count",
            **measured("request_ms.p50", "request_ms.max"),
            **measured("latency_ms.p50", "latency_ms.p99", "latency_ms.max"),
            Column("seconds", 1): "seconds",
        },
        (
            "Latency: from when the client says the record was made (or should have been) to its "
            "acknowledgement at the tap. A record that waits for Metadata within the client's send "
            "is made after that.",
        ),
        name="latency",
    )
