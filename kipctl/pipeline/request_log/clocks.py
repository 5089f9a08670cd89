"""How far apart the clocks of brokers are, at the least: told by clients that went from one to
another.

A client that is refused by the leader of a partition turns to the next one afterwards. Where the
next one's clock says that it came before the refused request, that clock is behind by so much, or
more: what comes on top is delay, as in NTP's clock filter. NTP takes the least of all; here the
least quarter is left out, since some clients learn of a move without being refused, and turn to the
next leader while a request to the last one is still under way.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kipctl.pipeline.columns import is_leader_error, nearest_rank
from kipctl.protocol.api import ApiKey

NEAR_US = 1_000_000
"""A client's first request to a broker for so long is one that it turned to the broker with; clocks
that are further apart are not found."""
_LEAST_MOVES = 4
_QUANTILE = 0.25

_CLIENT = ("cluster", "client", "api_key")
_PARTITION = (*_CLIENT, "topic", "partition")


def clock_differences(attempts: DataFrame) -> DataFrame:
    """For pairs of brokers between which clients moved, from a frame of the schema ATTEMPTS:
    `cluster`, `from_broker`, `to_broker`; `quarter_us`, the time by their clocks between a refused
    request to the first and the client's first one to the second, which a quarter does not exceed;
    `moves`, how many. Pairs of fewer than _LEAST_MOVES are left out.

    The clock of `to_broker` is ahead of that of `from_broker` by `quarter_us` at most: below 0, it
    is behind. Only clients count that have one connection to each broker: of several with one id on
    one host, nobody could tell which one moved.
    """
    at_broker = Window.partitionBy(*_PARTITION, "broker").orderBy("sent_us")
    of_brokers = attempts.filter(f"broker is not null and api_key != {int(ApiKey.METADATA)}")
    is_one = F.count_distinct("connection") == F.count_distinct("broker")
    single = of_brokers.groupBy(*_CLIENT).agg(is_one.alias("is_one")).filter("is_one")
    same_client = [F.col(f"of.{name}").eqNullSafe(F.col(f"single.{name}")) for name in _CLIENT]
    known = (
        of_brokers.alias("of")
        .join(single.alias("single"), same_client, "left_semi")
        .select(
            *_PARTITION,
            "broker",
            "sent_us",
            is_leader_error().alias("refused"),
            F.lag("sent_us").over(at_broker).alias("previous_us"),
        )
    )
    first = F.col("previous_us").isNull() | (F.col("sent_us") - F.col("previous_us") > NEAR_US)
    arrivals = known.filter(first).select(
        *_PARTITION, F.col("broker").alias("to_broker"), F.col("sent_us").alias("arrived_us")
    )
    refused = known.filter("refused").select(
        *_PARTITION, F.col("broker").alias("from_broker"), F.col("sent_us").alias("refused_us")
    )
    # Of several refused ones under way at a time, the client may have turned away after the first.
    in_turn = Window.partitionBy(*_PARTITION, "from_broker").orderBy("refused_us")
    earliest = refused.select("*", F.lag("refused_us").over(in_turn).alias("_previous_us")).filter(
        F.col("_previous_us").isNull() | (F.col("refused_us") - F.col("_previous_us") > NEAR_US)
    )
    # The cluster may not be known.
    same = [F.col(f"of.{name}").eqNullSafe(F.col(f"after.{name}")) for name in _PARTITION]
    took = F.col("arrived_us") - F.col("refused_us")
    return (
        arrivals.alias("of")
        .join(earliest.alias("after"), same)
        .filter((F.col("to_broker") != F.col("from_broker")) & (F.abs(took) <= NEAR_US))
        .select("of.cluster", "from_broker", "to_broker", took.alias("took_us"))
        .groupBy("cluster", "from_broker", "to_broker")
        .agg(nearest_rank("took_us", _QUANTILE).alias("quarter_us"), F.count("*").alias("moves"))
        .filter(F.col("moves") >= _LEAST_MOVES)
    )
