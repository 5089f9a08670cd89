"""`kipctl tap`: a tap for as long as somebody wants it, what its clients did, and the record."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from kipctl.child_process import ChildDiedError
from kipctl.client_behaviour.behaviour import verdict_document
from kipctl.client_behaviour.doubt import Doubt
from kipctl.client_behaviour.findings.catalogue import FINDINGS
from kipctl.client_behaviour.findings.document import finding_document
from kipctl.client_behaviour.findings.finding import Times
from kipctl.client_behaviour.software import Software
from kipctl.documents.common import Waits
from kipctl.documents.tap import Conditions, TapClient, TapDocument, TapFinding
from kipctl.errors import UsageError
from kipctl.load.record import describe, recording, rows_folder
from kipctl.measure.distribution import Counting
from kipctl.measure.doubts import Observed, doubts, few_moves_doubts
from kipctl.next_step import Command
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import error_name
from kipctl.tap.export import left_in, write
from kipctl.tap.process import ClientSeen, RunningTap, TapOutcome, running_tap
from kipctl.tap.recorder import COLUMNS, DATASETS
from kipctl.tap.sightings import FindingSeen
from kipctl.tap.spec import TapSpec, api_name
from kipctl.trace.codes import TAP_ARM
from kipctl.trace.columns import raw_path
from kipctl.trace.rows import chunks
from kipctl.trace.store import RUN_FILE, Run

TAPS_ROWS = "0"
"""The folder of its rows, among those of a run's clients."""


@dataclass(frozen=True, slots=True)
class TapPlan:
    """A tap, and where its trace is recorded (None: nowhere)."""

    spec: TapSpec
    record: Path | None = None


def tap(
    plan: TapPlan,
    wait: Callable[[RunningTap], None],
    add_to: Callable[[TapDocument], None] = lambda _: None,
) -> TapDocument:
    """Run the tap until `wait` returns; the document of what it saw, with what `add_to` says of it.
    Raises KipctlError.

    The trace is recorded also when `wait` raises, and when the tap's process has died.
    """
    with recording(plan.record) as run, _rows(run, plan.spec) as rows:
        with running_tap(plan.spec, rows) as running:
            try:
                wait(running)
            finally:
                outcome = _outcome(running, rows)
                document = described(outcome, conditions(plan.spec))
                document["clients_connect_to"] = plan.spec.advertised_address(
                    running.bootstrap_server
                )
                add_to(document)
                if run and rows:
                    record(run, rows, outcome, str(plan.spec.access), document)
                    (rows.parent / RUN_FILE).unlink()  # there is nothing to repair any more
        if outcome.failure:
            raise ChildDiedError(outcome.failure)
    return document


@contextmanager
def _rows(run: Run | None, spec: TapSpec) -> Iterator[Path | None]:
    """Where a tap keeps its rows while it runs, with what is known when it begins."""
    if run is None:
        yield None
        return
    with rows_folder(run.folder, DATASETS) as folder:
        known = TapSettings(str(spec.access), conditions(spec))
        Run(folder).describe({"command": "tap", **asdict(known)})
        (folder / TAPS_ROWS).mkdir()
        yield folder / TAPS_ROWS


def _outcome(running: RunningTap, rows: Path | None) -> TapOutcome:
    """End the tap; of one that has died, what is known of it. Raises ChildDiedError."""
    try:
        return running.stop()
    except ChildDiedError as died:
        if rows:
            outcome = left_in(rows, died.what, running.shown)
        else:
            outcome = running.shown and replace(running.shown, failure=died.what)
        if not outcome:
            raise
        return outcome


def record(run: Run, rows: Path, outcome: TapOutcome, servers: str, document: TapDocument) -> None:
    """Make the run whole, of a tap whose rows are there; the document says of records what these
    come to."""
    write(run, outcome, rows)
    _count_records(document, outcome, rows)
    describe(
        run,
        "tap",
        outcome.wall_start_us,
        {
            "source": "tap",
            "interval_ns": 0,
            "arm": TAP_ARM,
            "bootstrap_server": servers,
            **({"failed": outcome.failure} if outcome.failure else {}),
            "summary": document,
        },
    )


def _count_records(document: TapDocument, outcome: TapOutcome, rows: Path) -> None:
    """Say how long records took, each of them and exactly, as a page of the record does: while it
    lasts a tap counts batches, to 3 %. Of clients that share a name in rows that is not known."""
    columns = COLUMNS["batches"]
    whose, error, count, due, done = (
        columns.index(name) for name in ("client", "error", "records", "intended_us", "acked_us")
    )
    took: defaultdict[int, Counting] = defaultdict(Counting)
    for some in chunks(raw_path(rows, "batches"), len(columns)):
        good = some[some[:, error] == 0]
        for client in np.unique(good[:, whose]).tolist():
            own = good[good[:, whose] == client]
            took[client].add(own[:, done] - own[:, due], own[:, count])
    names = outcome.names.get("client", ())
    by_name = {name: took[number] for number, name in enumerate(names) if number in took}
    of_names: defaultdict[str, list[TapClient]] = defaultdict(list)
    for client in document["clients"]:
        at_host = f"{client['client_id']} ({client['host']})"
        of_names[at_host if at_host in names else client["client_id"]].append(client)
    for name, clients in of_names.items():
        if name in by_name and len(clients) == 1:
            latency = by_name[name].distribution
            of_client = [latency.quantile(q) for q in (0.5, 0.99, 1)]
            clients[0]["records_took_ms"] = _milliseconds(of_client)


@dataclass(frozen=True, slots=True)
class TapSettings:
    """What is known of a tap when it begins."""

    bootstrap_server: str
    conditions: Conditions


def repaired(run: Run, known: TapSettings, rows: Path, failure: str) -> TapDocument:
    """Make a tap's run whole whose recorder was killed; its document. Raises UsageError."""
    outcome = left_in(rows / TAPS_ROWS, failure)
    if outcome is None:
        raise UsageError(f"{run.folder} holds nothing to repair: the tap had not begun.")
    document = described(outcome, known.conditions)
    record(run, rows / TAPS_ROWS, outcome, known.bootstrap_server, document)
    return document


def described(
    outcome: TapOutcome, conditions: Conditions, since: TapOutcome | None = None
) -> TapDocument:
    """What `--output json` prints; rates are of the time since then, or since the tap began."""
    seconds = (outcome.now_us - outcome.start_us) / 1e6
    before = (
        {seen.identity: seen.counts.requests.total() for seen in since.clients} if since else {}
    )
    rate_s = (outcome.now_us - (since.now_us if since else outcome.start_us)) / 1e6
    return {
        "cluster_id": outcome.cluster_id or None,
        "seconds": round(seconds, 3),
        "conditions": conditions,
        "doubts": _doubts(outcome),
        "machine": {
            "busy_percent": None if outcome.busy is None else round(100 * outcome.busy, 1),
            "tap_late_ms": outcome.late_us / 1000,
        },
        "listeners": [{"broker": broker, "port": port} for broker, port in outcome.ports.items()],
        "clients": [
            client_document(seen, outcome.start_us, rate_s, before.get(seen.identity, 0))
            for seen in sorted_clients(outcome)
        ],
        "leaders": {str(broker): count for broker, count in sorted(outcome.leading.items())},
        "dropped_connections": outcome.dropped,
        "dropped": list(outcome.messages),
        "cpu_seconds": round(outcome.cpu_s, 3),
        "peak_memory_bytes": outcome.peak_memory_bytes,
    }


def _doubts(outcome: TapOutcome) -> list[str]:
    """What spoils what was seen, each in a sentence."""
    client_doubts = {doubt for client in outcome.clients for doubt in client.seen.doubts}
    busy = max(outcome.busy or 0.0, outcome.most_busy if Doubt.BUSY in client_doubts else 0.0)
    said = list(doubts(Observed(measured_p99_ms=0.0, busy=busy)))
    if Doubt.TAP in client_doubts:
        said.append(
            f"The tap itself went on up to {outcome.late_us / 1000:.1f} ms late (p99) and "
            "more: use a machine that has less to do. More: " + Command("explain client-late")
        )
    met = {client.identity.client_id or "-": [client.moves] for client in outcome.clients}
    return said + few_moves_doubts({name: moves for name, moves in met.items() if moves[0]})


def sorted_clients(outcome: TapOutcome) -> list[ClientSeen]:
    """The clients by name."""
    return sorted(outcome.clients, key=lambda seen: seen.identity)


def client_document(seen: ClientSeen, start_us: int, seconds: float, before: int = 0) -> TapClient:
    """One client of a tap that began then; its requests without the first `before` came within so
    many seconds."""
    counts, identity, what, waits = seen.counts, seen.identity, seen.seen, seen.seen.waits
    software = Software(identity.software_name, identity.software_version)
    requests = counts.requests.total()
    batches, *took_us = seen.took_us
    return {
        "client_id": identity.client_id,
        "host": identity.host,
        "software_name": identity.software_name or None,
        "software_version": identity.software_version or None,
        "verdict": verdict_document(what, software),
        "findings": [_finding(finding, software, start_us) for finding in seen.findings],
        "connections": {
            "open": seen.connections,
            "made": counts.connections,
            "lost": counts.lost,
            "reset": counts.resets,
        },
        "requests": {
            "total": requests,
            "per_second": round((requests - before) / seconds, 1) if seconds else 0.0,
            "not_decoded": counts.not_decoded,
            "acks_0": counts.acks_0,
            "by_api": {
                api_name(key): count for key, count in counts.requests.most_common() if count
            },
        },
        "produce_errors": _named(counts.produce_errors),
        "fetch_errors": _named(counts.fetch_errors),
        "leader_errors": counts.leader_errors,
        "redirects": counts.redirects,
        "hints": {
            "sent": counts.hints,
            "draft": counts.draft_hints,
            "dropped": counts.dropped_hints,
        },
        "refused_by_hint": {
            decision.name.lower(): count for decision, count in counts.decisions.most_common()
        },
        "moves": {
            "met": seen.moves,
            "found": waits.episodes,
            "given_up": seen.given_up,
            "loops": what.loops,
            "by_outcome": {outcome.name.lower(): n for outcome, n in what.outcomes.items() if n},
            "hint_faults": {str(fault): n for fault, n in what.faults.items() if n},
            "wait_ms": _milliseconds((waits.p50_us, waits.p99_us, waits.max_us)),
        },
        "records_took_ms": _milliseconds(took_us) if batches else None,
        "metadata_rpcs": {
            "total": counts.requests[int(ApiKey.METADATA)],
            "by_cause": dict(counts.metadata.most_common()),
            "answered_the_same": counts.same_again,
        },
    }


def _finding(seen: FindingSeen, software: Software, start_us: int) -> TapFinding:
    finding, first = FINDINGS[seen.id], seen.first
    return {
        **finding_document(finding, Times(seen.times, seen.of), finding.affected(software)),
        "first": {
            "ms": (first.at_us - start_us) / 1000,
            "topic": first.topic or None,
            "partition": first.partition if first.topic else None,
            "broker": first.broker if first.broker >= 0 else None,
        },
    }


def _milliseconds(times_us: Sequence[int]) -> Waits:
    p50, p99, longest = (us / 1000 for us in times_us)
    return {"p50": p50, "p99": p99, "max": longest}


def _named(errors: Counter[int]) -> dict[str, int]:
    return {error_name(code): count for code, count in errors.most_common()}


def conditions(spec: TapSpec) -> Conditions:
    """What the tap changes on the way; empty for one that only looks on."""
    document: Conditions = {}
    if spec.caps:
        document["cap"] = {api_name(key): highest for key, highest in spec.caps}
    if spec.delays:
        document["delay_ms"] = {api_name(key): delay_us / 1000 for key, delay_us in spec.delays}
    if spec.drop_hints:
        document["drop_hints"] = True
    if spec.stale_metadata_us:
        document["stale_metadata_ms"] = spec.stale_metadata_us / 1000
    if spec.resets_per_s:
        document["resets_per_minute"] = round(spec.resets_per_s * 60, 3)
    return document
