"""Who sent requests, how many bytes of records, what of it crossed racks, and in which versions."""

from collections.abc import Iterable, Set
from itertools import chain

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kipctl.counts import cost_per_month
from kipctl.documents.log_traffic import (
    DeprecatedUse,
    LoggedPrincipal,
    RackCrossing,
    RacklessReads,
    Talker,
)
from kipctl.documents.pages import Row
from kipctl.pipeline.clients import SOFTWARE
from kipctl.pipeline.columns import sum_of, sum_of_rates
from kipctl.protocol.api import ApiKey
from kipctl.protocol.api_versions import LEAST_OF_KAFKA_4, OWN_SOFTWARE

_PRINCIPAL = ("principal", "listener", "security_protocol", "origin")


def principal_counts(calls: DataFrame) -> DataFrame:
    """`cluster` and _PRINCIPAL; `clients` (different in id or host), `connections`, `requests`."""
    who = F.struct(F.coalesce("client", F.lit("")).alias("client"), "host")
    return (
        calls.withColumn("_who", who)
        .groupBy("cluster", *_PRINCIPAL)
        .agg(
            F.count_distinct("_who").alias("clients"),
            F.count_distinct("connection").alias("connections"),
            F.sum("requests").alias("requests"),
        )
    )


def talker_counts(calls: DataFrame) -> DataFrame:
    """Bytes of records of clients, by `cluster`, `rack` (that consumers name), the software and
    `client`, and (not `is_client`) of all of a rack, kipctl's own (`is_own`) apart: `clients`
    (different in id or host), `bytes`, of these `produced_bytes` and `fetched_bytes`; of those that
    were fetched `placed_bytes`, from brokers whose rack is known, and `near_bytes`, from those of
    the same rack; and `placed_rate` and `near_rate`, per second of each broker's log."""
    is_read = F.col("api_key") == int(ApiKey.FETCH)
    is_placed = is_read & F.col("broker_rack").isNotNull()
    is_near = is_placed & (F.col("broker_rack") == F.col("rack"))
    size, seconds = F.col("record_bytes"), 60 * F.col("minutes")
    client = F.coalesce("client", F.lit(""))
    by_rack = ["cluster", "rack", "is_own"]
    is_own = F.col("software_name") == OWN_SOFTWARE
    return (
        calls.filter((F.col("origin") == "client") & (size > 0))
        .withColumns({"client": client, "_who": F.struct(client, "host"), "is_own": is_own})
        .groupingSets([[*by_rack, *SOFTWARE, "client"], by_rack], *by_rack, *SOFTWARE, "client")
        .agg(
            (F.grouping("client") == 0).alias("is_client"),
            F.count_distinct(F.when(is_read, F.col("_who"))).alias("clients"),
            F.sum("record_bytes").alias("bytes"),
            sum_of(F.when(~is_read, size)).alias("produced_bytes"),
            sum_of(F.when(is_read, size)).alias("fetched_bytes"),
            sum_of(F.when(is_placed, size)).alias("placed_bytes"),
            sum_of(F.when(is_near, size)).alias("near_bytes"),
            sum_of_rates(F.when(is_placed, size / seconds)).alias("placed_rate"),
            sum_of_rates(F.when(is_near, size / seconds)).alias("near_rate"),
        )
    )


def deprecated_counts(calls: DataFrame) -> DataFrame:
    """Requests of clients in versions that Kafka 4 refuses, by what it takes, or as their broker
    says: one from 3.7 on does. Up to 3.9.1 it says so of JoinGroup 0 and 1 too (KAFKA-19444)."""
    least = F.create_map(*map(F.lit, chain.from_iterable(LEAST_OF_KAFKA_4.items())))
    is_too_old = F.col("api_version") < F.try_element_at(least, "api_key")
    is_join = F.col("api_key") == int(ApiKey.JOIN_GROUP)
    is_told = F.col("is_deprecated") & ~(is_join & (F.col("api_version") < 2))
    is_refused = is_told | F.coalesce(is_too_old, F.lit(False))
    of_clients = calls.filter((F.col("origin") == "client") & is_refused)
    keys = ("cluster", *SOFTWARE, "client", "api", "api_version")
    return of_clients.groupBy(*keys).agg(F.sum("requests").alias("requests"))


def principals_of(rows: Iterable[Row]) -> list[LoggedPrincipal]:
    """Those of most requests first."""
    return [
        {
            "principal": row["principal"],
            "listener": row["listener"],
            "security_protocol": row["security_protocol"],
            "origin": row["origin"],
            "client_count": row["clients"],
            "connections": row["connections"],
            "requests": row["requests"],
        }
        for row in sorted(rows, key=lambda row: -row["requests"])
    ]


def talkers_of(rows: Iterable[Row], racks: Set[str], price_per_gb: float | None) -> list[Talker]:
    """Consumers that name no rack first, then those of most bytes, kipctl's own last. `racks` are
    the cluster's."""
    talkers: list[Talker] = [
        {
            "client_id": row["client"],
            "software": row["software_name"],
            "version": row["software_version"],
            "rack": row["rack"],
            "produced_bytes": row["produced_bytes"],
            **_crossing(row, racks, price_per_gb),
        }
        for row in rows
        if row["is_client"]
    ]
    return sorted(
        talkers,
        key=lambda talker: (
            talker["software"] == OWN_SOFTWARE,
            talker["rack"] is not None or not talker["fetched_bytes"],
            -talker["produced_bytes"] - talker["fetched_bytes"],
            talker["client_id"] or "",
        ),
    )


def rackless_reads(
    rows: Iterable[Row], racks: Set[str], price_per_gb: float | None
) -> RacklessReads:
    """What all consumers together read that name no rack, but kipctl's own."""
    for row in rows:
        if not row["is_client"] and not row["is_own"] and row["rack"] is None:
            return {"client_count": row["clients"], **_crossing(row, racks, price_per_gb)}
    return {"client_count": 0, "fetched_bytes": 0, "cross_rack_bytes": 0, "price_of_30_days": None}


def _crossing(row: Row, racks: Set[str], price_per_gb: float | None) -> RackCrossing:
    """Who names no rack of the cluster may be in any: the mean over all is taken, as of groups in
    `cluster.inspect.group_traffic`."""
    size: float = row["placed_bytes"]
    rate: float | None = row["placed_rate"]
    if row["rack"] in racks:
        size -= row["near_bytes"]
        rate = None if rate is None else rate - (row["near_rate"] or 0)
    elif racks:
        size *= 1 - 1 / len(racks)
        rate = None if rate is None else rate * (1 - 1 / len(racks))
    return {
        "fetched_bytes": row["fetched_bytes"],
        "cross_rack_bytes": round(size) if racks else None,
        "price_of_30_days": cost_per_month(rate, price_per_gb) if racks else None,
    }


def deprecated_of(rows: Iterable[Row]) -> list[DeprecatedUse]:
    """Those of most requests first."""
    return [
        {
            "client_id": row["client"],
            "software": row["software_name"],
            "version": row["software_version"],
            "api": row["api"],
            "api_version": row["api_version"],
            "requests": row["requests"],
        }
        for row in sorted(rows, key=lambda row: -row["requests"])
    ]
