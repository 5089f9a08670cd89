"""Rules played in a simulated world: kipctl's own clients meet the scripted cluster, and no time
passes but theirs."""

from pathlib import Path
from tempfile import TemporaryDirectory

from fake_kafka import SimulatedCluster
from fake_run import meeting

from kipctl.conform.cluster import Leader, Place
from kipctl.conform.cluster.apis import VERSIONS
from kipctl.conform.rule import Rule, Stage
from kipctl.conform.rules.replicas import RACK
from kipctl.conform.run import topics_of
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Role
from kipctl.load.presets import own_topics
from kipctl.load.presets.own import own_spec
from kipctl.protocol.address import Address
from kipctl.protocol.produce_frames import Topic
from kipctl.transport.access import Access

_RECORDS, _THROUGHPUT = 50 * 60, 50
_QUIET_S = 0.3
_MOST_EXCHANGES = 5_000


class SimulatedConform(SimulatedCluster):
    """A broker that starts anew listens at another port."""

    def __init__(self, rule: type[Rule]) -> None:
        topics = topics_of(rule)
        super().__init__(3, rule.partitions, lambda _: None, dict(VERSIONS), topics, racks="abc")
        self.open_listener, self.reads_ahead, self.order = self._open, True, list
        self.look_again_us = 5_000  # rules tell longer times apart

    def move(self, place: Place, leader: Leader) -> None:
        """Rules say at each look who leads: brokers hear of it when it is another."""
        if self.leaders.get(place) != leader:
            self.reigns.clear()  # a rule may arrange two leaders in one epoch
            super().move(place, leader)

    def _open(self, id: int) -> int:
        broker = self.brokers[id]
        broker.close()
        broker.is_up, broker.port = True, broker.port + 100
        return broker.port


def played(rule: type[Rule], role: Role) -> Trace:
    """What kipctl's own client does, as it is patched just now."""
    return played_stage(rule, role).trace(1.0)


def played_stage(rule: type[Rule], role: Role) -> Stage:
    """The same, with the cluster as it is then."""
    cluster, topics = SimulatedConform(rule), topics_of(rule)
    stage = Stage(rule(), role, cluster, topics, _QUIET_S)
    access, told = Access(cluster.bootstrap_server), [topics[0]]
    stage.tell = told.append

    def is_over() -> bool:
        # A client in a loop has shown it by then; it would go on for a million requests.
        return stage.ms >= rule.seconds * 1000 or len(cluster.exchanges) > _MOST_EXCHANGES

    with TemporaryDirectory() as folder, meeting(cluster):
        if rule.topics > 1:
            own_topics.send(
                Address("127.0.0.1", cluster.brokers[1].port),
                [Topic(name, cluster.topics[name]) for name in topics],
                rule.partitions,
                rule.metadata_ms,
                lambda: told[-1],
                is_over,
                cluster.sockets(),
                Path(folder),
            )
        else:
            spec = own_spec(role, access, topics[0], _RECORDS, _THROUGHPUT, RACK, rule.metadata_ms)
            spec.run(Path(folder), lambda schedule: None, is_over)
    return stage
