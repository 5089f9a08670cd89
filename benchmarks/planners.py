"""How long each way to plan takes on a large cluster, and what its plan comes to.

    python benchmarks/planners.py [--partitions 100000] [--brokers 200]

A cluster of so many brokers in three racks, three replicas a partition in three racks, 1 in 100
replicas not in sync, sizes from a log-normal distribution; leaders and replicas lie unevenly. CPU
seconds are of this process; taking the snapshot apart and printing are not in them.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable

from kipctl.changes.plans.log_sizes import LogSizes
from kipctl.changes.plans.plan import Plan
from kipctl.changes.plans.plan_summary import summarize
from kipctl.changes.plans.planners.add_brokers import add
from kipctl.changes.plans.planners.drain import drain
from kipctl.changes.plans.planners.placement import PlanInputs
from kipctl.changes.plans.planners.preferred_leaders import balance_leaders, leaders_off
from kipctl.changes.plans.planners.rack_aware import rack_aware
from kipctl.changes.plans.planners.replace_broker import replace
from kipctl.changes.plans.planners.replication_factor import replication_factor
from kipctl.changes.plans.planners.rotate_leaders import rotate
from kipctl.cluster.snapshot import Broker, Partition, PartitionId, Snapshot
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Cell, Column, Report, Table

RACKS = ("a", "b", "c")


def made_up(partitions: int, brokers: int, chance: random.Random) -> tuple[Snapshot, PlanInputs]:
    """The cluster: broker n is in rack n modulo 3; the last two have nothing yet."""
    known = tuple(Broker(n, "b", 9092, RACKS[n % len(RACKS)]) for n in range(1, brokers + 1))
    holders = [[b.id for b in known[:-2] if b.rack == rack] for rack in RACKS]
    all_partitions, sizes = [], {}
    for number in range(partitions):
        # Squared, so that brokers with low ids have more.
        replicas = [ids[int(chance.random() ** 1.5 * len(ids))] for ids in holders]
        if chance.random() < 0.7:
            chance.shuffle(replicas)
        isr = [replica for replica in replicas if chance.random() > 0.01] or replicas
        partition_id = PartitionId(f"topic-{number // 20:05}", number % 20)
        all_partitions.append(Partition(partition_id, tuple(replicas), tuple(isr), isr[0], 1))
        sizes[partition_id] = int(chance.lognormvariate(20, 2))
    snapshot = Snapshot("made up", known, tuple(all_partitions))
    return snapshot, PlanInputs(sizes, dict.fromkeys(snapshot.topics, 1))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--brokers", type=int, default=200)
    arguments = parser.parse_args()
    snapshot, known = made_up(arguments.partitions, arguments.brokers, random.Random(1))
    last = arguments.brokers
    rack_a = frozenset(broker.id for broker in snapshot.brokers if broker.rack == "a")
    crowded = one_rack_fewer(snapshot)
    ways: dict[str, Callable[[], Plan]] = {
        "rotate": lambda: rotate(snapshot),
        "drain one broker": lambda: drain(snapshot, [1], known),
        "drain a tenth of the brokers": lambda: drain(snapshot, range(1, last // 10), known),
        "leaders off one broker": lambda: leaders_off(snapshot, [1], known),
        "leaders off a rack": lambda: leaders_off(snapshot, rack_a, known),
        "balance leaders": lambda: balance_leaders(snapshot, known),
        "add two brokers": lambda: add(snapshot, [last - 1, last], known),
        "replace a broker": lambda: replace(snapshot, {1: last - 1}, known),
        "replication factor 4": lambda: replication_factor(snapshot, 4, known),
        "replication factor 2": lambda: replication_factor(snapshot, 2, known),
        "rack-aware": lambda: rack_aware(crowded, known),
    }
    rows: list[tuple[Cell, ...]] = []
    for name, way in ways.items():
        begun = time.process_time()
        plan = way()
        planned = time.process_time()
        cluster = crowded if name == "rack-aware" else snapshot
        seen = summarize(cluster, plan, LogSizes(known.sizes, {}, {}))
        viewed = time.process_time()
        rows.append(
            (
                name,
                planned - begun,
                viewed - planned,
                len(plan.moves),
                len(plan.skipped),
                seen.copied_bytes / 1e12,
            )
        )
    table = Table(
        f"{arguments.partitions:,} partitions on {arguments.brokers} brokers",
        (
            "plan",
            Column("CPU s", 2),
            Column("view CPU s", 2),
            "moves",
            "left alone",
            Column("TB copied", 2),
        ),
        tuple(rows),
    )
    write(Report("benchmarks/planners.py", {}, (table,)), OutputFormat.PLAIN, sys.stdout, False)
    return 0


def one_rack_fewer(snapshot: Snapshot) -> Snapshot:
    """The same, but every fifth partition's second replica is in its first one's rack."""
    rack = {broker.id: broker.rack for broker in snapshot.brokers}
    partitions = []
    for number, partition in enumerate(snapshot.partitions):
        first, second, *others = partition.replicas
        neighbour = next(b for b in rack if rack[b] == rack[first] and b != first)
        if number % 5 == 0 and second != partition.leader:
            isr = tuple(neighbour if r == second else r for r in partition.isr)
            replicas = (first, neighbour, *others)
            partition = Partition(partition.id, replicas, isr, partition.leader, 1)
        partitions.append(partition)
    return Snapshot(snapshot.cluster_id, snapshot.brokers, tuple(partitions))


if __name__ == "__main__":
    sys.exit(main())
