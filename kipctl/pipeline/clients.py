"""The fleet: clients by their software and version, what they speak, and what they suffered."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kipctl.pipeline.columns import is_leader_error, sum_of, sum_of_rates
from kipctl.trace.codes import MetadataCause

SOFTWARE = ("software_name", "software_version")


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
    """Metadata requests by `cluster`, the software and `cause`; and (`is_client`) by `client` (an
    id) and `host` instead of the cause: `requests`, those of each cause by its name, how many
    `per_minute` of each broker's log, `bytes` of the answers; of those `unexplained`,
    and of these `answered_the_same`, those that were told just what they had been told before; and
    `asked`, the topics of most."""
    of_software = ["cluster", *SOFTWARE]
    is_same = F.col("same") & (F.col("_cause") == MetadataCause.UNEXPLAINED.name.lower())
    return (
        # What is grouped by is null in the rows of the other grouping.
        metadata.withColumns({"client": F.coalesce("client", F.lit("")), "_cause": F.col("cause")})
        .groupingSets(
            [[*of_software, "cause"], [*of_software, "client", "host"]],
            *of_software,
            "cause",
            "client",
            "host",
        )
        .agg(
            (F.grouping("client") == 0).alias("is_client"),
            F.sum("requests").alias("requests"),
            sum_of_rates(F.col("requests") / F.col("minutes")).alias("per_minute"),
            sum_of(F.col("response_bytes") * F.col("requests")).alias("bytes"),
            *(
                sum_of(F.when(F.col("_cause") == cause.name.lower(), F.col("requests"))).alias(
                    cause.name.lower()
                )
                for cause in MetadataCause
            ),
            sum_of(F.when(is_same, F.col("requests"))).alias("answered_the_same"),
            F.mode("asked").alias("asked"),
        )
    )


def read_counts(reads: DataFrame) -> DataFrame:
    """What consumers that name their rack read, by racks: `cluster`, the software, `client_rack`,
    `broker_rack` (null if not known); `fetches`, `bytes`. `reads` have `rack`, `requests`,
    `record_bytes`."""
    return reads.groupBy(
        "cluster", *SOFTWARE, F.col("rack").alias("client_rack"), "broker_rack"
    ).agg(F.sum("requests").alias("fetches"), sum_of("record_bytes").alias("bytes"))
