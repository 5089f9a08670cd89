"""Episodes of refused clients as brokers logged them: `client_behaviour.episode` in SQL.

A broker logs an answer and how long it took; from that an attempt was sent, and answered. What one
client asked of one partition, and what Metadata showed it of that partition, are events in the
order of time. Each rule here is one of `Episode`'s; a test holds the two equal.
"""

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.types import (
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from kipctl.client_behaviour.episode import (
    BACKOFF_US,
    LOOP_REFUSALS,
    LOOP_US,
    PAUSE_US,
    HintFault,
    Outcome,
)
from kipctl.pipeline.columns import brokers_named, count_if, is_leader_error
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode

ATTEMPTS = StructType(
    [
        StructField("cluster", StringType()),
        StructField("client", StringType()),  # what tells one client of the cluster from all others
        StructField("connection", StringType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("api_key", IntegerType()),
        StructField("broker", IntegerType()),  # null if it is not known
        StructField("sent_us", LongType()),
        StructField("received_us", LongType()),  # null if no answer came
        StructField("free_us", LongType()),  # when the connection's last answer was; null: none was
        StructField("error", IntegerType()),  # of the partition
        StructField("base_offset", LongType()),  # >= 0 with an error: appended, then failed
        StructField("hint_leader", IntegerType()),  # null or -1: the error names no leader
        StructField("hint_epoch", IntegerType()),
        StructField("hint_fault", StringType()),  # a HintFault that the answer itself shows
    ]
)
"""A row is one partition in one request. Of a Metadata request `hint_leader` and `hint_epoch` are
what the answer showed of the partition."""

PARTITION = ("cluster", "client", "api_key", "topic", "partition")
_EPISODE = (*PARTITION, "episode")
_ORDER = ("at_us", "kind", "connection", "hint_epoch")
_FENCED = int(ErrorCode.FENCED_LEADER_EPOCH)
_REFUSED, _SHOWN, _SENT, _SUCCEEDED = range(4)
"""Kinds of events; of several at the very same time they come in this order."""


def episodes(attempts: DataFrame) -> DataFrame:
    """A row for each episode, from a frame of the schema ATTEMPTS.

    Result: PARTITION; `connection` (of the first refusal), `first_error_us`, `ended_us` (null if
    the end was not seen) and `last_us` (of what was seen); `errors`, `hints` (errors that name a
    leader), `appended_then_failed`; `outcome` (an Outcome's value), `faults` (HintFaults' values),
    `looped`, `fenced`, `not_ready`, `reaction_us` and `wait_us` as Episode has them; `was_behind`,
    whether the reaction stood behind another request of its connection, and was sent sooner than it
    seems, no one knows when; `refused_us` and `from_broker` (the
    last refusal before the reaction), `to_broker` (that of the reaction), `hint_leader`, `brokers`
    (`1->2`: of the first refusal, and of the end or the last attempt). Where a broker is not known,
    `outcome`, `reaction_us` and `wait_us` are null.

    A broker led by then (`leads`) where it is the one that took the request in the end. A refusal
    that follows another one of its connection without a backoff begins no episode: it was under way
    with that one, whatever has succeeded elsewhere in between.
    """
    return (
        attempts.transform(_events)
        .transform(_numbered)
        .transform(_with_faults)
        .transform(_with_state)
        .transform(_decided)
        .transform(_summed)
    )


def _is(kind: int) -> Column:
    return F.col("kind") == kind


def _events(attempts: DataFrame) -> DataFrame:
    """What happened to partitions that refused a client, a row for each event (`at_us`, `kind`)."""
    is_metadata = F.col("api_key") == int(ApiKey.METADATA)
    asked = attempts.filter(~is_metadata)
    kind = F.when(is_leader_error(), _REFUSED).when(
        (F.col("error") == 0) & F.col("received_us").isNotNull(), _SUCCEEDED
    )
    moments = F.array(
        F.struct(F.col("sent_us").alias("at_us"), F.lit(_SENT).alias("kind")),
        F.struct(F.coalesce("received_us", "sent_us").alias("at_us"), kind.alias("kind")),
    )
    refused = asked.filter(is_leader_error()).select(*PARTITION).distinct()
    requests = (
        asked.alias("of").join(refused.alias("ever"), _same(PARTITION), "left_semi")
    ).select("*", F.explode(moments).alias("moment"))
    of_any_api = [name for name in PARTITION if name != "api_key"]
    shown = (
        attempts.filter(is_metadata & (F.col("hint_leader") >= 0))
        .alias("of")
        .join(refused.alias("ever"), _same(of_any_api))
        .select(
            *(f"ever.{name}" if name == "api_key" else f"of.{name}" for name in attempts.columns),
            F.struct(F.col("received_us").alias("at_us"), F.lit(_SHOWN).alias("kind")).alias(
                "moment"
            ),
        )
    )
    return requests.unionByName(shown).select("*", "moment.*").filter("kind is not null")


def _same(names: list[str] | tuple[str, ...]) -> list[Column]:
    """The cluster may not be known."""
    return [F.col(f"of.{name}").eqNullSafe(F.col(f"ever.{name}")) for name in names]


def _before(*keys: str) -> WindowSpec:
    ordered = Window.partitionBy(*keys).orderBy(*_ORDER)
    return ordered.rowsBetween(Window.unboundedPreceding, -1)


def _newest() -> Column:
    """What the greatest of a leader has the newest epoch; of several leaders at it the first."""
    return F.struct("hint_epoch", (-F.col("at_us")).alias("_first"), "hint_leader")


def _numbered(events: DataFrame) -> DataFrame:
    """The events of episodes alone, with `episode` (a number in the partition), `first_error_us`
    and `_known`, what Metadata showed before. Between two successes lies at most one episode, which
    the later one ends."""
    of_connection = F.max(F.when(_is(_REFUSED), F.col("at_us"))).over(
        _before(*PARTITION, "connection")
    )
    begins = _is(_REFUSED) & F.coalesce(F.col("at_us") - of_connection >= BACKOFF_US, F.lit(True))
    so_far = Window.partitionBy(*_EPISODE).orderBy(*_ORDER)
    shown = F.max(F.when(_is(_SHOWN), _newest())).over(_before(*PARTITION))
    return (
        events.withColumns({"_begins": begins, "_known": shown})
        .withColumn("episode", count_if(_is(_SUCCEEDED)).over(_before(*PARTITION)))
        .withColumn(
            "first_error_us",
            F.min(F.when(F.col("_begins"), F.col("at_us"))).over(
                so_far.rowsBetween(Window.unboundedPreceding, Window.currentRow)
            ),
        )
        .filter("first_error_us is not null")
    )


def _with_faults(events: DataFrame) -> DataFrame:
    """Replace `hint_fault` by what is wrong with the hint by what this client was shown before
    (by Metadata, and by other hints of the episode), and add `is_hint`."""
    is_hint = _is(_REFUSED) & (F.col("hint_leader") >= 0)
    tells = is_hint & F.col("hint_fault").isNull()
    known = F.greatest("_known", F.max(F.when(tells, _newest())).over(_before(*_EPISODE)))
    is_other = F.col("hint_leader") != known["hint_leader"]
    fault = (
        F.when(F.col("hint_epoch") < known["hint_epoch"], HintFault.OLDER.value)
        .when((F.col("hint_epoch") == known["hint_epoch"]) & is_other, HintFault.SAME_EPOCH.value)
        .otherwise(None)
    )
    return events.withColumns(
        {
            "is_hint": F.coalesce(is_hint, F.lit(False)),
            "hint_fault": F.when(is_hint, F.coalesce("hint_fault", fault)),
        }
    )


def _with_state(events: DataFrame) -> DataFrame:
    """Add what holds before each event: `last` refusal, `hint` (the newest usable one), brokers
    that were `named`; of the event `gap_us` since that refusal, whether it is an attempt
    `elsewhere` and whether it `decides`; and `looped`."""
    before = _before(*_EPISODE)
    usable = F.col("is_hint") & F.col("hint_fault").isNull()
    refusal = F.struct("at_us", "broker", "connection")
    is_elsewhere = (
        _is(_SENT)
        & (F.col("broker") != F.col("last.broker"))
        & (F.col("connection") != F.col("last.connection"))
    )
    after_pause = _is(_SENT) & (F.col("gap_us") >= BACKOFF_US) & F.col("hint").isNotNull()
    after_pause &= ~F.coalesce(_was_behind("free_us", "last.at_us", "at_us"), F.lit(False))
    in_row = Window.partitionBy(*_EPISODE, "_row").orderBy(*_ORDER)
    in_sight = Window.partitionBy(*_EPISODE, "_row", "_shown").orderBy(*_ORDER)
    refused_us = F.when(_is(_REFUSED), F.col("at_us"))
    return (
        events.select(
            "*",
            F.last(F.when(_is(_REFUSED), refusal), ignorenulls=True).over(before).alias("last"),
            F.max(F.when(usable, _newest())).over(before).alias("hint"),
            F.collect_set(F.when(_is(_SHOWN), F.col("hint_leader"))).over(before).alias("named"),
            count_if(_is(_SHOWN)).over(before).alias("_shown"),
        )
        .withColumn("gap_us", F.col("at_us") - F.col("last.at_us"))
        .withColumn("elsewhere", F.coalesce(is_elsewhere, F.lit(False)))
        .withColumn("decides", F.coalesce(F.col("elsewhere") | after_pause, F.lit(False)))
        # Refusals in a row have no pause between them.
        .withColumn(
            "_row",
            count_if(_is(_REFUSED) & (F.col("gap_us") >= PAUSE_US)).over(
                Window.partitionBy(*_EPISODE).orderBy(*_ORDER)
            ),
        )
        .withColumn("_row_us", F.col("at_us") - F.min(refused_us).over(in_row))
        .withColumn(
            "looped",
            _is(_REFUSED)
            & (count_if(_is(_REFUSED)).over(in_sight) >= LOOP_REFUSALS)
            & (F.col("_row_us") >= LOOP_US),
        )
        .withColumn(
            "_loops", F.bool_or("looped").over(Window.partitionBy(*_EPISODE).orderBy(*_ORDER))
        )
    )


def _was_behind(free_us: str, refused_us: str, at_us: str) -> Column:
    """Whether an attempt stood behind another request since then: a broker reads the requests of a
    connection one after the other."""
    return (F.col(free_us) > F.col(refused_us)) & (F.col(at_us) - F.col(free_us) < PAUSE_US)


def _decided(events: DataFrame) -> DataFrame:
    """Add the episode's `decision` (the event that decides; null if none does) and `taker` (the
    broker that took the request in the end)."""
    whole = Window.partitionBy(*_EPISODE)
    event = F.struct(
        "at_us", "kind", "connection", "broker", "elsewhere", "hint",
        F.array_contains("named", F.col("broker")).alias("is_named"),
    )  # fmt: skip
    return events.withColumns(
        {
            "decision": F.min(F.when(F.col("decides"), event)).over(whole),
            "taker": F.max(F.when(_is(_SUCCEEDED), F.col("broker"))).over(whole),
        }
    )


def _summed(events: DataFrame) -> DataFrame:
    goes_to = F.col("decision.broker")
    hinted = F.col("decision.hint.hint_leader")
    is_refused = _is(_REFUSED)
    undecided = F.col("decision").isNull() | (F.col("at_us") <= F.col("decision.at_us"))
    fault = F.when(is_refused & undecided, F.col("hint_fault"))
    # Asked again after a backoff, or in a loop, the hinted leader refuses, and names itself.
    disowned = (
        is_refused
        & ~undecided
        & (F.col("hint_fault") == HintFault.REFUSER.value)
        & (F.col("broker") == hinted)
        & ((F.col("gap_us") >= BACKOFF_US) | F.col("_loops"))
    )
    held = F.when(undecided, F.col("hint.hint_leader")).otherwise(hinted)
    not_ready = is_refused & (F.col("broker") == held) & (F.col("gap_us") >= PAUSE_US)
    leads = (
        _is(_SENT) & (F.col("broker") == F.col("taker")) & (F.col("broker") != F.col("last.broker"))
    )
    at = F.struct(*_ORDER)
    usable = F.col("is_hint") & F.col("hint_fault").isNull()
    tried = is_refused | _is(_SENT)
    # It had not read the refusal when it sent on: see `Episode.sent`.
    stalled = F.coalesce(
        (F.col("_reaction.broker") == hinted)
        & (F.col("_reaction.gap_us") < BACKOFF_US)
        & ~F.array_contains("_reaction.named", F.col("_reaction.broker")),
        F.lit(False),
    )
    outcome = (
        F.when(F.col("_unknown_brokers"), None)
        .when(F.col("_disowned"), Outcome.NOT_HINTED.value)
        .when(F.col("decision").isNull() & F.col("_usable"), Outcome.UNSEEN.value)
        .when(F.coalesce(hinted.isNull(), F.lit(True)), Outcome.NOT_HINTED.value)
        .when(~F.col("decision.elsewhere") & stalled, Outcome.FOLLOWED.value)
        .when(~F.col("decision.elsewhere"), Outcome.SENT_BACK.value)
        .when(goes_to != hinted, Outcome.ELSEWHERE.value)
        .when(F.col("decision.is_named"), Outcome.BY_METADATA.value)
        .otherwise(Outcome.FOLLOWED.value)
    )
    known = ~F.col("_unknown_brokers")
    behind = _was_behind("_reaction.free_us", "_reaction.last.at_us", "_reaction.at_us")
    return (
        events.groupBy(*_EPISODE)
        .agg(
            F.first("decision").alias("decision"),
            F.min("first_error_us").alias("first_error_us"),
            F.min_by("connection", F.when(is_refused, at)).alias("connection"),
            F.min(F.when(_is(_SUCCEEDED), F.col("at_us"))).alias("ended_us"),
            F.max("at_us").alias("last_us"),
            count_if(is_refused).alias("errors"),
            count_if(F.col("is_hint")).alias("hints"),
            count_if(is_refused & (F.col("base_offset") >= 0)).alias("appended_then_failed"),
            F.bool_or("looped").alias("looped"),
            F.bool_or(is_refused & (F.col("error") == _FENCED)).alias("fenced"),
            count_if(not_ready).alias("not_ready"),
            F.collect_set(fault).alias("faults"),
            F.bool_or(F.coalesce(disowned, F.lit(False))).alias("_disowned"),
            F.bool_or(usable).alias("_usable"),
            F.bool_or(tried & F.col("broker").isNull()).alias("_unknown_brokers"),
            F.min_by(
                F.struct("gap_us", "last", "broker", "at_us", "free_us", "named"),
                F.when(F.col("elsewhere"), at),
            ).alias("_reaction"),
            F.min(F.when(leads, F.col("at_us") - F.col("first_error_us"))).alias("wait_us"),
            F.max_by(F.struct("at_us", "broker"), F.when(is_refused, at)).alias("_last"),
            F.max_by("hint_leader", F.when(usable, _newest())).alias("hint_leader"),
            F.min_by("broker", F.when(is_refused, at)).alias("_first_broker"),
            F.max_by("broker", F.when(tried, at)).alias("_last_broker"),
        )
        .select(
            *PARTITION,
            "connection",
            "first_error_us",
            "ended_us",
            "last_us",
            "errors",
            "hints",
            "appended_then_failed",
            "looped",
            "fenced",
            "not_ready",
            F.when(
                F.col("_disowned"),
                F.array_union("faults", F.array(F.lit(HintFault.REFUSER.value))),
            )
            .otherwise(F.col("faults"))
            .alias("faults"),
            outcome.alias("outcome"),
            F.when(known, F.col("_reaction.gap_us")).alias("reaction_us"),
            F.when(known, F.col("wait_us")).alias("wait_us"),
            F.coalesce(behind, F.lit(False)).alias("was_behind"),
            F.coalesce("_reaction.last.at_us", "_last.at_us").alias("refused_us"),
            F.coalesce("_reaction.last.broker", "_last.broker").alias("from_broker"),
            F.col("_reaction.broker").alias("to_broker"),
            F.coalesce(hinted, "hint_leader").alias("hint_leader"),
            brokers_named(F.col("_first_broker"), F.col("_last_broker")).alias("brokers"),
        )
    )
