"""What consumer groups read across racks, as they read now and as they would from the closest
replica. Pure functions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kipctl.cluster.consumer_groups import Member
from kipctl.cluster.inspect.replica_selection import Choice, PartitionFacts
from kipctl.cluster.snapshot import PartitionId


@dataclass(frozen=True, slots=True)
class GroupTraffic:
    """Members of a group that name the same rack, None for those that name none.

    `says_rack` is whether they could: clients before KIP-881 tell their coordinator none, so how
    they read `now` is not known. Bytes per second across racks are None where they are not known:
    `now`, and from the `closest` replica, with `client.rack` set right and a
    `replica.selector.class` on brokers. Who names no rack of the cluster reads from leaders, and
    may be in any rack: the mean over all racks is taken.
    """

    group: str
    rack: str | None
    is_known: bool
    says_rack: bool
    client_ids: tuple[str, ...]
    members: int
    partitions: int
    now: float | None
    closest: float | None

    @property
    def saved(self) -> float | None:
        return None if self.now is None or self.closest is None else self.now - self.closest


def group_traffic(
    members: Iterable[Member],
    facts: Iterable[PartitionFacts],
    choices: Iterable[Choice],
    rates: Mapping[PartitionId, float],
    racks: Sequence[str],
) -> tuple[GroupTraffic, ...]:
    """Of those that read these partitions, in order: those that save most, and first of them the
    groups with a rack that the cluster does not have. `racks` are all of the cluster; `choices` are
    needed for those that members name."""
    by_id = {partition.id: partition for partition in facts}
    looked_at = by_id.keys()
    named = {
        (choice.id, choice.rack): (
            None if choice.reads_from is None else choice.reads_from_rack != choice.rack
        )
        for choice in choices
    }
    alike: dict[tuple[str, str | None, bool], list[Member]] = {}
    for member in members:
        if member.partitions & looked_at:
            alike.setdefault((member.group, member.rack, member.says_rack), []).append(member)
    groups = []
    for (group, rack, says_rack), of_group in alike.items():
        partitions = {id for member in of_group for id in member.partitions} & looked_at
        is_known = rack is not None and rack in racks
        where = [rack] if rack is not None and is_known else racks
        closest = _mean(
            [_across({id: not by_id[id].in_rack(at) for id in partitions}, rates) for at in where]
        )
        now = None
        if rack is not None and is_known:
            now = _across({id: named.get((id, rack)) for id in partitions}, rates)
        elif says_rack:
            now = _mean(
                [
                    _across({id: by_id[id].leader_rack != at for id in partitions}, rates)
                    for at in where
                ]
            )
        groups.append(
            GroupTraffic(
                group,
                rack,
                is_known,
                says_rack,
                tuple(sorted({member.client_id for member in of_group})),
                len(of_group),
                len(partitions),
                now,
                closest,
            )
        )
    return tuple(sorted(groups, key=_order))


def _across(
    crosses: Mapping[PartitionId, bool | None], rates: Mapping[PartitionId, float]
) -> float | None:
    """Bytes per second of the partitions that cross racks; None where one is not known."""
    if None in crosses.values() or crosses.keys() - rates.keys():
        return None
    return sum(rates[id] for id, does in crosses.items() if does)


def _mean(amounts: Sequence[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) / len(known) if known and len(known) == len(amounts) else None


def _order(traffic: GroupTraffic) -> tuple[bool, float, str, str]:
    has_typo = traffic.rack is not None and not traffic.is_known
    return not has_typo, -(traffic.saved or 0.0), traffic.group, traffic.rack or ""
