"""The configs of replication throttles (KIP-73), by their names in Kafka.

A rate is a broker's, in bytes per second; which replicas it holds for is a topic's.
"""

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
RATES = (LEADER_RATE, FOLLOWER_RATE)
REPLICAS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)

UNLIMITED = 2**63 - 1
"""What a broker reports of a rate that is not set."""
