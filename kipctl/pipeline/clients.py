"""The fleet: clients by their software and version, what they speak, and what they suffered."""

import re
from collections.abc import Collection
from enum import StrEnum

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kipctl.pipeline.columns import count_if, is_leader_error, nearest_rank, sum_of

SOFTWARE = ("software_name", "software_version")
HINT_COUNTS = ("present", "unseen", "reached", "used")
FIRST_PRODUCE_WITH_HINTS = 10
FIRST_FETCH_WITH_HINTS = 16
"""From these versions on, an error that another broker leads names that broker (KIP-951)."""


class HintUse(StrEnum):
    """Whether a client can use leader hints."""

    USES = "uses"
    """It is sent hints, and retries at once where they point."""
    WAITS = "waits"
    """It is sent hints and reads them, but waits out its `retry.backoff.ms` all the same."""
    GETS = "gets"
    """It is sent hints; what it makes of them is not known."""
    NONE = "none"
    """The versions that it speaks, or that its brokers speak, have no hints."""
    NOT_APPLICABLE = "-"
    """It neither produces nor fetches."""


_USERS = {"apache-kafka-java": (3, 7), "kgo": (1, 17), "kipctl": (0,)}
"""Clients that follow hints, and since which version: Java 3.7.0, franz-go 1.17 (as KGO's
changelog says)."""
_RDKAFKA = re.compile(r"rdkafka")


def hint_use(
    name: str, version: str, produce_versions: Collection[int], fetch_versions: Collection[int]
) -> HintUse:
    """What a client of this software can make of hints, by the versions it was seen to use.

    The most able version counts. librdkafka and what is built on it (its name is in the version:
    `2.16.1-rdkafka-2.16.0`) reads hints and waits; see docs/request-log.md.
    """
    if not produce_versions and not fetch_versions:
        return HintUse.NOT_APPLICABLE
    is_sent = (
        max(produce_versions, default=-1) >= FIRST_PRODUCE_WITH_HINTS
        or max(fetch_versions, default=-1) >= FIRST_FETCH_WITH_HINTS
    )
    if not is_sent:
        return HintUse.NONE
    if _RDKAFKA.search(f"{name} {version}"):
        return HintUse.WAITS
    since = _USERS.get(name)
    if since is not None and version_numbers(version) >= since:
        return HintUse.USES
    return HintUse.GETS


def version_numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: (3, 7, 1) of `v3.7.1-rc1`."""
    found = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(int(number) for number in found[1].split(".")) if found else ()


def client_counts(calls: DataFrame) -> DataFrame:
    """How many requests each client made, and the clients of each software together.

    Result: `cluster`, the software, `origin`, `is_client`; for each `client` (`is_client`): its
    `requests`, `connections` and `hosts` (how many different); and without a client for each
    software and origin the same, of which `hosts` counts clients, of different id or host.
    """
    by_software = ["cluster", *SOFTWARE, "origin"]
    who = F.struct(F.coalesce("client", F.lit("")).alias("client"), "host")
    return (
        calls.select(*by_software, "client", who.alias("_who"), "connection", "requests")
        .groupingSets([[*by_software, "client"], by_software], *by_software, "client")
        .agg(
            (F.grouping("client") == 0).alias("is_client"),
            F.sum("requests").alias("requests"),
            F.count_distinct("connection").alias("connections"),
            F.count_distinct("_who").alias("hosts"),
        )
    )


def api_counts(calls: DataFrame, *keys: str) -> DataFrame:
    """Requests by API and version, and by other columns: the keys, `api_key`, `api`,
    `api_version`, `requests`, and `first_us` and `last_us` of them."""
    return calls.groupBy(*keys, "api_key", "api", "api_version").agg(
        F.sum("requests").alias("requests"),
        F.min("first_us").alias("first_us"),
        F.max("last_us").alias("last_us"),
    )


def error_counts(calls: DataFrame) -> DataFrame:
    """What partitions were answered, counted: `cluster`, `api_key`, `origin`, the software,
    `error`, `is_leader_error`, `hinted`, `appended` (it has a base offset), `named` (a preferred
    read replica); `partitions` (answers for one partition each)."""
    keys = ("cluster", "api_key", "origin", *SOFTWARE)
    kinds = ("error", "hinted", "appended", "named")
    return (
        calls.select(*keys, "requests", F.explode("answers").alias("answer"))
        .groupBy(*keys, *(F.col(f"answer.{name}").alias(name) for name in kinds))
        .agg(F.sum(F.col("answer.partitions") * F.col("requests")).alias("partitions"))
        .select("*", is_leader_error().alias("is_leader_error"))
    )


def metadata_counts(metadata: DataFrame) -> DataFrame:
    """Metadata requests by `cluster`, the software and `cause`: `requests`, `bytes` of the
    answers."""
    return metadata.groupBy("cluster", *SOFTWARE, "cause").agg(
        F.sum("requests").alias("requests"),
        sum_of(F.col("response_bytes") * F.col("requests")).alias("bytes"),
    )


def waits(episodes: DataFrame, owners: DataFrame) -> DataFrame:
    """How long redirected clients had no request under way for the partition, by software.

    `episodes` are those of `redirect_episodes`; `owners` name the software of each `client` of a
    `cluster`. Result: `cluster`, the software; `episodes`, `unfinished`; p50, p99, max and sum
    of `wait_us` of those that were finished (null if none was); the sums of HINT_COUNTS; and
    `loops`, episodes in which the client went in a circle.
    """
    finished = "if(ended_us is null, null, wait_us)"
    same = F.col("of.cluster").eqNullSafe(F.col("owner.cluster")) & (
        F.col("of.client") == F.col("owner.client")
    )
    return (
        episodes.alias("of")
        .join(owners.alias("owner"), same)
        .groupBy("of.cluster", *SOFTWARE)
        .agg(
            F.count("*").alias("episodes"),
            count_if(F.col("ended_us").isNull()).alias("unfinished"),
            nearest_rank(finished, 0.5).alias("p50_us"),
            nearest_rank(finished, 0.99).alias("p99_us"),
            F.expr(f"max({finished})").alias("max_us"),
            F.expr(f"sum({finished})").alias("sum_us"),
            *(F.sum(f"hints_{name}").alias(f"hints_{name}") for name in HINT_COUNTS),
            count_if(F.col("looped")).alias("loops"),
        )
    )


def read_counts(reads: DataFrame) -> DataFrame:
    """What consumers that name their rack read, by racks: `cluster`, the software, `client_rack`,
    `broker_rack` (null if not known); `fetches`, `bytes`. `reads` have `rack`, `requests`,
    `read_bytes`."""
    return reads.groupBy(
        "cluster", *SOFTWARE, F.col("rack").alias("client_rack"), "broker_rack"
    ).agg(F.sum("requests").alias("fetches"), sum_of("read_bytes").alias("bytes"))
