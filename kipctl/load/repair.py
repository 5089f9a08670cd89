"""A run whose recorder was killed is made whole, from the rows that its clients had written."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from kipctl.documents.runs import RunDocument
from kipctl.errors import UsageError
from kipctl.left_files import read_left
from kipctl.load.actions import ActionKind, parse_action
from kipctl.load.e2e import follow, parts_on_one_clock
from kipctl.load.record import Recorder
from kipctl.load.tap import TapSettings
from kipctl.load.tap import repaired as repaired_tap
from kipctl.measure.consumer_summary import measured_consume, summarize_consume
from kipctl.measure.delivery import summarize_end_to_end
from kipctl.measure.outcomes import combined_outcome, salvaged_outcome
from kipctl.measure.probe_results import ProbeResult, rows_of_probes
from kipctl.measure.producer_summary import measured_produce, summarize_produce
from kipctl.next_step import Command
from kipctl.own_topic_names import is_own
from kipctl.probe.consume.config import parse_properties as consumer_config
from kipctl.probe.consume.run import ConsumeSpec
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.probe.produce.config import parse_properties as producer_config
from kipctl.probe.produce.run import ProduceOutcome, ProduceSpec
from kipctl.probe.run import AnyOutcome, Outcome, Spec
from kipctl.probe.schedule import Share
from kipctl.trace.columns import BATCH, raw_path
from kipctl.trace.folder_lock import in_use
from kipctl.trace.run_start import RunStart
from kipctl.trace.store import ROWS_FOLDER, RUN_FILE, Run
from kipctl.trace.stored_runs import StoredRun, read_stored_run
from kipctl.transport.access import Access
from kipctl.typed_json import decoded

T = TypeVar("T")

_DISTURBED = {
    ActionKind.RESTART: "A broker may be stopped. See: " + Command("lab status"),
    ActionKind.ROTATE: "Leaders may have been moved. See what to undo: " + Command("changes list"),
    ActionKind.ELECT: "Leaders may have been moved. See what to undo: " + Command("changes list"),
    ActionKind.REASSIGN: "Partitions may have moved. See what to undo: " + Command("changes list"),
}
_LARGEST = 256 << 20
"""Bytes; the snapshot of a cluster of 200,000 partitions has less than half of it."""
_FAILURE = "kipctl was killed while it recorded this; it is what was settled by then."


def repair(folder: Path) -> Mapping[str, Any]:
    """Make the run in this folder whole, and evaluate it; returns its summary.

    What was done to the cluster meanwhile only its recorder knew. Raises UsageError when the run is
    whole, when it is being recorded, when nothing was measured, and when what was left is damaged.
    """
    rows = folder / ROWS_FOLDER
    if (folder / RUN_FILE).exists() and not rows.exists():
        raise UsageError(f"{folder} is whole: there is nothing to repair.")
    if not folder.is_dir():
        raise UsageError(f"There is no run {folder.name}: {folder} does not exist.")
    if not (rows / RUN_FILE).exists():
        raise UsageError(
            f"{folder} holds nothing to repair: no run of kipctl's perf began there.",
            "Remove it: " + Command("runs remove", folder.name),
        )
    stored = read_stored_run(folder)
    if (folder / RUN_FILE).exists() and stored.description is None:
        raise UsageError(f"{folder} cannot be repaired: {stored.flaw}.")
    with ExitStack() as alone:
        # A probe outlives its starter until all that it has sent is settled.
        for used in (rows, *(path.parent for path in rows.glob("*/begun"))):
            alone.enter_context(in_use(used, alone=True))
        document = _repaired(Run(folder), stored, rows)
        shutil.rmtree(rows)
    return document


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunSettings:
    """What is known of a run when it begins, by the names of `run.json`: of every command."""

    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _LoadSettings:
    """Of perf's commands."""

    topic: str
    bootstrap_server: str
    workers: int
    num_records: int
    leader_discovery: LeaderDiscovery
    cluster_before: Mapping[str, Any]
    kafka_version: str | None = None
    forever: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProducerSettings(_LoadSettings):
    throughput: float
    record_size: int | None
    warmup_records: int
    producer: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ConsumerSettings(_LoadSettings):
    consumer: Mapping[str, str]


def _repaired(run: Run, stored: StoredRun, rows: Path) -> Mapping[str, Any]:
    """A run that was recorded already is evaluated alone."""
    content = read_left(rows / RUN_FILE, _LARGEST)

    def decoded_as(kind: type[T]) -> T:
        return decoded(content, kind, str(rows / RUN_FILE))

    command = decoded_as(_RunSettings).command
    if command == "tap":
        return repaired_tap(run, decoded_as(TapSettings), rows, _FAILURE)
    load = decoded_as(_LoadSettings)
    outside = ("schema_version", "command", "topic", "cluster_before")
    how = {name: value for name, value in decoded_as(dict[str, Any]).items() if name not in outside}
    recorder = Recorder(run, command, load.topic, how | {"repaired": True}, load.cluster_before)
    is_recorded = stored.description is not None

    def record(outcome: Outcome, parts: Sequence[ProbeResult[Any]]) -> None:
        if not is_recorded:
            recorder.write(outcome, parts, [], [], None)

    document: RunDocument
    actions, version = stored.summary.get("actions", []), load.kafka_version
    workers = load.workers
    match command:
        case "perf produce":
            outcome, written = _whole(
                _producer(decoded_as(_ProducerSettings)), rows, range(workers)
            )
            record(outcome, written)
            document = summarize_produce(measured_produce(outcome, written), actions, version)
        case "perf consume":
            reading_outcome, read = _whole(
                _consumer(decoded_as(_ConsumerSettings)), rows, range(workers)
            )
            record(reading_outcome, read)
            document = summarize_consume(measured_consume(reading_outcome, read), actions, version)
        case _:
            reading_outcome, read = _whole(
                _consumer(decoded_as(_ConsumerSettings)), rows, range(workers)
            )
            outcome, written = _whole(
                _producer(decoded_as(_ProducerSettings)), rows, range(workers, 2 * workers)
            )
            if load.forever:
                recorder = recorder.limited_to(
                    outcome.generated,
                    _kept_from_s(outcome, written),
                    (outcome.end_us - outcome.start_us) / 1e6,
                )
            record(outcome, parts_on_one_clock(outcome, written, read))
            produced, consumed = (
                measured_produce(outcome, written),
                measured_consume(reading_outcome, read),
            )
            delivery = follow(outcome, written, reading_outcome, read)
            # A consumer that was stopped, or killed, may have had records still to come.
            # Of one whose beginning is not kept, what came may have come in what is gone.
            is_all = not run.description.get("stopped") and not load.forever
            was_awaited = is_recorded and is_all
            document = summarize_end_to_end(
                produced, consumed, delivery, actions, version, was_awaited
            )
    recorder.evaluated(document)
    return document


def _whole(
    spec: Spec[AnyOutcome], rows: Path, folders: Sequence[int]
) -> tuple[AnyOutcome, tuple[ProbeResult[AnyOutcome], ...]]:
    """The common outcome of the probes that did this, of those folders; and each."""
    parts = []
    for worker, number in enumerate(folders):
        directory = rows / str(number)
        if begun := RunStart.read(directory):
            own = spec.of_worker(Share(worker, len(folders))) if len(folders) > 1 else spec
            parts.append(ProbeResult(salvaged_outcome(own, begun, directory, _FAILURE), directory))
    if not parts:
        raise UsageError(
            f"{rows.parent} holds nothing to repair: its load had not begun.",
            "Remove it: " + Command("runs remove", rows.parent.name),
        )
    outcomes = [part.outcome for part in parts]
    return combined_outcome(spec, outcomes, outcomes[0].start_us), tuple(parts)


def _kept_from_s(outcome: ProduceOutcome, written: Sequence[ProbeResult[ProduceOutcome]]) -> float:
    """Seconds from the start to the first batch that is kept; 0 where all are."""
    if all(raw_path(part.directory, "batches").exists() for part in written):
        return 0.0
    first = next(rows_of_probes(written, "batches", outcome.start_us), None)
    return 0.0 if first is None else (int(first[0, BATCH["acked_us"]]) - outcome.start_us) / 1e6


def _producer(known: _ProducerSettings) -> ProduceSpec:
    """The inverse of `produce_settings`."""
    return ProduceSpec(
        Access(known.bootstrap_server),
        known.topic,
        num_records=known.num_records,
        throughput=known.throughput,
        record_size=known.record_size or 0,
        warmup_records=known.warmup_records,
        discovery=known.leader_discovery,
        config=producer_config(known.producer),
    )


def _consumer(known: _ConsumerSettings) -> ConsumeSpec:
    """The inverse of `consume_settings`."""
    return ConsumeSpec(
        Access(known.bootstrap_server),
        known.topic,
        num_records=known.num_records,
        discovery=known.leader_discovery,
        config=consumer_config(known.consumer),
    )


def left_undone(description: Mapping[str, Any]) -> Iterator[str]:
    """What a run whose recorder was killed may have left on the cluster, in sentences."""
    topic = description.get("topic") or (description.get("summary") or {}).get("topic") or ""
    during = description.get("during")
    kind = parse_action(during).kind if during else None
    its_own = is_own(topic)
    if its_own:
        yield (
            f"Its topic, {topic}, may still be on the cluster with its data. Remove it: "
            f"kafka-topics --delete --topic {topic}"
        )
    if kind and (not its_own or kind is ActionKind.RESTART):
        yield _DISTURBED[kind]
