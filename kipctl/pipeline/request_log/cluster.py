"""What Metadata answers in a request log tell of the cluster: brokers, names of topics, leaders."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

_LOCAL_AND_REMOTE = r"^([^-]*):(\d+)-([^-]*):(\d+)-"


@dataclass(frozen=True, slots=True)
class Brokers:
    """Brokers by the addresses that Metadata named, and their racks. Addresses are host:port.

    A request line does not name the broker that wrote it, but the address at which it was asked.
    That is looked up among the addresses; failing that, since Metadata may name hosts where a line
    has IP addresses, the port alone, when only one broker has it. Else the broker is not known.
    """

    by_address: Mapping[str, int]
    by_port: Mapping[str, int]
    racks: Mapping[int, str]
    ids: tuple[int, ...]

    def of(self, connection: Column) -> Column:
        """The broker (int) of a line's `connection`, or null."""
        host, port = (F.regexp_extract(connection, _LOCAL_AND_REMOTE, group) for group in (1, 2))
        address = F.concat_ws(":", host, port)
        return F.coalesce(_looked_up(self.by_address, address), _looked_up(self.by_port, port))

    def rack_of(self, broker: Column) -> Column:
        """The rack (string) of a broker, or null."""
        return _looked_up(self.racks, broker)


def _looked_up(found: Mapping[str, int] | Mapping[int, str], key: Column) -> Column:
    if not found:
        return F.lit(None)
    pairs = [F.lit(value) for pair in found.items() for value in pair]
    return F.try_element_at(F.create_map(*pairs), key)


def host_of(connection: str) -> Column:
    """The client's host in `connection`: local address, remote address, and what numbers it."""
    return F.regexp_extract(connection, _LOCAL_AND_REMOTE, 3)


def brokers_of(metadata: DataFrame) -> Brokers:
    """The brokers that Metadata answers (`response`) named. An address that several brokers had
    is none's."""
    rows = (
        metadata.select(F.explode("response.brokers").alias("broker"))
        .select("broker.*")
        .distinct()
        .collect()
    )
    addresses: dict[str, set[int]] = {}
    ports: dict[str, set[int]] = {}
    for row in rows:
        addresses.setdefault(f"{row.host}:{row.port}", set()).add(row.nodeId)
        ports.setdefault(str(row.port), set()).add(row.nodeId)

    def of_one(found: Mapping[str, set[int]]) -> dict[str, int]:
        return {key: next(iter(ids)) for key, ids in sorted(found.items()) if len(ids) == 1}

    racks = {row.nodeId: row.rack for row in rows if row.rack is not None}
    ids = sorted({row.nodeId for row in rows})
    return Brokers(of_one(addresses), of_one(ports), dict(sorted(racks.items())), tuple(ids))


def topic_names(metadata: DataFrame) -> DataFrame:
    """`id` and `name` of each topic that a Metadata answer held, once."""
    return (
        metadata.select(F.explode("response.topics").alias("topic"))
        .select(F.col("topic.topicId").alias("id"), F.col("topic.name").alias("name"))
        .filter("id is not null and name is not null")
        .groupBy("id")
        .agg(F.max("name").alias("name"))
    )


def with_topic(partitions: DataFrame, names: DataFrame) -> DataFrame:
    """`topic` instead of `topic_name` and `topic_id`: the id when no answer told the name."""
    return (
        partitions.join(F.broadcast(names), F.col("topic_id") == F.col("id"), "left")
        .withColumn("topic", F.coalesce("topic_name", "name", "topic_id"))
        .drop("topic_name", "topic_id", "id", "name")
    )


def leaders_of(metadata: DataFrame) -> DataFrame:
    """When each leader of a partition was first told: `topic`, `partition`, `leader`, `time_us`.

    `metadata` has `response` and `received_us`. Of two leaders the one of the higher leader epoch
    is the later, whatever brokers that had not heard yet went on to say.
    """
    told = (
        metadata.select("received_us", F.explode("response.topics").alias("topic"))
        .select("received_us", "topic.name", F.explode("topic.partitions").alias("p"))
        .filter("p.leaderId >= 0")
        .groupBy(
            F.col("name").alias("topic"),
            F.expr("p.partitionIndex").alias("partition"),
            F.expr("p.leaderEpoch").alias("epoch"),
            F.expr("p.leaderId").alias("leader"),
        )
        .agg(F.min("received_us").alias("time_us"))
    )
    later_known = Window.partitionBy("topic", "partition").orderBy("time_us")
    newest = F.max("epoch").over(later_known.rowsBetween(Window.unboundedPreceding, -1))
    return (
        told.withColumn("_newest", newest)
        .filter("_newest is null or epoch > _newest")
        .select("topic", "partition", "leader", "time_us")
    )


def with_leader(rows: DataFrame, leaders: DataFrame) -> DataFrame:
    """Add `leader` of a row's topic and partition, as it was known at `time_us`; null before any
    Metadata answer told it."""
    told = leaders.select("topic", "partition", "time_us", F.col("leader").alias("_told"))
    so_far = (
        Window.partitionBy("topic", "partition")
        .orderBy("time_us", F.col("_told").isNull())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return (
        rows.withColumn("_is_row", F.lit(True))
        .unionByName(told, allowMissingColumns=True)
        .withColumn("leader", F.last("_told", ignorenulls=True).over(so_far))
        .filter("_is_row")
        .drop("_is_row", "_told")
    )
