"""What KIP-951 published of its roll ("Performance results"), and how a set-up differs from its."""

import math
from dataclasses import dataclass

from kipctl.counts import counted
from kipctl.documents.experiments import PublishedRoll, RollExperimentDocument, Workload

HIGH = Workload(name="high", partitions=9000, throughput=23_400, producers=60, consumers=60)
LOW = Workload(name="low", partitions=108, throughput=234_000, producers=6, consumers=6)
RECORD_SIZE = 512
EVERY_S = 600.0
"""From one restart to the next; the whole lasted 70 minutes."""
RUNS = 2


@dataclass(frozen=True, slots=True)
class Published:
    """p99 in milliseconds before and with hints, of each of the KIP's two runs."""

    acks: str
    workload: Workload
    measure: str
    """`produce` or `end_to_end`."""
    without_ms_by_run: tuple[float, float]
    with_ms_by_run: tuple[float, float]

    @property
    def without_ms(self) -> float:
        """The mean of the runs, as the KIP has it."""
        return sum(self.without_ms_by_run) / len(self.without_ms_by_run)

    @property
    def with_ms(self) -> float:
        return sum(self.with_ms_by_run) / len(self.with_ms_by_run)

    @property
    def cut_percent(self) -> float:
        return 100 * (1 - self.with_ms / self.without_ms)

    @property
    def runs_overlap(self) -> bool:
        """Whether a run with hints lies among those before, or the other way round."""
        before, with_hints = self.without_ms_by_run, self.with_ms_by_run
        return min(before) <= max(with_hints) and min(with_hints) <= max(before)

    def as_document(self, set_up_otherwise: str) -> PublishedRoll:
        """For JSON, beside what is set up otherwise here."""
        return {
            "acks": self.acks,
            "workload": self.workload,
            "measure": self.measure,
            "without_ms_by_run": list(self.without_ms_by_run),
            "with_ms_by_run": list(self.with_ms_by_run),
            "without_ms": self.without_ms,
            "with_ms": self.with_ms,
            "cut_percent": self.cut_percent,
            "runs_overlap": self.runs_overlap,
            "set_up": set_up_otherwise,
        }


PUBLISHED = (
    Published("all", HIGH, "produce", (153.1, 158.2), (148.3, 155.3)),
    Published("all", HIGH, "end_to_end", (183, 193), (177, 191)),
    Published("all", LOW, "produce", (396.9, 385), (348.4, 400.3)),
    Published("all", LOW, "end_to_end", (402, 384), (349, 400)),
    Published("1", HIGH, "produce", (85.8, 83.6), (82.5, 84.1)),
    Published("1", HIGH, "end_to_end", (111, 102), (104, 98)),
    Published("1", LOW, "produce", (3.3, 3.2), (3, 2.9)),
    Published("1", LOW, "end_to_end", (13, 12), (11, 14)),
)
BROKERS, CONTROLLERS = 6, 3
_MACHINES = 15
_SUBSCRIPTIONS = 3


def nearer_workload(partitions: int) -> Workload:
    """The one whose number of partitions is nearer, as a ratio."""
    return min((HIGH, LOW), key=lambda workload: abs(math.log(partitions / workload["partitions"])))


def published_for(acks: str, partitions: int) -> tuple[Published, ...]:
    """The published rows to set beside a cell."""
    workload = nearer_workload(partitions)
    return tuple(row for row in PUBLISHED if row.acks == acks and row.workload is workload)


def set_up_line(document: RollExperimentDocument, partitions: int) -> str:
    """On one line, to stand beside a figure of a cell with so many partitions: what is set up here
    otherwise than in the KIP's nearer workload, which is in brackets; from the result's document.
    """
    kip = nearer_workload(partitions)
    compared = (
        ("machines", 1, _MACHINES),
        ("brokers", document["broker_count"], BROKERS),
        ("controllers", document["controller_count"], CONTROLLERS),
        ("partitions", partitions, kip["partitions"]),
        ("records/s", document["throughput"], kip["throughput"]),
        ("bytes of a record", document["record_size"], RECORD_SIZE),
        ("producers", document["worker_count"], kip["producers"]),
        ("consumers", document["worker_count"], _SUBSCRIPTIONS * kip["consumers"]),
        ("s between restarts", document["settle_seconds"], EVERY_S),
        ("runs", document["run_count"], RUNS),
    )
    differences = [
        f"{what} {here:,.15g} ({theirs:,.15g})" for what, here, theirs in compared if here != theirs
    ]
    if not document["controlled"]:
        differences.append("brokers killed (stopped in good order)")
    return "; ".join(differences)


def set_up_differences(document: RollExperimentDocument) -> tuple[str, ...]:
    """How the set-up of a result differs from the KIP's, in sentences; from the result's document.

    The KIP: 6 brokers and 3 controllers on m5.xlarge machines of their own, 6 such machines with
    clients of the OpenMessaging Benchmark, in one of two workloads; 70 minutes, brokers restarted
    one by one, one every 10 minutes; 2 runs; its percentiles are of the whole run.
    """
    differences = [
        f"one machine for brokers, controllers and clients; the KIP had {_MACHINES} (m5.xlarge)"
    ]
    if (brokers := document["broker_count"]) != BROKERS:
        differences.append(f"{counted(brokers, 'broker')}, the KIP's {BROKERS}")
    if (controllers := document["controller_count"]) != CONTROLLERS:
        differences.append(f"{counted(controllers, 'controller')}, the KIP's {CONTROLLERS}")
    if not document["controlled"]:
        differences.append("brokers were killed; the KIP's were restarted in good order")
    if document["settle_seconds"] < EVERY_S:
        differences.append(
            f"a restart follows the last one after {document['settle_seconds']:g} s, in the KIP"
            f" every {EVERY_S / 60:g} minutes: so here its share of the run, and with it p99, is"
            " far greater"
        )
    workloads = [nearer_workload(cell["partitions"]) for cell in document["cells"]]
    by, load = "one producer, read once", f"{document['throughput']:,.0f} records/s"
    if (workers := document["worker_count"]) > 1:
        by = f"{workers} producers, read once by {workers} consumers"
    differences += [
        (
            f"{load} of {document['record_size']:,} bytes by {by}; the KIP's workload"
            f" {kip['name']}: {kip['throughput']:,}/s of {RECORD_SIZE} bytes to"
            f" {counted(kip['partitions'], 'partition')} by "
            f"{kip['producers']} producers, read by {_SUBSCRIPTIONS} subscriptions of"
            f" {kip['consumers']} consumers"
        )
        for kip in {kip["name"]: kip for kip in workloads}.values()
    ]
    if document["run_count"] != RUNS:
        differences.append(f"{counted(document['run_count'], 'run')}, the KIP's {RUNS}")
    return tuple(differences)
