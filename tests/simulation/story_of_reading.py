"""What happens in a simulated run of the consumer: the story's own part, and its own faults."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from fake_kafka import SimulatedCluster
from fetching import ReadCluster
from story import FAULTS, MS, AnyStory, End, Fault, Faults, answers_with

from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.protocol.error_codes import ErrorCode


@dataclass(frozen=True, kw_only=True)
class ReadingStory(AnyStory):
    """A run of the consumer, and the logs that it reads."""

    fetch_version: int
    list_offsets_version: int
    leader_epoch_version: int
    config: ConsumerConfig
    offset: int
    """Where to begin; -1 lets `auto.offset.reset` say."""
    batches: int
    """In each log from the beginning."""
    append_every_us: int
    """Records are appended to one of the logs, until all faults are over."""
    replica_lag_us: int
    all_hold_all: bool
    """Brokers that do not lead a partition follow."""
    names_replicas: bool
    """Leaders name followers in the reader's rack."""

    @property
    def patience_us(self) -> int:
        """What is left to read may come batch by batch, too."""
        batches = self.batches + self.over_us // self.append_every_us
        return super().patience_us + batches * (self.delay_us * 8 + 25_000)


def draw(choose: random.Random) -> ReadingStory:
    """A story. Whatever has a `choice` may choose: a seeded generator, or Hypothesis."""
    pick = choose.choice
    brokers = pick((1, 2, 3, 3, 3, 4))
    fetch_version = pick((18, 18, 18, 18, 17, 17, 16, 16, 16, 13, 12, 11, 8, 4))
    metadata_version = pick((13, 13, 13, 13, 13, 9) if fetch_version >= 13 else (9, 9, 7, 4))
    kinds = [
        *READING_FAULTS,
        *("move", "move all", "move on", "lose") * 3,
        *("fall behind", "delete", "refuse") * 2,
        *("hide new leader", "lead unheard") * 4,
    ]
    if metadata_version < 13:  # without topic ids nobody sees that a topic was made anew
        kinds.remove("recreate")
    if fetch_version < 9 or metadata_version < 9:
        kinds = [kind for kind in kinds if kind != "lose"]
    faults = tuple(
        Fault(
            pick(kinds),
            pick((0, 50, 100, 200, 400, 700, 1000, 1500)) * MS,
            pick((1, 20, 100, 300, 1000, 2500)) * MS,
            1 + pick(range(brokers)),
            pick(range(8)),
        )
        for _ in range(pick((1, 2, 3, 4, 6, 8)))
    )
    is_near = pick((True, False))  # it reads from replicas
    min_bytes, max_bytes = pick(((1, 100), (1, 1_000), (1, 1_048_576), (300, 1_048_576)))
    config = ConsumerConfig(
        auto_offset_reset=pick(("earliest", "earliest", "latest", "none")),
        client_rack=pick(("rack-0", "rack-1")) if is_near else pick(("", "rack-0")),
        fetch_max_wait_ms=pick((20, 100, 200)),
        fetch_min_bytes=min_bytes,
        max_partition_fetch_bytes=max_bytes,
        request_timeout_ms=pick((300, 1_000)),
        retry_backoff_ms=pick((20, 100)),
        reconnect_backoff_ms=pick((5, 50)),
        socket_connection_setup_timeout_ms=pick((200, 1_000)),
        socket_connection_setup_timeout_max_ms=2_000,
        metadata_max_age_ms=pick((50, 1_000, 300_000)),
        metadata_recovery_rebootstrap_trigger_ms=pick((400, 300_000)),
    )
    needs_offset = config.auto_offset_reset == "none"
    return ReadingStory(
        seed=pick(range(1 << 16)),
        brokers=brokers,
        partitions=pick((1, 2, 5)),
        fetch_version=fetch_version,
        list_offsets_version=pick((11, 5, 1)),
        leader_epoch_version=pick((4, 2)),
        metadata_version=metadata_version,
        hints=pick((True, True, True, True, False)),
        endpoints=pick((True, False, False)),
        proxied=pick((True, False)),
        delay_us=pick((100, 1_000, 10_000)),
        lag_us=pick((0, 5_000, 100_000, 500_000, 500_000)),
        discovery=pick((*LeaderDiscovery, *[LeaderDiscovery.KIP951] * 4)),
        config=config,
        offset=0 if needs_offset else pick((-1, -1, 0, 7)),
        batches=pick((0, 3, 20)),
        append_every_us=pick((10, 30, 100)) * MS,
        replica_lag_us=pick((0, 2, 30, 200)) * MS,
        all_hold_all=is_near or pick((True, False, False)),
        names_replicas=is_near,
        faults=faults,
    )


# --- faults that only readers meet ---


def _reading(cluster: SimulatedCluster) -> ReadCluster:
    assert isinstance(cluster, ReadCluster)
    return cluster


def _lose(fault: Fault, cluster: SimulatedCluster) -> End:
    """Unclean elections: the new leader has not got the last that was committed."""
    cluster.loses = 1 + fault.number
    FAULTS["move all"](fault, cluster)
    cluster.loses = 0
    return None


def _fall_behind(fault: Fault, cluster: SimulatedCluster) -> End:
    """Followers have lost what they had, and take their time to get it again."""
    behind_us = _reading(cluster).behind_us
    behind_us.update(dict.fromkeys(cluster.brokers, (fault.number + 1) * 100 * MS))
    return behind_us.clear


def _delete(fault: Fault, cluster: SimulatedCluster) -> End:
    """Retention takes the start of all logs, or all that is in them."""
    for partition in range(8):
        _reading(cluster).retain(partition, fault.number)
    return None


def _begin_later(fault: Fault, cluster: SimulatedCluster) -> End:
    """Its own retention was there before the leader's."""
    begins_later = _reading(cluster).begins_later
    begins_later[fault.broker] = 1 + fault.number
    return lambda: begins_later.pop(fault.broker, None)


def _lead_unheard(fault: Fault, cluster: SimulatedCluster) -> End:
    """A broker comes to lead all, and is among the last to hear of it."""
    FAULTS["deaf"](replace(fault, for_us=max(fault.for_us, 300 * MS)), cluster)
    return FAULTS["move all"](fault, cluster)


def _forget_sessions(fault: Fault, cluster: SimulatedCluster) -> End:
    cluster.sessions.forget(fault.broker)
    return None


def _restart(kind: str) -> Callable[[Fault, SimulatedCluster], End]:
    """A broker that comes back knows no sessions."""

    def begin(fault: Fault, cluster: SimulatedCluster) -> End:
        _forget_sessions(fault, cluster)
        return FAULTS[kind](fault, cluster)

    return begin


def _refuse(fault: Fault, cluster: SimulatedCluster) -> End:
    errors = (
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    )
    return answers_with(errors, "refusal", fault, cluster)


READING_FAULTS: Faults = {
    **{kind: fault for kind, fault in FAULTS.items() if kind != "regret"},
    "stop": _restart("stop"),
    "kill": _restart("kill"),
    "refuse": _refuse,
    "lose": _lose,
    "fall behind": _fall_behind,
    "delete": _delete,
    "begin later": _begin_later,
    "forget sessions": _forget_sessions,
    "lead unheard": _lead_unheard,
}
