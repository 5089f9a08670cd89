"""What to do so that consumers read in their rack: brokers to set, and replicas to move."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kipctl.counts import agreeing, broker_list, counted
from kipctl.next_step import Command

if TYPE_CHECKING:
    from kipctl.cluster.inspect.replica_selection_facts import Observation
    from kipctl.cluster.snapshot import PartitionId

_TOPICS_NAMED = 3
_BROKERS_NAMED = 5


def selectors_to_set(observation: "Observation") -> tuple[str, ...]:
    """The brokers that keep readers from a replica in their rack, as they send all to the leader:
    also where no replica is there yet."""
    from kipctl.cluster.inspect.replica_selection import NO_SELECTOR, RACK_AWARE

    to_leader = {facts.id for facts in observation.facts if facts.selector == NO_SELECTOR}
    brokers = {
        choice.leader
        for choice in observation.choices
        if not choice.local and choice.rack in observation.racks and choice.id in to_leader
    }
    if not brokers:
        return ()
    some = sorted(brokers)[:_BROKERS_NAMED]
    named = broker_list(some)
    if more := len(brokers) - len(some):
        named += f" and {more:,} more"
    return (
        f"{named.capitalize()} {agreeing(len(brokers), 'send')} every reader to the leader: set"
        f" replica.selector.class there to {RACK_AWARE}, and restart.",
        "See the order of restarts: " + Command("roll --dry-run"),
    )


def closest_replicas(
    observation: "Observation", weights: Mapping["PartitionId", float]
) -> tuple[str, ...]:
    """How a rack without a replica gets one: by more replicas, or by others where there are as
    many as racks. Topics of which most is read across racks, by `weights` (bytes, or bytes/s), come
    first, and none are named of which nothing is."""
    from kipctl.cluster.inspect.replica_selection import Reason

    rack_count = len(observation.racks)
    without = Counter(row.id for row in observation.choices if row.reason is Reason.NO_REPLICA)
    bytes_across: dict[str, float] = defaultdict(float)
    enough: dict[str, bool] = {}
    for facts in observation.facts:
        if times := without[facts.id]:
            topic = facts.id.topic
            bytes_across[topic] += times * weights.get(facts.id, 0)
            enough[topic] = enough.get(topic, True) and len(facts.replicas) >= rack_count
    if not enough:
        return ()
    with_traffic = [topic for topic in enough if bytes_across[topic]] or [*enough]
    worst = sorted(with_traffic, key=lambda topic: -bytes_across[topic])
    alike = [topic for topic in worst if enough[topic] == enough[worst[0]]]
    give = Command(
        "reassign",
        rack_aware=enough[worst[0]],
        replication_factor=None if enough[worst[0]] else rack_count,
        topic=alike[:_TOPICS_NAMED],
        dry_run=True,
    )
    more = len(worst) - len(alike[:_TOPICS_NAMED])
    others = f" ({counted(more, 'more topic')} with less across racks)" if more else ""
    return (
        "A replica in each rack is read by consumers that set client.rack; others read from the"
        " leader.",
        f"Give them one{others}: " + give,
    )
