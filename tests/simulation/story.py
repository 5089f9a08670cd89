"""What happens in one simulated run: drawn by chance, told in words, and done to the cluster."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

from brokers import SimulatedBroker as Broker
from fake_kafka import TOPIC, SimulatedCluster

from kipctl.probe.config import ClientConfig
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.probe.produce.config import ProducerConfig
from kipctl.protocol.error_codes import ErrorCode

_S, MS = 1_000_000, 1_000


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong `at_us` after the start, for `for_us`, with a broker or so."""

    kind: str
    at_us: int
    for_us: int
    broker: int
    number: int

    def __str__(self) -> str:
        return (
            f"{self.at_us / 1000:.0f} ms: {self.kind} (broker {self.broker}, number {self.number},"
            f" for {self.for_us / 1000:.0f} ms)"
        )


@dataclass(frozen=True, kw_only=True)
class AnyStory:
    """One run: the cluster, the client, and what goes wrong. Times: microseconds."""

    seed: int
    """Of all that is left to chance while it is played."""
    brokers: int
    partitions: int
    metadata_version: int
    hints: bool
    endpoints: bool
    """Whether hints say where the leader listens."""
    proxied: bool
    """Whether brokers call themselves otherwise in hints than in Metadata."""
    delay_us: int
    lag_us: int
    discovery: LeaderDiscovery
    config: ClientConfig
    faults: tuple[Fault, ...]

    @property
    def over_us(self) -> int:
        """When the last fault is over, after the start."""
        return max((fault.at_us + fault.for_us for fault in self.faults), default=0)

    @property
    def patience_us(self) -> int:
        """How long a client may need to notice that the last fault is over.

        Brokers hear of the truth; a connection that is silent is noticed by its timeouts; a retry
        and a reconnection have backed off as far as they do; Metadata comes by its backoff.
        """
        config = self.config
        waits_ms = (
            config.request_timeout_ms
            + config.socket_connection_setup_timeout_max_ms * 1.2
            + config.reconnect_backoff_max_ms * 2
            + config.retry_backoff_max_ms * 4
        )
        return int(3 * self.lag_us + 2 * waits_ms * 1000)

    def __str__(self) -> str:
        told = {f.name: getattr(self, f.name) for f in fields(self)}
        config, faults = told.pop("config"), told.pop("faults")
        told |= {
            f.name: value for f in fields(config) if (value := getattr(config, f.name)) != f.default
        }
        lines = [f"  {name} = {value}" for name, value in told.items()]
        return "\n".join([*lines, "faults:", *(f"  {fault}" for fault in faults)])


@dataclass(frozen=True, kw_only=True)
class Story(AnyStory):
    """A run of the producer, and its load."""

    produce_version: int
    config: ProducerConfig
    topics: int
    """With more than one, records come to them in turn, and nobody knows of them before."""
    num_records: int
    throughput: float

    @property
    def has_idle_topic(self) -> bool:
        """Whether its topic is forgotten, if Metadata is renewed between two of its records."""
        return self.seed % 4 == 0

    @property
    def patience_us(self) -> int:
        """The load may not be over, too: the records that are left go through one by one."""
        load_us = self.num_records / self.throughput * 1e6 if self.throughput > 0 else 0
        round_trips = self.num_records * (self.delay_us * 8 + 2_000)
        return int(super().patience_us + load_us + round_trips)


def draw(choose: random.Random) -> Story:
    """A story. Whatever has a `choice` may choose: a seeded generator, or Hypothesis."""
    pick = choose.choice
    brokers = pick((1, 2, 3, 3, 4))
    idempotent = pick((True, True, False))
    acks = -1 if idempotent else pick((-1, 1, 1))
    produce_version = pick((13, 13, 12, 10, 10, 9, 7))
    # A gateway may tell no topic ids, and speak versions that name topics by them.
    metadata_version = pick((13, 13, 13, 9) if produce_version == 13 else (13, 9, 7, 4))
    kinds = [*FAULTS, *("move", "move all") * 4, *("hide", "regret", "hide new leader") * 3]
    if metadata_version < 10:  # without topic ids nobody sees that a topic was made anew
        kinds.remove("recreate")
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
    config = ProducerConfig(
        acks=acks,
        enable_idempotence=idempotent,
        batch_size=pick((0, 50, 200)),
        max_request_size=pick((200, 1_048_576)),
        linger_ms=pick((0, 0, 3)),
        max_in_flight_requests_per_connection=pick((1, 2, 5)),
        partitioner="round-robin",
        request_timeout_ms=pick((300, 1_000)),
        delivery_timeout_ms=pick((1_100, 120_000, 120_000)),
        retries=max(idempotent, pick((0, 1, 2_147_483_647, 2_147_483_647))),
        retry_backoff_ms=pick((20, 100)),
        reconnect_backoff_ms=pick((5, 50)),
        socket_connection_setup_timeout_ms=pick((200, 1_000)),
        socket_connection_setup_timeout_max_ms=2_000,
        metadata_max_age_ms=pick((50, 50, 1_000, 300_000)),
        metadata_recovery_rebootstrap_trigger_ms=pick((400, 300_000)),
    )
    return Story(
        seed=pick(range(1 << 16)),
        brokers=brokers,
        partitions=pick((1, 2, 5)),
        produce_version=produce_version,
        metadata_version=metadata_version,
        hints=pick((True, True, True, False)),
        endpoints=pick((True, False)),
        proxied=pick((True, False)),
        delay_us=pick((100, 1_000, 10_000)),
        lag_us=pick((0, 5_000, 100_000, 500_000)),
        discovery=pick((*LeaderDiscovery, *[LeaderDiscovery.KIP951] * 3)),
        config=config,
        topics=pick((1, 1, 1, 1, 1, 1, 1, 3)),
        num_records=pick((20, 100, 400)),
        throughput=pick((-1, 100, 200, 200)),
        faults=faults,
    )


def topic_names(story: Story) -> list[str]:
    """The first is the one that faults are about."""
    return [TOPIC, *(f"{TOPIC}{number}" for number in range(1, story.topics))]


def perform(fault: Fault, kinds: "Faults", cluster: SimulatedCluster) -> None:
    """The fault begins now; its end is planned."""
    world = cluster.world
    world.tell(lambda: f"FAULT {fault.kind}, broker {fault.broker}, number {fault.number}")
    end = kinds[fault.kind](fault, cluster)
    if end is not None:
        over = end

        def finish() -> None:
            world.tell(lambda: f"over: {fault.kind}, broker {fault.broker}")
            over()

        world.after(fault.for_us, finish)


# --- the faults: each begins, and says how it ends ---

End = Callable[[], object] | None
Faults = Mapping[str, Callable[["Fault", SimulatedCluster], End]]


def _move(fault: Fault, cluster: SimulatedCluster) -> End:
    cluster.elect(fault.number, fault.broker)
    return None


def _move_all(fault: Fault, cluster: SimulatedCluster) -> End:
    for partition in range(8):
        cluster.elect(partition, fault.broker)
    return None


def _move_on(fault: Fault, cluster: SimulatedCluster) -> End:
    """Leaders move, and once more before all have heard of it."""
    _move_all(fault, cluster)
    cluster.world.after(
        max(fault.for_us // 8, 5 * MS),
        lambda: _move_all(replace(fault, broker=0), cluster) and None,
    )
    return None


def _topic_error(fault: Fault, cluster: SimulatedCluster) -> End:
    """Metadata tells of brokers, and of no topic."""
    cluster.topic_error = ErrorCode.LEADER_NOT_AVAILABLE
    return lambda: setattr(cluster, "topic_error", 0)


def _stop(fault: Fault, cluster: SimulatedCluster) -> End:
    """In good order: others lead before it hangs up."""
    broker, world = cluster.brokers[fault.broker], cluster.world
    if not broker.is_up:
        return None
    broker.is_up = False
    cluster.leave(broker.id)
    world.after(world.chance.choice((0, 30_000)), broker.hang_up)
    return lambda: _start(broker)


def _kill(fault: Fault, cluster: SimulatedCluster) -> End:
    """Nobody knows for a while."""
    broker = cluster.brokers[fault.broker]
    if not broker.is_up:
        return None
    broker.close()

    def noticed() -> None:
        if not broker.is_up:
            cluster.leave(broker.id)

    cluster.world.after(min(300_000, fault.for_us // 2), noticed)
    return lambda: _start(broker, moves_port=fault.number == 0)


def _start(broker: Broker, moves_port: bool = False) -> None:
    broker.is_up = True
    if moves_port:
        broker.port += 100
    broker.cluster.join(broker.id)


def _pause(fault: Fault, cluster: SimulatedCluster) -> End:
    broker = cluster.brokers[fault.broker]
    broker.paused_until_us = max(broker.paused_until_us, cluster.world.now_us + fault.for_us)
    return None


def _reset(fault: Fault, cluster: SimulatedCluster) -> End:
    cluster.brokers[fault.broker].hang_up()
    return None


def _deaf(fault: Fault, cluster: SimulatedCluster) -> End:
    cluster.brokers[fault.broker].deaf_until_us = cluster.world.now_us + fault.for_us
    return None


def _throttle(fault: Fault, cluster: SimulatedCluster) -> End:
    broker = cluster.brokers[fault.broker]
    broker.throttle_us = (fault.number + 1) * 20_000
    return lambda: setattr(broker, "throttle_us", 0)


def _hide(fault: Fault, cluster: SimulatedCluster) -> End:
    cluster.unlisted.add(fault.broker)
    cluster.shows_topics = fault.number % 4 == 0
    return lambda: cluster.unlisted.discard(fault.broker)


def _hide_new_leader(fault: Fault, cluster: SimulatedCluster) -> End:
    """A broker that clients have not heard of comes to lead."""
    cluster.unlisted.add(fault.broker)
    cluster.world.after(60_000, lambda: _move_all(fault, cluster) and None)
    return lambda: cluster.unlisted.discard(fault.broker)


def _show_nobody(fault: Fault, cluster: SimulatedCluster) -> End:
    broker = cluster.brokers[fault.broker]
    broker.is_empty = True
    return lambda: setattr(broker, "is_empty", False)


def _recreate(fault: Fault, cluster: SimulatedCluster) -> End:
    if TOPIC not in cluster.topics:
        return None
    partitions = len(cluster.partitions(TOPIC))
    cluster.delete(TOPIC)
    return lambda: TOPIC in cluster.topics or cluster.recreate(TOPIC, partitions)


def _grow(fault: Fault, cluster: SimulatedCluster) -> End:
    cluster.grow(TOPIC, 1 + fault.number % 3)
    return None


def _refuse(fault: Fault, cluster: SimulatedCluster) -> End:
    errors = (
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    )
    return answers_with(errors, "refusal", fault, cluster)


def _regret(fault: Fault, cluster: SimulatedCluster) -> End:
    errors = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    return answers_with(errors, "regret", fault, cluster)


def answers_with(
    errors: tuple[int, ...], what: str, fault: Fault, cluster: SimulatedCluster
) -> End:
    broker, chance = cluster.brokers[fault.broker], cluster.world.chance
    error = errors[fault.number % len(errors)]
    rate = chance.choice((0.2, 1.0))
    setattr(broker, what, lambda: error if chance.random() < rate else 0)
    return lambda: setattr(broker, what, lambda: 0)


def _stand_still(fault: Fault, cluster: SimulatedCluster) -> End:
    """The client does: the clock jumps."""
    cluster.world.now_us += min(fault.for_us, 300_000)
    return None


FAULTS: Faults = {
    "move": _move,
    "move all": _move_all,
    "move on": _move_on,
    "topic error": _topic_error,
    "stop": _stop,
    "kill": _kill,
    "pause": _pause,
    "reset": _reset,
    "deaf": _deaf,
    "throttle": _throttle,
    "hide": _hide,
    "hide new leader": _hide_new_leader,
    "show nobody": _show_nobody,
    "recreate": _recreate,
    "grow": _grow,
    "refuse": _refuse,
    "regret": _regret,
    "stand still": _stand_still,
}
