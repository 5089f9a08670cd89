"""Lines that are alike, counted, with what their header says: the finest rows that are kept."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kipctl.pipeline.request_log.bodies import narrowed, with_header_of_pieces
from kipctl.pipeline.request_log.callers import UNKNOWN
from kipctl.pipeline.request_log.line_pieces import PIECES
from kipctl.pipeline.request_log.places import address_of, host_of

PARSED, BROKEN, OTHER = "parsed", "broken", "other"
_EARLIEST_US = 1_600_000_000_000_000
"""In 2020: no Kafka wrote JSON before."""
_KEYS = ("file", "is_request", "envelope", *PIECES, "notes")


def grouped(cuts: DataFrame, slice_us: int = 0) -> DataFrame:
    """Rows of `cuts.CUT` with bodies `narrowed`, alike ones (of one slice) in one row."""
    slices = [F.floor(F.col("first_us") / slice_us).alias("_slice")] if slice_us else []
    return (
        cuts.groupBy(*_KEYS, *slices)
        .agg(
            F.sum("requests").alias("requests"),
            # A clock that was not set yet would stretch the period over decades.
            F.min(F.when(F.col("first_us") >= _EARLIEST_US, F.col("first_us"))).alias("first_us"),
            F.max(F.when(F.col("last_us") >= _EARLIEST_US, F.col("last_us"))).alias("last_us"),
            F.sum("read_bytes").alias("read_bytes"),
        )
        .drop("_slice")
    )


def groups_of(cuts: DataFrame, slice_us: int = 0) -> DataFrame:
    """What cut lines (`cuts.CUT`) say, a row for lines that are alike; with `slice_us` a row for
    those of each slice of time of that length.

    Result: `file`; `kind`, PARSED, BROKEN (it holds the marker, and no whole JSON) or OTHER;
    `envelope` (of `cuts.CUT`); `requests`, the number of lines; `first_us` and `last_us`, when the
    first and the last was answered (microseconds since the epoch); and, null but for PARSED:
    `api_key`, `api`, `api_version`, `client`, `connection`, `is_forwarded`, `address` (the
    broker's), `host` (the client's), `software` (`name`, `version`; null where it is not told),
    `rack` and `read_bytes` of consumers that name their rack, and of `bodies.narrowed` `answers`,
    `metadata`, `single`.
    """
    groups = cuts.transform(narrowed).transform(grouped, slice_us).transform(with_header_of_pieces)

    def header_field(name: str) -> Column:
        return F.coalesce(f"header.{name}", f"notes.header.{name}")

    version = header_field("requestHeader.requestApiVersion")
    software = _software(
        header_field("clientInformation.softwareName"),
        header_field("clientInformation.softwareVersion"),
    )
    announced = F.from_json(
        F.concat(F.lit('{"clientSoftwareName":'), "announced", F.lit("}")),
        "clientSoftwareName string, clientSoftwareVersion string",
    )
    rack = F.get_json_object(F.concat(F.lit('{"rack":'), "rack", F.lit("}")), "$.rack")
    of_announced = _software(announced["clientSoftwareName"], announced["clientSoftwareVersion"])
    return groups.select(
        "file",
        F.when(~F.col("is_request"), OTHER)
        .when(version.isNull(), BROKEN)
        .otherwise(PARSED)
        .alias("kind"),
        "envelope",
        "requests",
        "first_us",
        "last_us",
        header_field("requestHeader.requestApiKey").alias("api_key"),
        header_field("requestHeader.requestApiKeyName").alias("api"),
        version.alias("api_version"),
        header_field("requestHeader.clientId").alias("client"),
        header_field("connection").alias("connection"),
        F.coalesce(header_field("isForwarded"), F.lit(False)).alias("is_forwarded"),
        address_of(header_field("connection")).alias("address"),
        host_of(header_field("connection")).alias("host"),
        F.coalesce(software, of_announced).alias("software"),
        F.coalesce(rack, "notes.rack").alias("rack"),
        # Notes that are alike are counted together: each of their requests brought as much.
        F.coalesce("read_bytes", F.col("notes.read_bytes") * F.col("requests"), F.lit(0)).alias(
            "read_bytes"
        ),
        F.col("notes.answers").alias("answers"),
        F.col("notes.metadata").alias("metadata"),
        F.col("notes.single").alias("single"),
    )


def _software(name: Column, version: Column) -> Column:
    both = F.struct(name.alias("name"), version.alias("version"))
    return F.when(name != UNKNOWN, both)
