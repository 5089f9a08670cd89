"""Other people's clients through the tap while leaders move: what each does, and whether the tap,
the brokers' request logs and a plain count of their lines say the same.

    python benchmarks/real_clients.py [--only kafka-python sarama] [--rotations 4] [--partitions 12]
        [--loop] [--markdown FILE]

One lab of three brokers that log each request. One client after the other, in a process of its own
with its library's own settings, produces 200 records/s through `kipctl tap` to all partitions of a
topic in turn, and reads them, while all leaders of the topic move on by one replica, again and
again, with 3 s between.

*Moves met* are by the tap, and by a count of the log's lines that uses nothing but a JSON parser
(`request_counts.py`): partition and leader epoch of the moves after which the client was
refused. *Lost* are records that were acknowledged and are not in the log, at least so many;
*twice* are in it again; *unanswered* were neither acknowledged nor given up 30 s after the last.
The verdict is the tap's own sentence.

With `--loop` each also meets, through the tap, a broker that refuses its producer for 2 s with
hints that name itself, in the epoch that the client knows (twmb/franz-go#1412); `--rotations 0`
leaves the rest out.

What its driver is made of is built or installed at first use into the user's cache; a client that
is not to be had on this machine is left out, by name.
"""

import argparse
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from benchmarks.request_counts import Refusals, Rotation, refusals
from kipctl.changes.execution.plan_execution import rotate_own_topics
from kipctl.cluster.snapshot import take_snapshot
from kipctl.cluster.topics import EARLIEST, LATEST, await_topic, create_topics, offsets
from kipctl.conform.cluster import Cluster as ScriptedCluster
from kipctl.conform.cluster import Loopback
from kipctl.conform.cluster.call import Attempt
from kipctl.conform.cluster.control import Refusal
from kipctl.errors import KipctlError
from kipctl.lab.cluster import Lab
from kipctl.lab.properties import LabSpec, suits_c1
from kipctl.load.presets import OWN, PRESETS, Preset
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Column, Report, Table, table_of
from kipctl.signals import as_keyboard_interrupts
from kipctl.transport.request import Cluster

BROKERS = (1, 2, 3)
RATE = 200
EVERY_S = 3.0
LOOP_S = 2.0
READY_TIMEOUT_S = 90.0
END_TIMEOUT_S = 60.0
"""More than drivers wait for what is under way."""
TAP_TIMEOUT_S = 60.0
LONGEST_TAP = "20m"
"""Should this process be killed, its tap ends by itself."""


class LeftOutError(Exception):
    """A client that cannot be looked at, and why."""


TROUBLE = (LeftOutError, KipctlError, subprocess.TimeoutExpired)
"""Of one client; it leaves the others alone."""
ROLES = {"produces": "", "reads": "-reader"}
"""What is added to the client's id."""
PAGE_MARK = "<!-- made by benchmarks/real_clients.py, from here on -->"
Document = dict[str, Any]


def say(text: object) -> None:
    print(text, file=sys.stderr, flush=True)


# --- Processes ---


@contextmanager
def started(
    command: Sequence[str], errors: Path, **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """A process that Ctrl-C does not reach by itself, and that is gone after the block."""
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            command,
            text=True,
            stderr=stderr,
            start_new_session=True,
            **options,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def last_words(errors: Path) -> str:
    """The last line of what a process said that tells of an error, or the last one."""
    lines = [
        line.strip() for line in errors.read_text(errors="replace").splitlines() if line.strip()
    ]
    telling = [line for line in lines if "rror" in line or "xception" in line]
    return (telling or lines or ["it said nothing"])[-1][:200]


class RunningTap:
    """`kipctl tap` at work; clients connect to `address`. Raises LeftOutError."""

    def __init__(self, process: subprocess.Popen[str], errors: Path, recorded: Path) -> None:
        self._process, self._errors, self._recorded = process, errors, recorded
        until = time.monotonic() + TAP_TIMEOUT_S
        while not (match := re.search(r"Clients connect to (\S+)", errors.read_text())):
            if process.poll() is not None or time.monotonic() > until:
                raise LeftOutError(f"the tap does not start: {last_words(errors)}")
            time.sleep(0.05)
        self.address = match[1]

    def end(self) -> tuple[str, Document]:
        """What it printed, and its document: the one that `--output json` prints.

        Raises LeftOutError.
        """
        self._process.terminate()
        printed, _ = self._process.communicate(timeout=TAP_TIMEOUT_S)
        if self._process.returncode:
            raise LeftOutError(f"the tap failed: {last_words(self._errors)}")
        run = json.loads((self._recorded / "run.json").read_text())
        return printed, run["summary"]


@contextmanager
def running_tap(bootstrap_server: str, folder: Path) -> Iterator[RunningTap]:
    recorded, errors = folder / "run", folder / "tap.stderr"
    command = [sys.executable, "-m", "kipctl", "tap", "--record", str(recorded)]
    command += ["--bootstrap-server", bootstrap_server, "--for", LONGEST_TAP]
    command += ["--output", "plain"]
    piped = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    with started(command, errors, **piped) as process:
        yield RunningTap(process, errors, recorded)


class Driver:
    """A client at work, in its own process."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        assert process.stdout is not None
        self._process, self._errors, self._out = process, errors, process.stdout

    def await_ready(self) -> None:
        """Wait until it has written to each partition. Raises LeftOutError."""
        until = time.monotonic() + READY_TIMEOUT_S
        os.set_blocking(self._out.fileno(), False)
        said = b""
        while b"ready\n" not in said:
            left_s = until - time.monotonic()
            if not select.select([self._out], [], [], max(0.0, left_s))[0]:
                raise LeftOutError(f"it did not produce within {READY_TIMEOUT_S:.0f} s")
            some = os.read(self._out.fileno(), 65536)
            said += some
            if not some:
                self._process.wait(END_TIMEOUT_S)
                raise LeftOutError(f"its driver ended: {last_words(self._errors)}")
        os.set_blocking(self._out.fileno(), True)

    def end(self) -> Document:
        """What it counted. Raises LeftOutError."""
        try:
            printed, _ = self._process.communicate(timeout=END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise LeftOutError(f"its driver did not end within {END_TIMEOUT_S:.0f} s") from None
        for line in reversed(printed.splitlines()):
            if line.startswith("{"):
                counted: Document = json.loads(line)
                return counted
        raise LeftOutError(f"its driver ended without a word: {last_words(self._errors)}")


@contextmanager
def driving(preset: Preset, tap: RunningTap, options: Any, folder: Path) -> Iterator[Driver]:
    """A driver that has written to each partition of the topic of its name. Raises LeftOutError."""
    errors = folder / "driver.stderr"
    command = [*preset.program(say), "both", tap.address, preset.name, str(options.partitions)]
    command += [str(RATE), options.acks, preset.name, "", str(preset.metadata_ms)]
    piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with started(command, errors, **piped) as process:
        driver = Driver(process, errors)
        driver.await_ready()
        yield driver


# --- One client ---


def rotated(cluster: Cluster, topic: str, rotations: int) -> list[Rotation]:
    """Move all leaders of the topic on, so many times."""
    done = []
    for _ in range(rotations):
        at_s = time.time()
        rotate_own_topics(cluster, [topic])
        partitions = take_snapshot(cluster, [topic]).partitions
        epochs = {partition.id.partition: partition.leader_epoch for partition in partitions}
        done.append(Rotation(at_s, epochs))
        time.sleep(EVERY_S)
    return done


def keep_lines(lab: Lab, client_ids: Sequence[str], folder: Path) -> list[Path]:
    """The request logs' lines of these clients, a file for each broker."""
    marks = [f'"clientId":{json.dumps(client_id)}'.encode() for client_id in client_ids]
    kept = []
    for broker in BROKERS:
        path = folder / f"broker-{broker}.log"
        with path.open("wb") as file:
            # request.log.3 is older than request.log.1, and request.log is the newest.
            for log in sorted(lab.node(broker).folder.glob("request.log*"), reverse=True):
                with log.open("rb") as lines:
                    file.writelines(line for line in lines if any(mark in line for mark in marks))
        kept.append(path)
    return kept


def numbers_in_log(lab: Lab, cluster: Cluster, topic: str) -> tuple[int, int]:
    """Records in the log, and how many different ones."""
    first, end = offsets(cluster, topic, EARLIEST), offsets(cluster, topic, LATEST)
    reader = Consumer({"bootstrap.servers": lab.bootstrap_server, "group.id": "real-clients"})
    reader.assign([TopicPartition(topic, number, at) for number, at in first.items()])
    values: list[bytes] = []
    until = time.monotonic() + END_TIMEOUT_S
    positions = dict(first)
    while any(positions[number] < at for number, at in end.items()):
        if time.monotonic() > until:
            raise LeftOutError("its log could not be read to the end")
        for message in reader.consume(1000, 0.2):
            value, number, at = message.value(), message.partition(), message.offset()
            if message.error() or value is None or number is None or at is None:
                continue
            values.append(value)
            positions[number] = at + 1
    reader.close()
    return len(values), len(set(values))


def measured(preset: Preset, lab: Lab, cluster: Cluster, options: Any, folder: Path) -> Document:
    """What one client did. Raises LeftOutError."""
    preset.program(say)  # it is built before anything is measured
    topic = client_id = preset.name
    create_topics(lab.access, [topic], options.partitions, len(BROKERS))
    await_topic(cluster, topic, options.partitions)
    with running_tap(lab.bootstrap_server, folder) as tap:
        with driving(preset, tap, options, folder) as driver:
            time.sleep(EVERY_S)  # its consumer begins
            rotations = rotated(cluster, topic, options.rotations)
            counted = driver.end()
        printed, document = tap.end()
    time.sleep(1)  # a broker logs a request when it has sent the answer
    logs = folder / "logs"
    logs.mkdir()
    ids = {role: client_id + suffix for role, suffix in ROLES.items()}
    kept = keep_lines(lab, list(ids.values()), logs)
    records, different = numbers_in_log(lab, cluster, topic)
    result: Document = {
        "client": preset.name,
        "version": counted["version"],
        "records": {
            **{name: counted[name] for name in ("sent", "acknowledged", "failed", "read")},
            "unanswered": counted["sent"] - counted["acknowledged"] - counted["failed"],
            "in_log": records,
            "twice": records - different,
            "lost": max(0, counted["acknowledged"] - different),
        },
        "errors": counted["errors"],
        "roles": [],
        "logs": str(logs),
    }
    for role, identifier in ids.items():
        if seen := [client for client in document["clients"] if client["client_id"] == identifier]:
            lines = (line for path in kept for line in path.open(errors="replace"))
            plain = refusals(lines, identifier, rotations)
            result["roles"].append(of_role(role, seen, plain, printed))
    return result


def of_role(role: str, seen: Sequence[Document], plain: Refusals, printed: str) -> Document:
    """What the tap says of a client id, beside the plain count.

    It is one client to the tap for each software that its connections tell; its waits are those of
    the one that met most moves.
    """
    most = max(seen, key=lambda client: client["moves"]["met"])
    client_id: str = most["client_id"]
    leader_errors = sum(client["leader_errors"] for client in seen)
    hints = sum(client["hints"]["sent"] for client in seen)
    met = sum(client["moves"]["met"] for client in seen)
    return {
        "role": role,
        "client_id": client_id,
        "software": software_of(seen),
        "leader_errors": {"tap": leader_errors, "plain_count": plain.refused},
        "hints": {"tap": hints, "plain_count": plain.hinted},
        "moves_met": {"tap": met, "plain_count": len(plain.moves)},
        "wait_ms": most["moves"]["wait_ms"],
        "verdict": verdict_in(printed, client_id, software_of(seen)),
        "tap": list(seen),
    }


def software_of(seen: Sequence[Document]) -> str | None:
    """As the client tells it; None where it does not."""
    told = (filter(None, (client["software_name"], client["software_version"])) for client in seen)
    return ", ".join(filter(None, map(" ".join, told))) or None


def verdict_in(printed: str, client_id: str, software: str | None) -> str | None:
    """The tap's sentences on a client: in what stands above its tables, those that begin with its
    id; without its name.
    """
    answer, _, _ = printed.partition("\n\n")
    begins = re.compile(rf"\W*{re.escape(client_id)}(?![\w-])(.*)")
    said = (match[1] for line in answer.splitlines() if (match := begins.fullmatch(line)))
    return " ".join(text.replace(f"({software}) ", "", 1).strip(" :") for text in said) or None


def request_log_says(logs: str) -> list[Document] | None:
    """What `kipctl analyze request-log` says of the client, for each cluster: rows by software, and
    by client that was refused. None without Spark.
    """
    command = [sys.executable, "-m", "kipctl", "analyze", "request-log", logs, "--output", "json"]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if ran.returncode:
        say(f"analyze request-log failed: {ran.stderr.strip()[-300:]}")
        return None
    return [
        {"fleet": cluster["fleet"], "clients": cluster.get("refused_clients", [])}
        for cluster in json.loads(ran.stdout)["clusters"]
    ]


def looped(preset: Preset, options: Any, folder: Path) -> Document:
    """What one client does with hints that name the refuser. Raises LeftOutError."""
    preset.program(say)
    topic = client_id = preset.name
    scripted = ScriptedCluster({topic: options.partitions}, brokers=1)
    until_us = 0

    def refuse(attempt: Attempt) -> Refusal | None:
        if attempt.api != ApiKey.PRODUCE or attempt.us >= until_us:
            return None
        leader = scripted.leaders[attempt.place]
        return Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, leader, scripted.nodes[leader.id])

    scripted.script = refuse
    with (
        Loopback(scripted) as cluster,
        running_tap(cluster.bootstrap_server, folder) as tap,
    ):
        with driving(preset, tap, options, folder) as driver:
            time.sleep(1)
            began_us = scripted.now_us()
            until_us = began_us + round(LOOP_S * 1e6)
            time.sleep(EVERY_S)
            counted = driver.end()
        printed, document = tap.end()
    during = [exchange for exchange in scripted.exchanges if began_us <= exchange.us < until_us]
    asked = {
        api.name.lower(): sum(exchange.api == api for exchange in during)
        for api in (ApiKey.PRODUCE, ApiKey.METADATA)
    }
    seen = [client for client in document["clients"] if client["client_id"] == client_id]
    return {
        "client": preset.name,
        "version": counted["version"],
        "asked": asked,
        "records": {name: counted[name] for name in ("sent", "acknowledged", "failed")},
        "errors": counted["errors"],
        "verdict": verdict_in(printed, client_id, software_of(seen)),
        "tap": seen,
    }


# --- All of them ---


def measure_all(
    chosen: Sequence[Preset], options: Any, folder: Path
) -> tuple[list[Document], list[Document]]:
    """What each did, and the clients that are left out."""
    clients: list[Document] = []
    left_out: list[Document] = []
    name = f"real-clients-{os.getpid()}"
    c1_only = suits_c1(len(BROKERS) + 1)
    spec = LabSpec(name=name, request_log=True, of_a_run=True, c1_only=c1_only)
    lab = Lab.up(spec, say)
    try:
        with Cluster(lab.access) as cluster:
            for preset in chosen:
                say(f"{preset.name}")
                own = folder / preset.name
                own.mkdir()
                try:
                    clients.append(measured(preset, lab, cluster, options, own))
                except TROUBLE as why:
                    say(f"{preset.name} is left out: {why}")
                    left_out.append({"client": preset.name, "why": str(why)})
    finally:
        lab.down()
    return clients, left_out


def loop_all(
    chosen: Sequence[Preset], options: Any, folder: Path
) -> tuple[list[Document], list[Document]]:
    """The same of hints that name the refuser; no lab is needed."""
    loops: list[Document] = []
    left_out: list[Document] = []
    for preset in chosen:
        say(f"{preset.name}: hints that name the refuser")
        own = folder / f"{preset.name}-loop"
        own.mkdir()
        try:
            loops.append(looped(preset, options, own))
        except TROUBLE as why:
            left_out.append({"client": preset.name, "why": f"hints that name the refuser: {why}"})
    return loops, left_out


def report_of(
    clients: Sequence[Document],
    loops: Sequence[Document],
    left_out: Sequence[Document],
    options: Any,
) -> Report:
    rows = [client | role for client in clients for role in client["roles"]]
    figures = table_of(
        f"Clients while {options.partitions} leaders moved {options.rotations} times, "
        f"acks={options.acks}",
        rows,
        {
            "client": "client",
            "it": "role",
            "software, as it says": lambda row: row["software"] or "-",
            "refused": "leader_errors.tap",
            "hints": "hints.tap",
            "moves met": "moves_met.tap",
            "counted plainly": "moves_met.plain_count",
            Column("wait p50 ms", 1): wait("p50"),
            Column("at most ms", 1): wait("max"),
        },
        (
            "Refused and hints are counted by partition of an answer; moves by partition and leader"
            " epoch, by the tap and by a plain count of the brokers' request logs.",
            nine_in_ten(rows),
        ),
    )
    records = table_of(
        "Their records",
        clients,
        {
            "client": "client",
            "version": "version",
            **{
                name: f"records.{name}"
                for name in (
                    "sent",
                    "acknowledged",
                    "failed",
                    "unanswered",
                    "lost",
                    "twice",
                    "read",
                )
            },
            "errors": lambda client: (
                "; ".join(f"{count:,} x {text}" for text, count in client["errors"].items()) or "-"
            ),
        },
    )
    verdicts = table_of(
        "What is said of them",
        rows,
        {
            "client": "client",
            "it": "role",
            "by the tap": lambda row: row["verdict"] or "-",
            "by analyze request-log": said_of_logs,
        },
    )
    tables = [figures, verdicts, records] if clients else []
    if loops:
        tables.append(loop_table(loops))
    if left_out:
        tables.append(table_of("Left out", left_out, {"client": "client", "why": "why"}))
    conditions = {
        "acks": options.acks,
        "partitions": options.partitions,
        "rotations": options.rotations,
        "records_per_second": RATE,
    }
    document = {"conditions": conditions, "clients": list(clients), "loops": list(loops)}
    document["left_out"] = list(left_out)
    return Report("benchmark real_clients", document, tuple(tables))


def nine_in_ten(rows: Sequence[Document]) -> str:
    """How often the tap met about as many moves as were counted plainly."""
    met = [row["moves_met"] for row in rows if row["moves_met"]["plain_count"]]
    near = sum(0.9 <= moves["tap"] / moves["plain_count"] <= 1.1 for moves in met)
    return f"The tap has nine in ten of these moves, and no tenth more, for {near} of {len(met)}."


def loop_table(loops: Sequence[Document]) -> Table:
    return table_of(
        f"A broker that refuses for {LOOP_S:g} s, and names itself in the same epoch",
        loops,
        {
            "client": "client",
            "version": "version",
            "Produce requests": "asked.produce",
            "Metadata requests": "asked.metadata",
            "records failed": "records.failed",
            "verdict": lambda loop: loop["verdict"] or "-",
        },
        (f"{RATE:,} records/s: each of them alone would be {RATE * LOOP_S:,.0f} requests.",),
    )


def wait(name: str) -> Any:
    return lambda row: row["wait_ms"][name] if row["moves_met"]["tap"] else None


def said_of_logs(row: Mapping[str, Any]) -> str:
    """The sentence of `analyze request-log` on the client id; without one, what it says of hints of
    the software.
    """
    refused, software = [], []
    for cluster in row["request_log"] or ():
        # A client is named by its id, or by its id and host, as in `shop@127.0.0.1`.
        named = re.compile(rf"{re.escape(row['client_id'])}(@.*)?")
        refused += [client for client in cluster["clients"] if named.fullmatch(client["client"])]
        software += [client["hint_behaviour"] for client in cluster["fleet"]]
    return "; ".join([client["verdict"]["sentence"] for client in refused] or software) or "-"


def write_page(report: Report, page: Path) -> None:
    """Put the tables on a page, in place of what stands after its mark, if it has one."""
    before, mark, _ = (page.read_text("utf-8") if page.exists() else "").partition(PAGE_MARK)
    tables = StringIO()
    write(report, OutputFormat.MARKDOWN, tables, False)
    head = f"{before}{mark}\n\n" if mark else ""
    page.write_text(head + tables.getvalue(), encoding="utf-8")


def main() -> None:
    names = [name for name in PRESETS if name != OWN.name]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", default=names)
    parser.add_argument("--rotations", type=int, default=4)
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--acks", choices=("all", "1"), default="all")
    parser.add_argument("--loop", action="store_true", help="hints that name the refuser, too")
    parser.add_argument("--output", type=OutputFormat, default=OutputFormat.AUTO)
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="put the tables on that page too"
    )
    options = parser.parse_args()
    chosen = [PRESETS[name] for name in names if name in options.only]
    with as_keyboard_interrupts(), tempfile.TemporaryDirectory(prefix="kipctl-clients-") as text:
        clients: list[Document] = []
        loops: list[Document] = []
        left_out: list[Document] = []
        if options.rotations:
            clients, left_out = measure_all(chosen, options, Path(text))
        if options.loop:
            loops, more = loop_all(chosen, options, Path(text))
            left_out += [
                entry for entry in more if entry["client"] not in {o["client"] for o in left_out}
            ]
        for client in clients:
            client["request_log"] = request_log_says(client.pop("logs"))
    report = report_of(clients, loops, left_out, options)
    write(report, options.output, sys.stdout, sys.stdout.isatty())
    if options.markdown:
        write_page(report, options.markdown)


if __name__ == "__main__":
    main()
