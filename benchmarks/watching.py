"""What a watch for new leaders costs kipctl itself: CPU seconds, without sockets.

    python benchmarks/watching.py [--partitions 10000] [--brokers 10] [--output json]

Every broker answers three times with Metadata of all partitions: as it was before the election,
half of the leaders new, and all of them. Reading what comes off the wire is not in it, and is as
much in the first line as in the second; comparing the answers, and deciding after each whether all
brokers know, is.
"""

import argparse
import sys
import time
from collections.abc import Iterator

from kipctl.cluster.metadata_convergence import (
    Availability,
    Convergence,
    ShownViews,
    View,
    ViewChange,
)
from kipctl.cluster.snapshot import PartitionId
from kipctl.protocol.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Column, Report, Table

PER_TOPIC = 10
OLD, NEW = View(5, 1), View(6, 2)


def metadata(partitions: int, elected: int) -> MetadataResponse:
    """Of topics with ten partitions each; the first so many are led by their new leaders."""
    views = [NEW if number < elected else OLD for number in range(partitions)]
    return MetadataResponse(
        topics=tuple(
            MetadataResponseTopic(
                name=f"topic-{start // PER_TOPIC}",
                partitions=tuple(
                    MetadataResponsePartition(
                        partition_index=index, leader_id=view.leader, leader_epoch=view.leader_epoch
                    )
                    for index, view in enumerate(views[start : start + PER_TOPIC])
                ),
            )
            for start in range(0, partitions, PER_TOPIC)
        )
    )


def watched(partitions: int, brokers: int) -> Iterator[tuple[str, float, int]]:
    """Each step with its CPU seconds, and the news that it brought."""
    ids = [PartitionId(f"topic-{n // PER_TOPIC}", n % PER_TOPIC) for n in range(partitions)]
    answers = {
        "as before": metadata(partitions, 0),
        "half are new": metadata(partitions, partitions // 2),
        "all are new": metadata(partitions, partitions),
    }
    began = time.process_time()
    before = dict.fromkeys(ids, OLD)
    convergence = Convergence(before, dict.fromkeys(ids, NEW.leader), range(brokers))
    shown = [ShownViews(before) for _ in range(brokers)]
    yield "made ready", time.process_time() - began, 0
    for step, answer in answers.items():
        began, count = time.process_time(), 0
        for broker in range(brokers):
            convergence.apply(Availability(broker, answers=True))
            for partition, view in shown[broker].news(answer):
                convergence.apply(ViewChange(broker, partition, view, 0))
                count += 1
            assert convergence.is_reached == (step == "all are new" and broker == brokers - 1)
        yield step, time.process_time() - began, count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--brokers", type=int, default=10)
    parser.add_argument("--output", type=OutputFormat, default=OutputFormat.AUTO)
    options = parser.parse_args()
    steps = tuple(watched(options.partitions, options.brokers))
    steps += (("in all", sum(cpu_s for _, cpu_s, _ in steps), sum(count for *_, count in steps)),)
    report = Report(
        "watching",
        {"steps": [{"step": step, "cpu_s": cpu_s, "news": count} for step, cpu_s, count in steps]},
        (
            Table(
                f"{options.partitions:,} partitions, {options.brokers} brokers",
                ("Answers", Column("CPU s", digits=3), "News"),
                steps,
            ),
        ),
    )
    write(report, options.output, sys.stdout, sys.stdout.isatty())


if __name__ == "__main__":
    main()
