"""Findings of clients in good order, while brokers fail: there are to be none.

    python benchmarks/precision.py [--runs 50] [--at-once 4] [--only java-4.3.1 kafkajs] [--seed 1]
        [--keep FOLDER] [--output json]

One lab of three brokers. A run is one client, a preset of `kipctl conform`, that produces 200
records/s to all partitions of a topic of its own in turn and reads them, through a `kipctl tap` of
its own. Meanwhile, in an order that the seed decides: all leaders of its topic move on by one
replica, three times; a broker is restarted; one is paused until others lead for it, and a few
seconds more; one is killed, and started again. Several runs go on at once, and share these faults.

Every finding is listed with its client and with where it was seen first. A *note* is what clients
in good order do too, *known* is what the client's version is known for, *expected* what its source
shows to be so (`TRUE_OF`); what is left is to be *judged*: it is a bug that nobody has named yet,
or the rule is wrong. With any to be judged the status is 1. With --keep the taps' records stay, to
look at. Clients whose versions were chosen for their bugs take no part unless they are named.

What a client is made of is built or installed at first use into the user's cache; one that is not
to be had on this machine is left out, by name. One that ends by itself is judged by what it did.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from benchmarks.real_clients import (
    BROKERS,
    EVERY_S,
    TROUBLE,
    Document,
    driving,
    running_tap,
    say,
)
from benchmarks.recovery import is_in_sync
from kipctl.changes.execution.plan_execution import rotate_own_topics
from kipctl.cluster.topics import await_topics, create_topics, delete_topics
from kipctl.lab.cluster import Lab
from kipctl.lab.properties import LabSpec, suits_c1
from kipctl.load.presets import OWN, PRESETS, Preset
from kipctl.process import wait_until
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Report, table_of
from kipctl.severity import Severity
from kipctl.signals import as_keyboard_interrupts
from kipctl.transport.request import Cluster

CHOSEN_FOR_BUGS = ("franz-go-1.21.6", "sarama-as-4.3.1")
ROTATIONS = 3
PATIENCE_S = 300.0
VERDICTS = NOTE, KNOWN, EXPECTED, JUDGE = "note", "known", "expected", "judge"
"""What may be said of a finding."""
TRUE_OF = {
    ("platformatic-kafka", "hint-ignored"): (
        "2.12.1 reads NodeEndpoints in dist/apis (producer/produce-v11.js, consumer/fetch-v17.js),"
        " and nothing in dist/clients goes by them: it fails 951-1"
    ),
}
"""Findings that are right, by client, with where its source shows it: nobody has written of them,
so that no version is known for them."""


class Faults:
    """What happens to brokers while clients are at work on these topics."""

    def __init__(self, lab: Lab, topics: Sequence[str], choose: random.Random) -> None:
        self._lab, self._topics, self._choose = lab, topics, choose
        self._admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})

    def happen(self) -> None:
        """Each of them, once all is in sync; to brokers that are chosen at random."""
        for fault in self._choose.sample((self._rotate, self._restart, self._pause, self._kill), 4):
            self._await(self._is_in_sync, "all replicas are in sync")
            say(fault.__name__.strip("_"))
            fault(self._choose.choice(BROKERS))
            time.sleep(EVERY_S)

    def _rotate(self, _: int) -> None:
        with Cluster(self._lab.access) as cluster:
            for _ in range(ROTATIONS):
                rotate_own_topics(cluster, self._topics)
                time.sleep(EVERY_S)

    def _restart(self, broker: int) -> None:
        self._lab.restart(broker)

    def _pause(self, broker: int) -> None:
        self._lab.pause(broker)
        try:
            self._await(lambda: not self._leads(broker), f"others lead for broker {broker}")
            time.sleep(EVERY_S)
        finally:
            self._lab.resume(broker)

    def _kill(self, broker: int) -> None:
        self._lab.kill(broker)
        self._await(lambda: not self._leads(broker), f"others lead for broker {broker}")
        time.sleep(EVERY_S)
        self._lab.start(broker)

    def _is_in_sync(self) -> bool:
        with suppress(KafkaException):  # it asked a broker that is away
            return all(is_in_sync(self._admin, topic) for topic in self._topics)
        return False

    def _leads(self, broker: int) -> bool:
        with suppress(KafkaException):
            now = [self._admin.list_topics(name, timeout=10).topics[name] for name in self._topics]
            leaders = {partition.leader for topic in now for partition in topic.partitions.values()}
            return not leaders.isdisjoint((broker, -1))
        return True

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        if not wait_until(condition, PATIENCE_S):
            raise SystemExit(f"It is not so within {PATIENCE_S:.0f} s that {what}.")


def verdict(client: str, finding: Document) -> str:
    if finding["severity"] == Severity.NOTE:
        return NOTE
    if finding["is_known"]:
        return KNOWN
    return EXPECTED if (client, finding["id"]) in TRUE_OF else JUDGE


def in_a_round(
    lab: Lab, chosen: Sequence[Preset], options: Any, folder: Path, choose: random.Random
) -> tuple[list[Document], list[Document]]:
    """A run of each of these clients at once; and those that are left out."""
    topics = [preset.name for preset in chosen]
    create_topics(lab.access, topics, options.partitions, len(BROKERS))
    runs: list[Document] = []
    left_out: list[Document] = []
    with ExitStack() as stack:
        with Cluster(lab.access) as cluster:
            await_topics(cluster, topics)
        at_work = []
        for preset in chosen:
            own = folder / preset.name
            own.mkdir()
            try:
                tap = stack.enter_context(running_tap(lab.bootstrap_server, own))
                at_work.append(
                    (preset, tap, stack.enter_context(driving(preset, tap, options, own)))
                )
            except TROUBLE as why:
                left_out.append({"client": preset.name, "why": str(why)})
        Faults(lab, topics, choose).happen()
        for preset, tap, driver in at_work:
            counted: Document = {"acknowledged": 0, "read": 0}
            try:
                counted = driver.end()
            except TROUBLE as why:  # what it did until then is judged all the same
                left_out.append({"client": preset.name, "why": str(why)})
            try:
                _, document = tap.end()
            except TROUBLE as why:
                left_out.append({"client": preset.name, "why": str(why)})
            else:
                runs.append(run_of(preset, counted, document))
    delete_topics(lab.access, topics)
    return runs, left_out


def run_of(preset: Preset, counted: Document, document: Document) -> Document:
    """What one client met, and what was found of it."""
    clients = document["clients"]
    return {
        "client": preset.name,
        "leader_errors": sum(client["leader_errors"] for client in clients),
        "moves": sum(client["moves"]["met"] for client in clients),
        "lost": sum(client["connections"]["lost"] for client in clients),
        "acknowledged": counted["acknowledged"],
        "read": counted["read"],
        "findings": [
            {
                "client": preset.name,
                "client_id": client["client_id"],
                "verdict": verdict(preset.name, finding),
            }
            | {name: finding[name] for name in ("id", "times", "of", "first", "known")}
            for client in clients
            for finding in client["findings"]
        ],
    }


def found_in(runs: Sequence[Document]) -> list[Document]:
    return [finding for run in runs for finding in run["findings"]]


def judged_later(findings: Sequence[Document]) -> list[Document]:
    """What is no note, and not known of the version."""
    return [finding for finding in findings if finding["verdict"] == JUDGE]


def report_of(runs: Sequence[Document], left_out: Sequence[Document], options: Any) -> Report:
    by_name = {name: [run for run in runs if run["client"] == name] for name in PRESETS}
    rows = [
        {"client": name, "runs": len(own_runs)}
        | {
            key: sum(run[key] for run in own_runs)
            for key in ("leader_errors", "moves", "lost", "acknowledged", "read")
        }
        | {
            said: sum(finding["verdict"] == said for run in own_runs for finding in run["findings"])
            for said in VERDICTS
        }
        for name, own_runs in by_name.items()
        if own_runs
    ]
    findings = found_in(runs)
    to_judge = len(judged_later(findings))
    tables = [
        table_of(
            f"Findings in {len(runs):,} runs of clients in good order",
            rows,
            {
                "client": "client",
                "runs": "runs",
                "refused": "leader_errors",
                "moves met": "moves",
                "connections lost": "lost",
                "acknowledged": "acknowledged",
                "read": "read",
                "notes": "note",
                "known": "known",
                "expected": "expected",
                "to judge": "judge",
            },
            (f"{to_judge:,} to be judged: each is a bug that nobody has named, or a wrong rule.",),
        )
    ]
    if findings:
        tables.append(
            table_of(
                "What was found",
                findings,
                {
                    "client": "client",
                    "client id": "client_id",
                    "finding": "id",
                    "it is": "verdict",
                    "seen": lambda finding: f"{finding['times']} of {finding['of']}",
                    "first": lambda finding: str(finding["first"]),
                },
            )
        )
    if left_out:
        tables.append(
            table_of("Left out, or ended early", left_out, {"client": "client", "why": "why"})
        )
    document = {
        "conditions": {"seed": options.seed, "partitions": options.partitions},
        "to_judge": to_judge,
        "runs": list(runs),
        "left_out": list(left_out),
    }
    return Report("benchmark precision", document, tuple(tables))


def main() -> int:
    names = [name for name in PRESETS if name != OWN.name]
    healthy = [name for name in names if name not in CHOSEN_FOR_BUGS]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", default=healthy)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--acks", choices=("all", "1"), default="all")
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument("--output", type=OutputFormat, default=OutputFormat.AUTO)
    options = parser.parse_args()
    say(f"seed {options.seed}")
    choose = random.Random(options.seed)
    left_out: list[Document] = []
    chosen = []
    for name in options.only:
        try:
            PRESETS[name].program(say)
            chosen.append(PRESETS[name])
        except TROUBLE as why:
            left_out.append({"client": name, "why": str(why)})
    if not chosen:
        raise SystemExit("None of these clients can be had on this machine.")
    runs: list[Document] = []
    in_turn = cycle(chosen)
    at_once = min(options.at_once, len(chosen))
    c1_only = suits_c1(len(BROKERS) + 1)
    spec = LabSpec(name=f"precision-{os.getpid()}", of_a_run=True, c1_only=c1_only)
    with as_keyboard_interrupts(), tempfile.TemporaryDirectory(prefix="kipctl-precision-") as text:
        lab = Lab.up(spec, say)
        try:
            for begun in range(0, options.runs, at_once):
                some = list(islice(in_turn, min(at_once, options.runs - begun)))
                say(f"runs {begun + 1} to {begun + len(some)}: {', '.join(o.name for o in some)}")
                folder = (options.keep or Path(text)) / f"from-run-{begun + 1}"
                folder.mkdir(parents=True)
                more, out = in_a_round(lab, some, options, folder, choose)
                runs += more
                left_out += out
                for run in more:
                    for finding in run["findings"]:
                        say("{client_id}: {id} ({verdict}), {first}".format_map(finding))
        finally:
            lab.down()
    report = report_of(runs, left_out, options)
    write(report, options.output, sys.stdout, sys.stdout.isatty())
    return int(bool(judged_later(found_in(runs))))


if __name__ == "__main__":
    sys.exit(main())
