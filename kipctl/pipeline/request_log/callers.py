"""Who sent the requests of a log: clients and their software, followers, other brokers."""

from collections.abc import Collection

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kipctl.pipeline.request_lines.contents import REPLICA, UNKNOWN
from kipctl.protocol.api import ApiKey
from kipctl.protocol.api_versions import OWN_SOFTWARE

BROKER_APIS = (4, 5, 6, 7, 27, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82)
"""What only brokers and controllers ask of one another: LeaderAndIsr, StopReplica, UpdateMetadata,
ControlledShutdown, WriteTxnMarkers, Vote, BeginQuorumEpoch, EndQuorumEpoch, AlterPartition,
Envelope, FetchSnapshot, BrokerRegistration, BrokerHeartbeat, AllocateProducerIds,
ControllerRegistration, AssignReplicasToDirs, UpdateRaftVoter."""

_CLIENT_APIS = (int(ApiKey.PRODUCE), int(ApiKey.FETCH), int(ApiKey.METADATA))
_KIPCTLS_OWN = rf"^{OWN_SOFTWARE}(-|$)"
_BROKERS_OWN = r"^(broker-\d+-.*|raft-client-\d+|AddPartitionsManager-client-\d+)$"


def with_caller(calls: DataFrame, brokers: Collection[int]) -> DataFrame:
    """Replace `software` by `software_name` and `software_version`, and add `origin`.

    `calls` have `cluster`, `broker`, `connection`, `is_forwarded`, `client`, `api_key` and
    `software` (a struct of `name` and `version`, null where the line does not report it); `brokers`
    are the ids of all.

    The first requests of a connection come before ApiVersions told the client's software: what
    later ones say holds for them too; of a connection that tells none kipctl knows its own by their
    ids. A forwarded request has the connection of the broker that
    passed it on to the controller, which says nothing of the client.

    `origin` is client; replica, the fetches of a follower or of a node that follows the cluster's
    metadata; broker, other requests among brokers and controllers; or forwarded, a client's
    request that a broker passed on to the controller (it is in that broker's own log too).
    """
    of_connection = Window.partitionBy("cluster", "connection", "is_forwarded")
    is_number = F.col("client").isin([str(broker) for broker in sorted(brokers)])
    own = F.col("client").rlike(_BROKERS_OWN) | F.col("api_key").isin(*BROKER_APIS)
    is_reader = F.col("client").rlike(rf"^(?:{REPLICA.pattern})$")
    is_replica = (F.col("api_key") == int(ApiKey.FETCH)) & is_reader
    kept = [name for name in calls.columns if name != "software"]
    known = F.when(~F.col("is_forwarded"), F.col("_software"))
    name = F.coalesce(known["name"], F.lit(UNKNOWN))
    is_kipctl = F.coalesce(F.col("client").rlike(_KIPCTLS_OWN), F.lit(False))
    return calls.select(
        *kept,
        F.max("software").over(of_connection).alias("_software"),
        F.max(
            # A broker's own requests to the controller bear its number; a client may, too.
            F.coalesce(own, F.lit(False)) | (is_number & F.col("broker").isNull())
        )
        .over(of_connection)
        .alias("_is_among_brokers"),
        F.max(F.coalesce(own, F.lit(False))).over(of_connection).alias("_is_surely_so"),
        F.max(F.col("api_key").isin(*_CLIENT_APIS)).over(of_connection).alias("_asks_as_clients"),
    ).select(
        *kept,
        F.when((name == UNKNOWN) & is_kipctl, OWN_SOFTWARE).otherwise(name).alias("software_name"),
        F.coalesce(known["version"], F.lit(UNKNOWN)).alias("software_version"),
        F.when(F.col("is_forwarded"), "forwarded")
        .when(is_replica, "replica")
        .when(F.col("_is_surely_so"), "broker")
        .when(F.col("_is_among_brokers") & ~F.col("_asks_as_clients"), "broker")
        .otherwise("client")
        .alias("origin"),
    )


def client_key() -> Column:
    """What tells one client of a cluster from another: client ids alone are shared by many
    (`rdkafka`), and some clients have none."""
    return F.concat_ws("@", F.coalesce("client", F.lit("")), "host")
