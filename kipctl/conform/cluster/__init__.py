"""A scripted Kafka: brokers with views of their own, logs, and a record of all that clients do.

`Cluster` is pure: it takes requests and makes answers, and has the clock that it is given. With
`Loopback` real clients connect to it:

    with Loopback(Cluster(topics={"orders": 2})) as cluster:
        cluster.move(("orders", 0), Leader(2, 6))
"""

from kipctl.conform.cluster.call import Attempt, Connection, Exchange
from kipctl.conform.cluster.cluster import Cluster, HungUpError, SilentError
from kipctl.conform.cluster.control import Answer, Cut, Delay, Drop, Handout, Refusal, said
from kipctl.conform.cluster.loopback import Loopback
from kipctl.conform.cluster.state import Broker, Image, Place, Replica
from kipctl.probe.leadership import Leader, Node

__all__ = [
    "Answer",
    "Attempt",
    "Broker",
    "Cluster",
    "Connection",
    "Cut",
    "Delay",
    "Drop",
    "Exchange",
    "Handout",
    "HungUpError",
    "Image",
    "Leader",
    "Loopback",
    "Node",
    "Place",
    "Refusal",
    "Replica",
    "SilentError",
    "said",
]
