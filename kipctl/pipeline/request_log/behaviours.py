"""What refused clients did, counted by software and by client, and judged."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kipctl.client_behaviour.behaviour import Seen, Waits
from kipctl.client_behaviour.doubt import Doubt
from kipctl.client_behaviour.episode import AT_ONCE_US, WENT_TO_HINTED, HintFault, Outcome
from kipctl.documents.analysis import RefusedCounts
from kipctl.documents.pages import Row
from kipctl.pipeline.clients import SOFTWARE
from kipctl.pipeline.columns import count_if, nearest_rank, sum_of
from kipctl.pipeline.jvm import of_table
from kipctl.pipeline.redirect_episodes import PARTITION
from kipctl.pipeline.request_log.log import RequestLog
from kipctl.protocol.api import ApiKey

_TIMES_OF_BROKERS = pa.schema(
    [
        ("cluster", pa.string()),
        ("ids", pa.list_(pa.int32())),
        (
            "times",
            pa.list_(
                pa.struct([("broker", pa.int32()), ("from_us", pa.int64()), ("to_us", pa.int64())])
            ),
        ),
    ]
)
_TIMES = {"reaction": "reaction_us", "behind": "behind_us", "wait": "wait_us"}


def name_of(value: str) -> str:
    """An outcome, or what is wrong with a hint, as a name of a column."""
    return value.replace("'", "").replace(" ", "_").lower()


def with_namesakes(episodes: DataFrame, attempts: DataFrame) -> DataFrame:
    """Add `is_namesake`: what the client, which is sent hints, asked one broker of one partition
    went back and forth between connections. One process has one for it, or makes another one;
    nobody can tell which of several is answered by which request. Clients that are sent no hints
    may well send over any connection of a pool, and are taken for one (`tap.episodes` likewise).
    """
    client = ("cluster", "client", "api_key")
    in_turn = Window.partitionBy(*PARTITION, "broker").orderBy("sent_us", "connection")
    other = F.lag("connection").over(in_turn) != F.col("connection")
    namesakes = (
        attempts.filter(F.col("api_key") != int(ApiKey.METADATA))
        .select(*PARTITION, "broker", "connection", other.alias("_turned"), "hint_leader")
        .groupBy(*PARTITION, "broker", "connection")
        .agg(
            count_if(F.coalesce("_turned", F.lit(True))).alias("_turns"),
            F.max("hint_leader").alias("_hint"),
        )
        .groupBy(*client)
        .agg(F.max("_turns").alias("_turns"), F.max("_hint").alias("_hint"))
        .filter("_turns > 1 and _hint >= 0")
        .select(*client, F.lit(True).alias("is_namesake"))
    )
    joined = episodes.alias("of").join(namesakes.alias("other"), _same(client), "left")
    return joined.select("of.*", F.coalesce("other.is_namesake", F.lit(False)).alias("is_namesake"))


def with_coverage(episodes: DataFrame, log: RequestLog) -> DataFrame:
    """Add `no_log`: the leader that a usable hint names, and that the client was not seen to go to,
    has no log of that time; what the client did is then unseen, and so is `outcome`. Where no hint
    tells where it went, it has no wait if any broker lacks its log."""
    rows = []
    for cluster, nodes in log.nodes.items():
        times = [
            {"broker": broker, "from_us": start, "to_us": end}
            for (log_cluster, broker), own in log.logged.items()
            if log_cluster == cluster and isinstance(broker, int)
            for start, end in own.times
        ]
        ids = sorted({node.id for node in nodes})
        rows.append({"cluster": cluster, "ids": ids, "times": times})
    known = of_table(log.rows.sparkSession, pa.Table.from_pylist(rows, _TIMES_OF_BROKERS))

    def is_logged(broker: Column) -> Column:
        return F.exists(
            "times",
            lambda span: (
                (span["broker"] == broker)
                & (span["from_us"] <= F.col("refused_us") + AT_ONCE_US)
                & (span["to_us"] >= F.col("refused_us"))
            ),
        )

    leader = F.col("hint_leader")
    went_there = F.coalesce(F.col("to_broker") == leader, F.lit(False))
    is_unseen = leader.isNotNull() & ~went_there & ~is_logged(leader)
    is_untold = leader.isNull() & F.exists("ids", lambda broker: ~is_logged(broker))
    unseen = F.coalesce(is_unseen, F.lit(False))
    untold = unseen | F.coalesce(is_untold, F.lit(False))
    return (
        episodes.join(F.broadcast(known), "cluster", "left")
        .withColumns(
            {
                "no_log": unseen,
                "outcome": F.when(unseen, Outcome.UNSEEN.value).otherwise(F.col("outcome")),
                "reaction_us": F.when(~untold, F.col("reaction_us")),
                "wait_us": F.when(~untold, F.col("wait_us")),
            }
        )
        .drop("ids", "times")
    )


def with_clocks(episodes: DataFrame, differences: DataFrame) -> DataFrame:
    """Correct `reaction_us` and `wait_us` by what is known of brokers' clocks, and add
    `is_off`: they may be off by more than AT_ONCE_US, no one knows by how much.

    `episodes` have the software; `differences` are those of `clocks.clock_differences`. By how much
    one clock is ahead of another lies between two bounds, if clients moved both ways. Where these
    are near each other, it is taken from them. Where they are not, it is what makes the clients of
    this software wait as long one way as the other, if all waits of one way are longer than those
    of the other; of a software that moved one way alone nothing is told. Between brokers that all
    clients left in the same direction clocks are taken as equal.
    """
    hop = ["cluster", "from_broker", "to_broker"]
    bounds = _both_ways(differences, ["cluster"], "quarter_us", "at_most_us", "back_us")
    usual = episodes.groupBy(*hop, *SOFTWARE).agg(
        F.struct(
            nearest_rank("reaction_us", 0.5).alias("p50"),
            F.min("reaction_us").alias("least"),
            F.max("reaction_us").alias("most"),
        ).alias("_us")
    )
    ways = _both_ways(usual, ["cluster", *SOFTWARE], "_us", "_there", "_back")
    at_least, at_most = -F.col("back_us"), F.col("at_most_us")
    is_near = at_most - at_least <= AT_ONCE_US
    alike = (F.col("_there.p50") - F.col("_back.p50")) / 2
    # Each of one way is longer than each of the other: that is no chance.
    is_apart = (F.col("_there.most") < F.col("_back.least")) | (
        F.col("_back.most") < F.col("_there.least")
    )
    # No least and no most of what is null.
    is_known = F.col("back_us").isNotNull() & F.col("at_most_us").isNotNull()
    within = F.greatest(at_least, F.least(at_most, F.when(is_apart, alike).otherwise(F.lit(0))))
    ahead = (
        F.when(~is_known | F.coalesce(at_least > at_most, F.lit(True)), None)
        .when(is_near, (at_least + at_most) / 2)
        .when(alike.isNotNull(), within)
        .cast("bigint")
    )
    off = F.coalesce("_ahead_us", F.lit(0))
    columns = ("reaction_us", "wait_us")
    is_off = F.col("_is_known") & F.col("_ahead_us").isNull()
    corrected = {name: F.when(~is_off, _at_least_0(F.col(name) - off)) for name in columns}
    return (
        episodes.join(bounds, hop, "left")
        .join(ways, [*hop, *SOFTWARE], "left")
        .withColumns({"_ahead_us": ahead, "_is_known": is_known})
        .withColumns({"is_off": is_off, **corrected})
        .select(*episodes.columns, "is_off")
    )


def _at_least_0(us: Column) -> Column:
    return F.when(us < 0, 0).otherwise(us)


def _both_ways(pairs: DataFrame, keys: list[str], us: str, there: str, back: str) -> DataFrame:
    """Rows of pairs of brokers with the value of this way, and of the way back if there is one."""
    back_rows = pairs.select(
        *keys,
        F.col("from_broker").alias("to_broker"),
        F.col("to_broker").alias("from_broker"),
        F.col(us).alias(back),
    )
    this = pairs.select(*keys, "from_broker", "to_broker", F.col(us).alias(there))
    return this.join(back_rows, [*keys, "from_broker", "to_broker"], "full")


def _same(names: Sequence[str]) -> list[Column]:
    """The cluster may not be known."""
    return [F.col(f"of.{name}").eqNullSafe(F.col(f"other.{name}")) for name in names]


def with_software(episodes: DataFrame, owners: DataFrame) -> DataFrame:
    """Add the software; `owners` name that of a `connection` of a `cluster`."""
    joined = episodes.alias("of").join(owners.alias("other"), _same(("cluster", "connection")))
    return joined.select("of.*", *(f"other.{name}" for name in SOFTWARE))


def behaviour_counts(episodes: DataFrame) -> DataFrame:
    """Episodes counted by software, and by software and client (`client` is null for all).

    `episodes` are those of `redirect_episodes`, `with_software`, `with_namesakes`, `with_coverage`,
    `with_clocks`. Result: `cluster`, the software, `client`; `episodes`, of those `namesakes`,
    `no_logs`, `off_clocks`, and of those that are no namesakes `unfinished`, `loops`; `errors`,
    `hints`; by outcome how many (`followed`) and with how many hints (`followed_hints`), by fault
    how many; `at_once`, hints followed within AT_ONCE_US; percentiles of `reaction_us` of those
    that were followed, of `behind_us` (of those that stood behind another request) and of `wait_us`
    of those that ended and were no loop; `longest_us`, from a first refusal to the success, or to
    what was seen last.
    """
    alone = ~F.col("is_namesake")
    is_followed = alone & F.col("outcome").isin(*(outcome.value for outcome in WENT_TO_HINTED))
    behind = F.coalesce(F.col("was_behind"), F.lit(False))
    is_timed = alone & F.col("ended_us").isNotNull() & ~F.col("looped")
    rows = (
        episodes.withColumn("behind_us", F.when(is_followed & behind, F.col("reaction_us")))
        .withColumn("_at_once", is_followed & (F.col("reaction_us") < AT_ONCE_US))
        .withColumn("reaction_us", F.when(is_followed & ~behind, F.col("reaction_us")))
        .withColumn("wait_us", F.when(is_timed, F.col("wait_us")))
    )

    def columns_of(outcome: Outcome) -> list[Any]:
        is_it, name = alone & (F.col("outcome") == outcome.value), name_of(outcome.value)
        hints = sum_of(F.when(is_it, F.col("hints")))
        return [count_if(is_it).alias(name), hints.alias(f"{name}_hints")]

    return rows.groupingSets(
        [["cluster", *SOFTWARE, "client"], ["cluster", *SOFTWARE]], "cluster", *SOFTWARE, "client"
    ).agg(
        F.count("*").alias("episodes"),
        count_if(F.col("is_namesake")).alias("namesakes"),
        count_if(F.col("no_log")).alias("no_logs"),
        count_if(F.col("is_off")).alias("off_clocks"),
        count_if(F.col("outcome").isNull()).alias("of_unknown_brokers"),
        count_if(F.col("ended_us").isNull()).alias("unfinished"),
        count_if(F.col("looped")).alias("loops"),
        F.sum("errors").alias("errors"),
        F.sum("hints").alias("hints"),
        sum_of(F.when(F.col("_at_once"), F.col("hints"))).alias("at_once"),
        *(column for outcome in Outcome for column in columns_of(outcome)),
        *(
            count_if(F.array_contains("faults", fault.value)).alias(name_of(fault.value))
            for fault in HintFault
        ),
        F.max(F.coalesce("ended_us", "last_us") - F.col("first_error_us")).alias("longest_us"),
        *(
            column
            for name, us in _TIMES.items()
            for column in (
                F.count(us).alias(f"{name}s"),
                nearest_rank(us, 0.5).alias(f"{name}_p50_us"),
                nearest_rank(us, 0.99).alias(f"{name}_p99_us"),
                F.max(us).alias(f"{name}_max_us"),
            )
        ),
    )


def seen_of(row: Row | None, leader_errors: int, hints: int) -> Seen:
    """What was seen of a client, from a row of `behaviour_counts` (None: no episode)."""
    if row is None:
        return Seen(leader_errors=leader_errors, hints=hints)
    doubts = []
    if 2 * row["namesakes"] > row["episodes"]:
        doubts.append(Doubt.NAMESAKES)
    if 2 * row["no_logs"] > row["episodes"]:
        doubts.append(Doubt.NO_LOG)
    if 2 * row["off_clocks"] > row["episodes"]:
        doubts.append(Doubt.CLOCKS)
    reaction_us = row["reaction_p50_us"]
    if reaction_us is None and row["behind_p50_us"] is not None:
        reaction_us = row["behind_p50_us"]
        doubts.append(Doubt.BUSY)
    waits = (row[f"wait_{quantile}_us"] or 0 for quantile in ("p50", "p99", "max"))
    return Seen(
        leader_errors=leader_errors,
        hints=hints,
        outcomes={outcome: count for outcome in Outcome if (count := row[name_of(outcome.value)])},
        loops=row["loops"],
        faults={fault: count for fault in HintFault if (count := row[name_of(fault.value)])},
        reaction_p50_us=reaction_us,
        waits=Waits(row["waits"], *waits),
        longest_us=row["longest_us"],
        doubts=tuple(doubts),
    )


_COUNTED = (
    *("episodes", "unfinished", "loops", "namesakes", "no_logs", "off_clocks"),
    *(name_of(outcome.value) for outcome in Outcome),
)
_WAITS = ("wait_p50_us", "wait_p99_us", "wait_max_us", "longest_us")


def counts_of(row: Row | None) -> RefusedCounts:
    """What `seen_of` judges, as it stands in the document: `episodes`, `followed_hints` and
    `wait_ms`; None where brokers are not known, or nothing was seen."""
    hints = [f"{name_of(outcome.value)}_hints" for outcome in WENT_TO_HINTED]
    if row is None:
        row = dict.fromkeys((*_COUNTED, "hints", "at_once", "waits", "of_unknown_brokers"), 0)
        row |= dict.fromkeys(_WAITS) | dict.fromkeys(hints, 0)
    is_known = not row["episodes"] or row["of_unknown_brokers"] < row["episodes"]
    followed = sum(row[name] for name in hints)
    p50, p99, longest, until = (None if row[name] is None else row[name] / 1000 for name in _WAITS)
    return {
        "episodes": {"total" if name == "episodes" else name: row[name] for name in _COUNTED},
        "followed_hints": {
            "present": row["hints"],
            "followed": followed if is_known else None,
            "at_once": row["at_once"] if is_known else None,
        },
        "wait_ms": {
            "episode_count": row["waits"],
            "p50": p50,
            "p99": p99,
            "max": longest,
            "longest": until,
        },
    }
