"""What a report begins with: a sentence, a row an arm or client, of when and where it is, and what
spoils its runs."""

from collections import Counter
from collections.abc import Iterator

from kipctl.client_behaviour.behaviour import Behaviour, Seen, judge
from kipctl.client_behaviour.episode import Outcome
from kipctl.counts import counted, first_few
from kipctl.documents.pages import DrawnRun, Row, Rows, RunPictures
from kipctl.protocol.error_codes import ErrorCode
from kipctl.report.html.words import in_ms
from kipctl.report.move_tables import OWN_DISCOVERIES
from kipctl.report.tables import Cell, Column, Table
from kipctl.report.tap_tables import A_TAPS_WAIT, hints_followed, verdicts

_MOST_NAMES = 3
_CLIENTS = {"produce": "producer", "fetch": "consumer"}
_TRIED_AGAIN = {int(code) for code in ErrorCode if code.retriable} | {
    int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
}
_VERDICTS = {
    Behaviour.FOLLOWS: "follows hints",
    Behaviour.LOOPS: "loops",
    Behaviour.WAITS: "follows hints after its backoff",
    Behaviour.IGNORES: "ignores hints",
    Behaviour.NO_HINTS: "is sent no hints",
    Behaviour.UNUSABLE: "is sent hints of no use",
    Behaviour.UNKNOWN: "cannot be told",
    Behaviour.NOT_MET: "met no moved leader",
}


def answer(document: RunPictures) -> str:
    """What moved leaders cost clients, and what became of the records, in a sentence."""
    moves, records = document["arms"]["moves"], document["arms"]["records"]
    waited = _waited(moves)
    acknowledged, failed = (sum(row[key] for row in records) for key in ("acknowledged", "failed"))
    if failed:
        unseen = _not_seen_again(document)
        became = [f"{failed - unseen:,} failed"] if failed > unseen else []
        if unseen:
            became.append(f"{unseen:,} {'was' if unseen == 1 else 'were'} not seen again")
        return f"{waited}; of {counted(acknowledged + failed, 'record')} {', '.join(became)}."
    settled = f"; all {counted(acknowledged, 'record')} were acknowledged" if records else ""
    return f"{waited}{settled}."


def _not_seen_again(document: RunPictures) -> int:
    """Records that a tap saw refused once more, with an error after which clients try again: they
    may have sent them in other batches, or had still to do so when it ended."""
    of_taps = {run["run"] for run in document["runs"] if run["clients"]}
    failures: Rows = document["analysis"].get("failures", [])
    unseen = (row for row in failures if row["run"] in of_taps and row["error"] in _TRIED_AGAIN)
    return sum(row["records"] for row in unseen)


def _waited(moves: Rows) -> str:
    if not moves:
        return "No client met a moved leader"
    every, moves = moves, [row for row in moves if row["wait_ms"]["p50"] is not None]
    if not moves:
        return "No client got to the moved leaders that it met"
    if lost := [client(row, every) for row in every if row not in moves]:
        named = f"{', '.join(lost[:_MOST_NAMES])}{' and others' if lost[_MOST_NAMES:] else ''}"
        return f"{named} got to none of the moved leaders met; {_ranked(moves)}"
    return _ranked(moves)


def _ranked(moves: Rows) -> str:
    ranked = sorted(moves, key=lambda row: float(row["wait_ms"]["p50"]))
    best, worst = ranked[0], ranked[-1]
    if len(moves) == 1:
        return (
            f"{client(best, [])} met {counted(best['moves'], 'moved leader')} and waited"
            f" {in_ms(best['wait_ms']['p50'])} for each (p50), {in_ms(best['wait_ms']['max'])} at"
            " most"
        )
    if len(moves) > 2:
        return (
            f"Of {len(moves)} clients that met moved leaders {client(best, moves)} waited least,"
            f" {in_ms(best['wait_ms']['p50'])} for each (p50), {client(worst, moves)} longest,"
            f" {in_ms(worst['wait_ms']['p50'])}"
        )
    return (
        f"For a moved leader {client(best, moves)} waited {in_ms(best['wait_ms']['p50'])} (p50),"
        f" {client(worst, moves)} {in_ms(worst['wait_ms']['p50'])}"
    )


def told_by_taps(document: RunPictures) -> list[str]:
    """What a tap said of each client, and what to do about it."""
    return [said for run in document["runs"] for said in verdicts(run["clients"])]


def at_a_glance(document: RunPictures) -> Table:
    """A row an arm or client: what moved leaders cost it, and what it makes of hints."""
    arms = document["arms"]
    moves, redirects = ({_key(row): row for row in arms[name]} for name in ("moves", "redirects"))
    records = {row["arm"]: row for row in arms["records"]}
    latency = {row["arm"]: row for row in arms["latency"] if row["time"] == "latency"}
    met = {**moves, **redirects}
    of_arms = {arm for arm, _ in met}
    rest = {(arm, ""): row for arm, row in records.items() if arm not in of_arms}
    rows = {**met, **rest}
    told = [*rows.values()]

    def cells(key: tuple[str, str], row: Row) -> tuple[Cell, ...]:
        wait = moves[key]["wait_ms"] if key in moves else {}
        took = latency.get(key[0]) if key[1] != "fetch" else None
        return (
            client(row, told),
            wait.get("p50"),
            wait.get("p99"),
            took["time_ms"]["p99"] if took else None,
            moves[key]["moves"] if key in moves else 0,
            _hints(redirects.get(key)),
            _verdict(key[0], redirects.get(key), document["runs"]),
        )

    return Table(
        "At a glance",
        (
            "client",
            Column("wait p50 ms", 1),
            Column("wait p99 ms", 1),
            Column("records p99 ms", 1),
            "leaders met",
            "hints followed",
            "verdict",
        ),
        tuple(cells(key, rows[key]) for key in sorted(rows)),
        tuple(_waits_are(document["runs"])),
        name="glance",
    )


def _waits_are(runs: list[DrawnRun]) -> Iterator[str]:
    """What a wait is: kipctl's own client tells its backoff, others are seen by taps."""
    of_tap = [run["tells_moves"] for run in runs]
    if not all(of_tap):
        yield "A wait is for one moved leader: backoff and Metadata, from the first refusal on."
    if any(of_tap):
        yield f"{'Of a tap a' if not all(of_tap) else 'A'} wait is {A_TAPS_WAIT}"


def _key(row: Row) -> tuple[str, str]:
    return row["arm"], row["api"]


def _hints(row: Row | None) -> str:
    """How many of the refusals named a leader, and how many of these were followed, by a client
    that may have known it already."""
    if row is None:
        return "-"
    return hints_followed(row["hints"])


def _verdict(arm: str, row: Row | None, runs: list[DrawnRun]) -> str:
    """What taps said of the client; without one, judged by the same rule."""
    said = [
        client["verdict"]["behaviour"]
        for run in runs
        for client in run["clients"]
        if arm in (run["arm"], client["client_id"] or "-") and client.get("verdict")
    ]
    # Of an arm with several clients the one that met leader errors counts.
    met = [Behaviour(behaviour) for behaviour in said if behaviour != Behaviour.NOT_MET]
    if not met and row is not None:
        met = [judge(_seen(row)).behaviour]
    counts = Counter(_VERDICTS[behaviour] for behaviour in met or [Behaviour.NOT_MET])
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{verdict} ({runs})" for verdict, runs in counts.most_common())


def _seen(row: Row) -> Seen:
    """Redirects of kipctl's own client, which says itself what it did with each hint."""
    hints = row["hints"]
    return Seen(
        leader_errors=row["errors"],
        hints=row["hints_present"],
        outcomes={
            Outcome.FOLLOWED: hints["followed"],
            Outcome.BY_METADATA: hints["known"],
            Outcome.ELSEWHERE: hints["ignored"],
        },
        reaction_p50_us=round(1000 * row["client_share_ms"]["p50"]),
    )


def facts(document: RunPictures) -> str:
    """When it was, how long, of which cluster, of which versions, and what was done meanwhile."""
    runs = document["runs"]
    spans = [end - begin for run in runs if run["span_us"] for begin, end in [run["span_us"]]]
    lasted = sorted(round(span / 1e6) for span in (min(spans), max(spans))) if spans else []
    each = " each" if len(runs) > 1 else ""
    parts = [
        counted(len(runs), "run") if len(runs) > 1 else "",
        " to ".join(dict.fromkeys(when(at) for at in _ends([run["started"] for run in runs]))),
        f"{' to '.join(f'{s:,}' for s in dict.fromkeys(lasted))} s{each}" if lasted else "",
        _of_settings(runs, "cluster_id", "cluster"),
        _of_settings(runs, "kafka_version", "Kafka"),
        _of_settings(runs, "kipctl_version", "recorded by kipctl"),
        _done(document),
    ]
    return " · ".join(part for part in parts if part)


def when(started: str) -> str:
    """A moment of `run.json` as people write it."""
    return f"{started[:16].replace('T', ' ')} UTC"


def _ends(moments: list[str | None]) -> list[str]:
    known = sorted(moment for moment in moments if moment)
    return [known[0], known[-1]] if known else []


def _of_settings(runs: list[DrawnRun], name: str, called: str) -> str:
    values = dict.fromkeys(run["settings"].get(name, "-") for run in runs)
    values.pop("-", None)
    return f"{called} {first_few(values, _MOST_NAMES)}" if values else ""


def _done(document: RunPictures) -> str:
    done: Rows = document["analysis"]["actions"]
    if not done and len(document["runs"]) == 1 and document["runs"][0]["clients"]:
        return document["runs"][0]["actions"]  # what a tap did has no table
    kinds = Counter(str(action["action"]) for action in done)
    failed = sum(1 for action in done if action["error"])
    named = first_few((f"{times:,} x {kind}" for kind, times in kinds.items()), 4)
    return named + (f" ({counted(failed, 'action')} failed)" if failed else "")


def doubts(document: RunPictures) -> list[str]:
    """What spoils the runs, each in a sentence that begins with the run if there are several."""
    return list(_doubts(document))


def _doubts(document: RunPictures) -> Iterator[str]:
    runs = document["runs"]
    for run in runs:
        prefix = f"{run['run']}: " if len(runs) > 1 else ""
        if run["failed"]:
            yield f"{prefix}The run failed, and is shown as it is: {run['failed']}"
        elif run["stopped"]:
            yield f"{prefix}The run was interrupted, and is shown as it is."
        if run["end_of"]:
            yield f"{prefix}It is the end of a longer run: {run['end_of']}."
        for doubt in run["doubts"]:
            yield f"{prefix}{doubt}"


def client(row: Row, among: Rows) -> str:
    """Whose row it is: its arm, its client (producer or consumer), or both, as rows differ. An arm
    of kipctl's own client beside others, or alone, says so."""
    arms = {other["arm"] for other in among}
    kinds = {other["api"] for other in among if other.get("api")}
    arm = str(row["arm"])
    if arm in OWN_DISCOVERIES and (not arms or not arms <= {*OWN_DISCOVERIES}):
        arm = f"kipctl's client ({arm})"
    if len(kinds) < 2 or not row.get("api"):
        return arm
    kind = _CLIENTS[row["api"]]
    return kind if len(arms) == 1 else f"{arm}, {kind}"
