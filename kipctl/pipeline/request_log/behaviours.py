"""What refused clients did, counted by software and by client, and judged."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kipctl.client_behaviour.behaviour import Doubt, Seen, Verdict, Waits, advice, in_words, judge
from kipctl.client_behaviour.episode import AT_ONCE_US, HintFault, Outcome
from kipctl.client_behaviour.software import Software
from kipctl.pipeline.clients import SOFTWARE
from kipctl.pipeline.columns import count_if, nearest_rank, sum_of
from kipctl.protocol.api import ApiKey

Row = Mapping[str, Any]

_FOLLOWED = (Outcome.FOLLOWED.value, Outcome.BY_METADATA.value)
_TIMES = {"reaction": "reaction_us", "behind": "behind_us", "wait": "wait_us"}


def name_of(value: str) -> str:
    """An outcome, or what is wrong with a hint, as a name of a column."""
    return value.replace("'", "").replace(" ", "_").lower()


def with_namesakes(episodes: DataFrame, attempts: DataFrame) -> DataFrame:
    """Add `is_namesake`: the client had several connections to one broker at a time, all of one
    API. One process has one; nobody can tell which of several is answered by which request."""
    client = ("cluster", "client", "api_key")
    of_connection = (
        attempts.filter(F.col("api_key") != int(ApiKey.METADATA))
        .groupBy(*client, F.coalesce("broker", F.lit(-1)).alias("_broker"), "connection")
        .agg(F.min("sent_us").alias("_from"), F.max("sent_us").alias("_to"))
    )
    before = (
        Window.partitionBy(*client, "_broker")
        .orderBy("_from", "connection")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    namesakes = (
        of_connection.select(*client, (F.max("_to").over(before) > F.col("_from")).alias("overlap"))
        .filter("overlap")
        .select(*client)
        .distinct()
        .withColumn("is_namesake", F.lit(True))
    )
    joined = episodes.alias("of").join(namesakes.alias("other"), _same(client), "left")
    return joined.select("of.*", F.coalesce("other.is_namesake", F.lit(False)).alias("is_namesake"))


def _same(names: Sequence[str]) -> list[Column]:
    """The cluster may not be known."""
    return [F.col(f"of.{name}").eqNullSafe(F.col(f"other.{name}")) for name in names]


def behaviour_counts(episodes: DataFrame, owners: DataFrame) -> DataFrame:
    """Episodes counted by software, and by software and client (`client` is null for all).

    `episodes` are those of `redirect_episodes`, `with_namesakes`; `owners` name the software of a
    `connection` of a `cluster`. Result: `cluster`, the software, `client`; `episodes`, of those
    `namesakes`, and of the others `unfinished`, `loops`; `errors`, `hints`; by outcome how many
    (`followed`) and with how many hints (`followed_hints`), by fault how many; `at_once`, hints
    followed within AT_ONCE_US; percentiles of `reaction_us` of those that were followed, of
    `behind_us` (of those that stood behind another request) and of `wait_us` of those that ended
    and were no loop; `longest_us`, from a first refusal to the success, or to what was seen last.
    """
    alone = ~F.col("is_namesake")
    is_followed = alone & F.col("outcome").isin(*_FOLLOWED)
    behind = F.coalesce(F.col("was_behind"), F.lit(False))
    is_timed = alone & F.col("ended_us").isNotNull() & ~F.col("looped")
    rows = (
        episodes.alias("of")
        .join(owners.alias("other"), _same(("cluster", "connection")))
        .select("of.*", *(f"other.{name}" for name in SOFTWARE))
        .withColumn("behind_us", F.when(is_followed & behind, F.col("reaction_us")))
        .withColumn("_at_once", is_followed & (F.col("reaction_us") < AT_ONCE_US))
        .withColumn("reaction_us", F.when(is_followed & ~behind, F.col("reaction_us")))
        .withColumn("wait_us", F.when(is_timed, F.col("wait_us")))
    )

    def of(outcome: Outcome) -> list[Any]:
        is_it, name = alone & (F.col("outcome") == outcome.value), name_of(outcome.value)
        hints = sum_of(F.when(is_it, F.col("hints")))
        return [count_if(is_it).alias(name), hints.alias(f"{name}_hints")]

    return rows.groupingSets(
        [["cluster", *SOFTWARE, "client"], ["cluster", *SOFTWARE]], "cluster", *SOFTWARE, "client"
    ).agg(
        F.count("*").alias("episodes"),
        count_if(F.col("is_namesake")).alias("namesakes"),
        count_if(F.col("outcome").isNull()).alias("of_unknown_brokers"),
        count_if(F.col("ended_us").isNull()).alias("unfinished"),
        count_if(F.col("looped")).alias("loops"),
        F.sum("errors").alias("errors"),
        F.sum("hints").alias("hints"),
        sum_of(F.when(F.col("_at_once"), F.col("hints"))).alias("at_once"),
        *(column for outcome in Outcome for column in of(outcome)),
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
    reaction_us = row["reaction_p50_us"]
    if reaction_us is None and row["behind_p50_us"] is not None:
        reaction_us = row["behind_p50_us"]
        doubts.append(Doubt.BUSY)
    waits = (row[f"wait_{of}_us"] or 0 for of in ("p50", "p99", "max"))
    return Seen(
        leader_errors=leader_errors,
        hints=hints,
        outcomes={of: row[name_of(of.value)] for of in Outcome if row[name_of(of.value)]},
        loops=row["loops"],
        faults={of: row[name_of(of.value)] for of in HintFault if row[name_of(of.value)]},
        reaction_p50_us=reaction_us,
        waits=Waits(row["waits"], *waits),
        longest_us=row["longest_us"],
        doubts=tuple(doubts),
    )


def told(seen: Seen, software: Software) -> dict[str, Any]:
    """The verdict as it stands in the document."""
    verdict: Verdict = judge(seen, software)
    return {
        "behaviour": verdict.behaviour.value,
        "fault": verdict.fault.value if verdict.fault else None,
        "why": verdict.why or None,
        "in_words": in_words(verdict, seen),
        "advice": advice(verdict, software) or None,
    }


_COUNTED = ("episodes", "unfinished", "loops", "namesakes", *(name_of(of.value) for of in Outcome))
_WAITS = ("wait_p50_us", "wait_p99_us", "wait_max_us", "longest_us")


def counts_of(row: Row | None) -> dict[str, dict[str, Any]]:
    """What `seen_of` judges, as it stands in the document: `episodes`, `followed_hints` and
    `wait_ms`; None where brokers are not known, or nothing was seen."""
    if row is None:
        row = dict.fromkeys((*_COUNTED, "hints", "at_once", "waits", "of_unknown_brokers"), 0)
        row |= dict.fromkeys(_WAITS) | {f"{name_of(of)}_hints": 0 for of in _FOLLOWED}
    is_known = not row["episodes"] or row["of_unknown_brokers"] < row["episodes"]
    followed = sum(row[f"{name_of(of)}_hints"] for of in _FOLLOWED)
    times = {name.split("_")[-2]: row[name] for name in _WAITS}
    return {
        "episodes": {"total" if name == "episodes" else name: row[name] for name in _COUNTED},
        "followed_hints": {
            "present": row["hints"],
            "followed": followed if is_known else None,
            "at_once": row["at_once"] if is_known else None,
        },
        "wait_ms": {
            "episodes": row["waits"],
            **{of: None if us is None else us / 1000 for of, us in times.items()},
        },
    }
