"""Who sent the requests of a log: clients and their software, followers, other brokers."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kipctl.pipeline.request_log.cluster import Brokers, host_of
from kipctl.protocol.api import ApiKey

UNKNOWN = "unknown"
"""What Kafka writes for a client's software until ApiVersions told it (KIP-511)."""
BROKER_APIS = (4, 5, 6, 7, 27, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82)
"""What only brokers and controllers ask of one another: LeaderAndIsr, StopReplica, UpdateMetadata,
ControlledShutdown, WriteTxnMarkers, Vote, BeginQuorumEpoch, EndQuorumEpoch, AlterPartition,
Envelope, FetchSnapshot, BrokerRegistration, BrokerHeartbeat, AllocateProducerIds,
ControllerRegistration, AssignReplicasToDirs, UpdateRaftVoter."""
CALLER = (
    "client",
    "host",
    "connection",
    "number",
    "software_name",
    "software_version",
    "origin",
    "broker",
)
"""Columns that `with_caller` makes."""

_REPLICA = r"^(broker-\d+-fetcher-\d+|raft-client-\d+)$"
_BROKERS_OWN = r"^(broker-\d+-.*|raft-client-\d+|AddPartitionsManager-client-\d+)$"


def with_call(rows: DataFrame) -> DataFrame:
    """Add to rows with `header` what it says: `api_key`, `api`, `api_version`, `correlation`,
    `client`, `connection`, `is_forwarded`, `total_ms`."""
    request = F.col("header.requestHeader")
    return rows.drop("origin", "client", "connection", "software").select(
        "*",
        request.requestApiKey.alias("api_key"),
        request.requestApiKeyName.alias("api"),
        request.requestApiVersion.alias("api_version"),
        request.correlationId.alias("correlation"),
        request.clientId.alias("client"),
        F.col("header.connection").alias("connection"),
        F.coalesce("header.isForwarded", F.lit(False)).alias("is_forwarded"),
        F.col("header.totalTimeMs").alias("total_ms"),
    )


def connections_of(calls: DataFrame, brokers: Brokers) -> DataFrame:
    """What all requests of a connection tell together: `connection`, `is_forwarded`,
    `software_name`, `software_version`, `is_among_brokers`, and a `number`.

    `calls` have what `with_call` adds, and `announced`. The first requests of a connection come
    before ApiVersions told the client's software: what later ones say holds for them too. A
    forwarded request has the connection of the broker that passed it on to the controller, which
    says nothing of the client.
    """
    told = F.col("header.clientInformation")
    announced = F.from_json(
        F.concat(F.lit('{"clientSoftwareName":'), "announced", F.lit("}")),
        "clientSoftwareName string, clientSoftwareVersion string",
    )
    software = F.when(
        told.softwareName != UNKNOWN, _software(told.softwareName, told.softwareVersion)
    ).when(
        F.col("announced") != "",
        _software(announced.clientSoftwareName, announced.clientSoftwareVersion),
    )
    is_number = F.col("client").isin([str(broker) for broker in brokers.ids])
    own = (
        F.col("client").rlike(_BROKERS_OWN)
        | F.col("api_key").isin(*BROKER_APIS)
        # A broker's own requests to the controller bear its number.
        | (is_number & brokers.of(F.col("connection")).isNull())
    )
    shared = calls.groupBy("connection", "is_forwarded").agg(
        F.max(software).alias("_software"), F.max(own).alias("is_among_brokers")
    )
    known = F.when(~F.col("is_forwarded"), F.col("_software"))
    return shared.select(
        "connection",
        "is_forwarded",
        F.coalesce(known["name"], F.lit(UNKNOWN)).alias("software_name"),
        F.coalesce(known["version"], F.lit(UNKNOWN)).alias("software_version"),
        "is_among_brokers",
        F.row_number().over(Window.orderBy("connection", "is_forwarded")).alias("number"),
    )


def with_caller(calls: DataFrame, connections: DataFrame, brokers: Brokers) -> DataFrame:
    """Add `host`, `number`, `software_name`, `software_version`, `origin` and `broker`.

    `origin` is client; replica, the fetches of a follower or of a node that follows the cluster's
    metadata; broker, other requests among brokers and controllers; or forwarded, a client's
    request that a broker passed on to the controller (it is in that broker's own log too).
    """
    is_replica = (F.col("api_key") == int(ApiKey.FETCH)) & F.col("client").rlike(_REPLICA)
    origin = (
        F.when(F.col("is_forwarded"), "forwarded")
        .when(is_replica, "replica")
        .when(F.col("is_among_brokers"), "broker")
        .otherwise("client")
    )
    return (
        calls.join(connections, ["connection", "is_forwarded"])
        .withColumn("origin", origin)
        .withColumn("host", host_of("connection"))
        .withColumn("broker", brokers.of(F.col("connection")))
        .drop("is_among_brokers")
    )


def _software(name: Column, version: Column) -> Column:
    return F.struct(name.alias("name"), version.alias("version"))


def client_key() -> Column:
    """What tells one client from another: client ids alone are shared by many (`rdkafka`)."""
    return F.concat_ws("@", "client", "host")
