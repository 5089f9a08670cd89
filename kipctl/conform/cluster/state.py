"""What a cluster is: nodes, topics and leaders, and each broker's own view of them."""

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar
from uuid import UUID

from kipctl.conform.cluster.log import Branch
from kipctl.probe.leadership import Leader, Node

K = TypeVar("K")
V = TypeVar("V")
Place = tuple[str, int]
"""A topic's name and a partition's index."""


@dataclass
class Group:
    """A consumer group, which has one member, or none (""); where it has read to, by partition."""

    member: str = ""
    generation: int = 0
    offsets: dict[Place, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Image:
    """The cluster's metadata, as the controller has it or a broker has heard of it."""

    nodes: dict[int, Node] = field(default_factory=dict)
    topics: dict[str, UUID] = field(default_factory=dict)
    leaders: dict[Place, Leader] = field(default_factory=dict)

    def copy(self) -> "Image":
        """As it is now, for a broker that does not hear of what comes."""
        return Image(dict(self.nodes), dict(self.topics), dict(self.leaders))


class View(ChainMap[K, V]):
    """What was set in it, over what the broker has heard."""

    def get(self, key: K, default: V | None = None) -> V | None:  # type: ignore[override]
        is_set, heard = self.maps
        return is_set[key] if key in is_set else heard.get(key, default)  # as fast as can be


class Broker:
    """One broker, and what it believes. Each view is what it has heard but for what is set in it.

    Delete what was set to make the broker believe the rest again.
    """

    def __init__(self, id: int, image: Image) -> None:
        self.id = id
        self.leaders: View[Place, Leader] = View({}, image.leaders)
        """Whether it leads: by these it appends and reads, and names the leader if it does not."""
        self.shown: View[Place, Leader] = View({}, image.leaders)
        """The leaders in its Metadata."""
        self.endpoints: View[int, Node] = View({}, image.nodes)
        """Where it says that leaders listen, when it names one (KIP-951)."""
        self.nodes: View[int, Node] = View({}, image.nodes)
        """The brokers in its Metadata, but for those that are hidden."""
        self.topics: View[str, UUID] = View({}, image.topics)
        self.hidden: set[int] = set()
        """Brokers that its Metadata leaves out."""
        self.purgatory: list[set[Place]] = []
        """The partitions of each Produce that waits until it hears who leads, as they came."""

    def hear(self, image: Image) -> None:
        """From now on it goes by this."""
        for leaders in (self.leaders, self.shown):
            leaders.maps[1] = image.leaders
        for nodes in (self.endpoints, self.nodes):
            nodes.maps[1] = image.nodes
        self.topics.maps[1] = image.topics

    def leads(self, place: Place) -> bool:
        """Whether it believes so."""
        leader = self.leaders.get(place)
        return leader is not None and leader.id == self.id

    def shown_nodes(self) -> Mapping[int, Node]:
        return {id: self.nodes[id] for id in sorted(self.nodes) if id not in self.hidden}


class Replica(NamedTuple):
    """What a broker has of a log, from `start` to before `end`."""

    branch: Branch
    start: int
    end: int
    high_watermark: int


def topic_id(number: int) -> UUID:
    """The id of the topic that is made as the `number`th."""
    return UUID(int=0xC0F0_0000_0000_4000_8000_0000_0000_0000 | number)
