"""What brokers' request logs say, in sentences: `request_log_tables` has what they are of."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from kipctl.counts import agreeing, counted, first_few, format_bytes
from kipctl.documents.analysis import LoggedCluster, LoggedFinding, RequestLogAnalysis
from kipctl.documents.log_traffic import Talker
from kipctl.errors import did_you_mean
from kipctl.next_step import Command
from kipctl.report.findings import known_in_words
from kipctl.report.log_traffic_tables import is_own
from kipctl.severity import Severity

_AGAIN_AND_AGAIN = 20
_NAMED = 5
_HINT_USES = {"-": "neither produce nor fetch"}


def request_log_answer(document: RequestLogAnalysis) -> tuple[str, ...]:
    """What clients do wrong, the worst first; what spoils the answer; whom Kafka 4.0 refuses, and
    what racks cost; then what clients do when leaders move: how many of which kind, and a sentence
    for each software that met it. What kipctl did itself is counted by itself."""
    clients: Counter[str] = Counter()
    told: list[str] = []
    at_first: list[str] = []
    own = 0
    for cluster in document["clusters"]:
        at_first += [*_deprecated(cluster), *_across_racks(cluster)]
        own += sum(row["requests"] for row in cluster["fleet"] if is_own(row))
        for row in cluster["fleet"]:
            if is_own(row):
                continue
            clients[row["hint_behaviour"]] += row["client_count"]
            if row["not_leader"]["total"]:
                verdict = row["verdict"]
                what = f"{row['software']} {row['version']} {verdict['sentence']}"
                told.append(f"{what} {verdict['advice'] or ''}".rstrip())
        told += _asking_again(cluster)
    lines = counted(document["lines"]["parsed"], "line")
    if not clients:
        but = f", but kipctl: {counted(own, 'request')}" if own else ""
        return (f"No client is in the {lines} that could be read{but}.",)
    uses = "; ".join(f"{_HINT_USES.get(how, how)}: {n:,}" for how, n in clients.most_common())
    first = (
        f"{counted(clients.total(), 'client', 'are')} in {lines}. What they do with leader hints"
        f" (KIP-951): {uses}."
    )
    if own:
        first += f" kipctl's own {counted(own, 'request', 'are')} not among them."
    return (*_finding_sentences(document), *_not_in_the_logs(document), *at_first, first, *told)


def _finding_sentences(document: RequestLogAnalysis) -> Iterator[str]:
    """Findings of all clusters but notes, which the table has."""
    for cluster in document["clusters"]:
        for finding in cluster["findings"]:
            if finding["severity"] != Severity.NOTE:
                yield finding_sentence(finding)


def finding_sentence(finding: LoggedFinding) -> str:
    """Who does what, how often, what that costs and what to change."""
    who = f"{finding['software']} {finding['version']}"
    clients = f", {', '.join(finding['client_ids'])}" if finding["client_count"] else ""
    more = finding["client_count"] - len(finding["client_ids"])
    clients += f" and {more:,} more" if more else ""
    known = f" Known: {known_in_words(finding)}." if finding["known"] else ""
    return (
        f"{finding['id']} ({finding['severity']}): {who}{clients} {finding['does']},"
        f" {finding['times']:,} of {finding['of']:,} times. {finding['costs']} {finding['change']}"
        f"{known} More: " + Command("explain", finding["id"])
    )


def _not_in_the_logs(document: RequestLogAnalysis) -> Iterator[str]:
    """What spoils the answer: logs that are missing, times that are off, files that are copies."""
    for cluster in document["clusters"]:
        brokers = cluster["brokers"]
        if missing := [str(row["broker"]) for row in brokers if not row["line_count"]]:
            those = "broker" if len(missing) == 1 else "brokers"
            yield (
                f"There is no log of {those} {', '.join(missing)}: what clients did there was not"
                " seen."
            )
        for row in brokers:
            if row["gaps"]:
                gap = row["gaps"][0]
                yield (
                    f"The log of broker {row['broker']} has {counted(len(row['gaps']), 'gap')}, the"
                    f" first from {gap['from']} to {gap['to']}."
                )
            if hours := row["hours_apart"]:
                yield (
                    f"The log of broker {row['broker']} begins and ends {abs(hours):g} h"
                    f" {'after' if hours > 0 else 'before'} those of the others: if that is its"
                    " zone, give --timezone PATH=ZONE."
                )
    for turn in document["turned_clocks"]:
        what = (
            "leave out an hour after {at}: clocks were put forward then"
            if turn["is_forward"]
            else "go back by an hour at {at}: clocks were put back then, and what was answered in"
            " the hour before and after it is mixed up; --since and --before leave it out"
        )
        yield f"The times of {turn['file']} {what.format(at=turn['at'])}."
    if copies := document["copies"]:
        copy, kept = next(iter(copies.items()))
        yield (
            f"{counted(len(copies), 'file', 'hold')} what another one holds, and"
            f" {'is' if len(copies) == 1 else 'are'} left out: {copy} is {kept}."
        )


def _asking_again(cluster: LoggedCluster) -> Iterator[str]:
    """The client that asks for Metadata most without a cause, if it does so again and again."""
    askers = [row for row in cluster["metadata_clients"] if not row["is_kipctl"]]
    askers.sort(key=lambda row: -row["unexplained"])
    for row in askers[:1]:
        if row["unexplained"] >= _AGAIN_AND_AGAIN:
            yield (
                f"{row['client']} ({row['software']} {row['version']}) asked for Metadata"
                f" {row['unexplained']:,} times without a cause that shows, of {row['requests']:,};"
                f" {row['answered_the_same']:,} times it was told what it had just been told."
                f" {row['known_bug'] or ''}"
            ).rstrip()


def _across_racks(cluster: LoggedCluster) -> list[str]:
    """What consumers read across racks that name none of the cluster's: the most first."""
    reading = [row for row in cluster["talkers"] if row["fetched_bytes"] and not is_own(row)]
    racks = {row["rack"] for row in cluster["brokers"] if row["rack"] is not None}
    unknown: dict[str, list[Talker]] = defaultdict(list)
    for row in reading:
        if row["rack"] is not None and row["rack"] not in racks and row["cross_rack_bytes"]:
            unknown[row["rack"]].append(row)
    sentences = [_of_unknown_rack(rack, rows, racks) for rack, rows in unknown.items()]
    reads = cluster["rackless_reads"]
    if (across := reads["cross_rack_bytes"]) and reads["fetched_bytes"]:
        ids = [row["client_id"] or "" for row in reading if row["rack"] is None]
        costs = _costs(reads["fetched_bytes"], across, reads["price_of_30_days"])
        named = first_few(ids, _NAMED)
        who = f"{counted(reads['client_count'], 'consumer', 'name')} no rack and"
        sentences.append(
            (
                across,
                f"{who} {agreeing(reads['client_count'], 'read')} {costs}: {named}.",
            )
        )
    return [sentence for _, sentence in sorted(sentences, key=lambda item: -item[0])]


def _of_unknown_rack(rack: str, rows: Sequence[Talker], racks: set[str]) -> tuple[int, str]:
    """How many bytes cross racks, and the sentence."""
    ids = list(dict.fromkeys(row["client_id"] or "" for row in rows))
    across = sum(row["cross_rack_bytes"] or 0 for row in rows)
    prices = [row["price_of_30_days"] for row in rows if row["price_of_30_days"] is not None]
    costs = _costs(
        sum(row["fetched_bytes"] for row in rows),
        across,
        sum(prices) if len(prices) == len(rows) else None,
        " from leaders",
    )
    is_one, named = len(ids) == 1, first_few(ids, _NAMED)
    return across, (
        f"The cluster has no rack {rack!r}, which {named} {'names' if is_one else 'name'}:"
        f" {'it reads' if is_one else 'they read'} {costs}.{did_you_mean(rack, sorted(racks))}"
    )


def _costs(fetched: int, across: int, price: float | None, whence: str = "") -> str:
    costs = f" ({price:,.2f} in 30 days)" if price is not None else ""
    return (
        f"{format_bytes(fetched)}{whence}, {format_bytes(across)} of it across racks if they are in"
        f" any of them{costs}"
    )


def _deprecated(cluster: LoggedCluster) -> Iterator[str]:
    """Which clients would be refused."""
    ids = list(dict.fromkeys(row["client_id"] or "" for row in cluster["deprecated"]))
    if ids:
        yield (
            f"Kafka 4.0 refuses {counted(len(ids), 'client id')} that"
            f" {'uses' if len(ids) == 1 else 'use'} versions of APIs that it has no more (KIP-896):"
            f" {first_few(ids, _NAMED)}."
        )
