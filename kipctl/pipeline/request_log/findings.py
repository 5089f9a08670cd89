"""What refused clients did as facts (`client_behaviour.facts`), and the findings that these are.

Brokers' lines tell of episodes and of Metadata requests. What follows from connections, from what a
client was shown before the log, or from one that did nothing more, only the tap sees.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import chain, starmap

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kipctl.client_behaviour.doubt import Doubt
from kipctl.client_behaviour.episode import AT_ONCE_US, BACKOFF_US, REFRESH_US, HintFault, Outcome
from kipctl.client_behaviour.facts import (
    FEW_REFUSALS,
    LONG_US,
    NOT_READY_TIMES,
    OFTEN,
    End,
    EpisodeFact,
    Event,
    Fact,
    Pace,
)
from kipctl.client_behaviour.findings.catalogue import Seen, seen
from kipctl.client_behaviour.findings.document import finding_document
from kipctl.client_behaviour.findings.finding import Times
from kipctl.client_behaviour.software import Software
from kipctl.documents.analysis import LoggedFinding
from kipctl.documents.pages import Row, Rows
from kipctl.pipeline.clients import SOFTWARE
from kipctl.pipeline.request_log.callers import client_key
from kipctl.pipeline.request_log.log import RequestLog
from kipctl.protocol.api_versions import OWN_SOFTWARE
from kipctl.severity import Severity

_SECOND_US = 1_000_000
_MOST_SECONDS = 12
"""Of an episode, or of a request for Metadata: clients are followed for 10 to 20 s."""
_CLIENTS_NAMED = 10


def episode_facts(episodes: DataFrame, metadata: DataFrame, log: RequestLog) -> DataFrame:
    """Episodes counted by the fields of EpisodeFact: `cluster`, the software, `client` (null for
    all of the software), those fields, `event` (null), `times`.

    `episodes` are those of `behaviours.behaviour_counts`, `metadata` those of
    `metadata.metadata_requests`.
    """
    lasts_us = F.coalesce("wait_us", F.coalesce("ended_us", "last_us") - F.col("first_error_us"))
    reaction = F.col("reaction_us")
    pace = (
        F.when(reaction.isNull(), Pace.NOT_SEEN.value)
        .when(reaction < AT_ONCE_US, Pace.AT_ONCE.value)
        .when(reaction < BACKOFF_US, Pace.QUICK.value)
        .otherwise(Pace.AFTER_BACKOFF.value)
    )
    doubt = (
        F.when(F.col("is_namesake"), Doubt.NAMESAKES.value)
        .when(F.col("no_log"), Doubt.NO_LOG.value)
        .when(F.col("is_off"), Doubt.CLOCKS.value)
        .when(F.col("was_behind"), Doubt.BUSY.value)
    )
    facts = with_refreshes(episodes, metadata, log).select(
        "cluster",
        *SOFTWARE,
        "client",
        F.col("api_key").alias("api"),
        "outcome",
        F.array_sort("faults").alias("faults"),
        pace.alias("pace"),
        F.when(F.col("ended_us").isNull(), End.OPEN.value)
        .otherwise(End.SUCCESS.value)
        .alias("end"),
        F.col("looped").alias("is_loop"),
        F.col("fenced").alias("is_fenced"),
        "is_refreshed",
        (F.col("not_ready") > NOT_READY_TIMES).alias("is_not_ready"),
        (lasts_us >= LONG_US).alias("is_long"),
        (F.col("errors") <= FEW_REFUSALS).alias("few_refusals"),
        doubt.alias("doubt"),
        F.lit(None).cast("string").alias("event"),
        F.lit(1).cast("bigint").alias("times"),
    )
    return _counted(facts)


def with_refreshes(episodes: DataFrame, metadata: DataFrame, log: RequestLog) -> DataFrame:
    """Add `is_refreshed`, as Episode has it; null where a broker's log is missing, or the logs end
    before it would be seen."""
    whole = [
        cluster
        for cluster, nodes in log.nodes.items()
        if all((cluster, node.id) in log.logged for node in nodes)
    ]
    until_us = min((own.times[-1][1] for own in log.logged.values() if own.times), default=0)
    from_us = F.col("first_error_us") - REFRESH_US // 2
    to_us = F.coalesce("ended_us", "last_us") + REFRESH_US
    is_told = F.col("of.cluster").isin(whole) & (F.col("of._to_us") <= until_us)
    asked = metadata.select(
        "cluster",
        client_key().alias("client"),
        "sent_us",
        "received_us",
        F.explode(_seconds("sent_us", "received_us")).alias("_second"),
    )
    numbered = episodes.withColumns(
        {"_id": F.monotonically_increasing_id(), "_from_us": from_us, "_to_us": to_us}
    )
    seconds = F.explode(_seconds("_from_us", "_to_us")).alias("_second")
    refreshed = (
        numbered.select("_id", "cluster", "client", "_from_us", "_to_us", seconds)
        .join(asked, ["cluster", "client", "_second"])
        .filter((F.col("received_us") >= F.col("_from_us")) & (F.col("sent_us") <= F.col("_to_us")))
        .select("_id")
        .distinct()
        .withColumn("_asked", F.lit(True))
    )
    joined = numbered.alias("of").join(refreshed.alias("asked"), "_id", "left")
    is_refreshed = F.coalesce("asked._asked", F.when(is_told, F.lit(False)))
    return joined.select("of.*", is_refreshed.alias("is_refreshed"))


def _seconds(from_us: str, to_us: str) -> Column:
    """Those of a time."""
    first, last = F.floor(F.col(from_us) / _SECOND_US), F.floor(F.col(to_us) / _SECOND_US)
    return F.sequence(first, F.least(last, first + _MOST_SECONDS))


def metadata_facts(metadata: DataFrame) -> DataFrame:
    """Metadata that was answered as before, `OFTEN` over one connection: the columns of
    `episode_facts`, with `event`."""
    in_turn = Window.partitionBy("cluster", "client", "host").orderBy(
        "sent_us", "connection", "correlation"
    )
    alike = F.col("same") & F.lag("asked").over(in_turn).eqNullSafe(F.col("asked"))
    second = F.floor(F.col("received_us") / _SECOND_US)
    times = F.floor(F.sum("requests") / OFTEN[Event.ALIKE_METADATA].times).cast("bigint")
    facts = (
        metadata.select("*", alike.alias("_alike"), second.alias("_second"))
        .filter("_alike")
        .groupBy("cluster", *SOFTWARE, client_key().alias("client"), "connection", "_second")
        .agg(times.alias("times"))
        .filter("times > 0")
        .select(
            "cluster",
            *SOFTWARE,
            "client",
            F.lit(-1).alias("api"),
            *(F.lit(None).cast("string").alias(name) for name in ("outcome", "pace", "end")),
            F.array().cast("array<string>").alias("faults"),
            *(F.lit(None).cast("boolean").alias(name) for name in _FLAGS),
            F.lit(None).cast("string").alias("doubt"),
            F.lit(Event.ALIKE_METADATA.value).alias("event"),
            "times",
        )
    )
    return _counted(facts)


_FLAGS = ("is_loop", "is_fenced", "is_refreshed", "is_not_ready", "is_long", "few_refusals")
_FACT = ("api", "outcome", "faults", "pace", "end", *_FLAGS, "doubt", "event")


def _counted(facts: DataFrame) -> DataFrame:
    by_software = ["cluster", *SOFTWARE, *_FACT]
    return facts.groupingSets([[*by_software, "client"], by_software], *by_software, "client").agg(
        F.sum("times").alias("times")
    )


def fact_of(row: Row) -> Fact:
    """The fact that a row counts."""
    if row["event"] is not None:
        return Event(row["event"])
    return EpisodeFact(
        api=row["api"],
        outcome=None if row["outcome"] is None else Outcome(row["outcome"]),
        faults=tuple(sorted(map(HintFault, row["faults"]))),
        pace=Pace(row["pace"]),
        end=End(row["end"]),
        doubt=None if row["doubt"] is None else Doubt(row["doubt"]),
        **{name: row[name] for name in _FLAGS},
    )


def findings_of(rows: Rows) -> list[LoggedFinding]:
    """The findings of each software of a cluster but kipctl, the worst first, with the clients that
    have it by themselves; rows are those of `episode_facts` and `metadata_facts`."""
    facts: dict[Software, dict[str | None, Counter[Fact]]] = defaultdict(
        lambda: defaultdict(Counter)
    )
    for row in rows:
        software = Software(row["software_name"], row["software_version"])
        if software.name != OWN_SOFTWARE:
            facts[software][row["client"]][fact_of(row)] += row["times"]
    findings = chain.from_iterable(starmap(_of_software, facts.items()))
    return sorted(
        findings, key=lambda row: (Severity(row["severity"]).rank, -row["times"], row["software"])
    )


def _of_software(
    software: Software, clients: Mapping[str | None, Counter[Fact]]
) -> list[LoggedFinding]:
    """What is seen of all together, or else of some client."""
    overall = {entry.finding.id: entry for entry in seen(clients.get(None, Counter()), software)}
    having: dict[str, list[tuple[int, str, Seen]]] = defaultdict(list)
    for client, facts in clients.items():
        if client is not None:
            for entry in seen(facts, software):
                having[entry.finding.id].append((-entry.times.seen, client, entry))
    rows: list[LoggedFinding] = []
    for id in dict.fromkeys((*overall, *having)):
        affected = sorted(having[id], key=lambda each: each[:2])
        entry = overall.get(id) or affected[0][2]
        counts = [entry.times] if id in overall else [each.times for *_, each in affected]
        times = Times(sum(each.seen for each in counts), sum(each.of for each in counts))
        rows.append(
            {
                **finding_document(entry.finding, times, entry.known),
                "software": software.name,
                "version": software.version,
                "client_count": len(affected),
                "client_ids": [client for _, client, _ in affected[:_CLIENTS_NAMED]],
            }
        )
    return rows
