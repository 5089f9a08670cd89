"""From which replica a consumer reads: the rules of KIP-392 as Kafka has them, pure."""

from collections.abc import Container

NO_REPLICA = -1


class PreferredReadReplica:
    """One partition's preferred read replica, on a lease.

    The leader names it in an answer without records; it counts for `metadata.max.age.ms`, then the
    leader is asked again. It is given up when it is not among the brokers of Metadata,
    when it cannot be reached, and after any error of its that another broker may not have, except
    UNKNOWN_LEADER_EPOCH, which is soon over (Java's `AbstractFetch.selectReadReplica`,
    `FetchCollector.handleInitializeErrors`, `SubscriptionState.updatePreferredReadReplica`; Java
    also leaves one that Metadata calls offline, which kipctl reads until it refuses).
    Times are in microseconds.
    """

    __slots__ = ("_expires_us", "preferred")

    def __init__(self) -> None:
        self.preferred = NO_REPLICA
        self._expires_us = 0

    def set(self, replica: int, now_us: int, lease_us: int) -> None:
        """The leader has named a replica."""
        self.preferred = replica
        self._expires_us = now_us + lease_us

    def clear(self) -> bool:
        """Back to the leader; returns whether there was another choice."""
        had, self.preferred = self.preferred != NO_REPLICA, NO_REPLICA
        return had

    def broker_to_read(self, leader: int, usable: Container[int], now_us: int) -> int:
        """The broker to read from: the preferred one while its lease lasts and it is `usable`."""
        if self.preferred == NO_REPLICA:
            return leader
        if now_us >= self._expires_us or self.preferred not in usable:
            self.preferred = NO_REPLICA
            return leader
        return self.preferred
