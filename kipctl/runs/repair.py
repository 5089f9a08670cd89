"""A run whose recorder was killed is made whole, from the rows that its clients had written."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kipctl.errors import UsageError
from kipctl.measure.consumer_summary import measured_consume, summarize_consume
from kipctl.measure.delivery import summarize_end_to_end
from kipctl.measure.outcomes import combined_outcome, salvaged_outcome
from kipctl.measure.probe_results import ProbeResult, rows_of_probes
from kipctl.measure.producer_summary import measured_produce, summarize_produce
from kipctl.own_topic_names import is_own
from kipctl.probe.consume.config import parse_properties as consumer_config
from kipctl.probe.consume.run import ConsumeSpec
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.probe.produce.config import parse_properties as producer_config
from kipctl.probe.produce.run import ProduceOutcome, ProduceSpec
from kipctl.probe.run import AnyOutcome, Outcome, Spec
from kipctl.probe.schedule import Share
from kipctl.runs.actions import ActionKind, parse_action
from kipctl.runs.e2e import follow, together
from kipctl.runs.record import Recorder
from kipctl.runs.tap import repaired as repaired_tap
from kipctl.trace.columns import BATCH, raw_path
from kipctl.trace.folder_lock import in_use
from kipctl.trace.run_start import RunStart
from kipctl.trace.store import ROWS_FOLDER, RUN_FILE, Run
from kipctl.transport.access import Access

_DISTURBED = {
    ActionKind.RESTART: "A broker may be stopped. See: kipctl lab status",
    ActionKind.ROTATE: "Leaders may have been moved. Undo: kipctl reassign --rollback",
    ActionKind.ELECT: "Leaders may have been moved. Undo: kipctl reassign --rollback",
    ActionKind.REASSIGN: "Partitions may have been reassigned. Undo: kipctl reassign --rollback",
}
_FAILURE = "kipctl was killed while it recorded this; it is what was settled by then."


def repair(folder: Path) -> Mapping[str, Any]:
    """Make the run in this folder whole, and evaluate it; returns its summary.

    What was done to the cluster meanwhile only its recorder knew. Raises UsageError when the run is
    whole, when it is being recorded, and when nothing was measured.
    """
    rows = folder / ROWS_FOLDER
    if (folder / RUN_FILE).exists() and not rows.exists():
        raise UsageError(f"{folder} is whole: there is nothing to repair.")
    if not folder.is_dir():
        raise UsageError(f"There is no run {folder.name}: {folder} does not exist.")
    if not (rows / RUN_FILE).exists():
        raise UsageError(
            f"{folder} holds nothing to repair: no run of kipctl's perf began there.",
            f"Remove it: kipctl runs remove {folder.name}",
        )
    with ExitStack() as alone:
        # A probe outlives its starter until all that it has sent is settled.
        for used in (rows, *(path.parent for path in rows.glob("*/begun"))):
            alone.enter_context(in_use(used, alone=True))
        document = _repaired(Run(folder), Run(rows).description, rows)
        shutil.rmtree(rows)
    return document


def _repaired(run: Run, known: Mapping[str, Any], rows: Path) -> Mapping[str, Any]:
    """A run that was recorded already is evaluated alone."""
    if known["command"] == "tap":
        return repaired_tap(run, known, rows, _FAILURE)
    outside = ("schema_version", "command", "topic", "cluster_before")
    how = {name: value for name, value in known.items() if name not in outside} | {"repaired": True}
    recorder = Recorder(run, known["command"], known["topic"], how, known["cluster_before"])
    is_recorded = (run.folder / RUN_FILE).exists()
    done = run.description["summary"] if is_recorded else {}

    def record(outcome: Outcome, parts: Sequence[ProbeResult[Any]]) -> None:
        if not is_recorded:
            recorder.write(outcome, parts, [], [], None)

    actions, version = done.get("actions", []), known.get("kafka_version")
    workers = int(known["workers"])
    match known["command"]:
        case "perf produce":
            outcome, written = _whole(_producer(known), rows, range(workers))
            record(outcome, written)
            document = summarize_produce(measured_produce(outcome, written), actions, version)
        case "perf consume":
            reading_outcome, read = _whole(_consumer(known), rows, range(workers))
            record(reading_outcome, read)
            document = summarize_consume(measured_consume(reading_outcome, read), actions, version)
        case _:
            reading_outcome, read = _whole(_consumer(known), rows, range(workers))
            outcome, written = _whole(_producer(known), rows, range(workers, 2 * workers))
            if known.get("forever"):
                recorder = recorder.limited_to(
                    outcome.generated,
                    _kept_from_s(outcome, written),
                    (outcome.end_us - outcome.start_us) / 1e6,
                )
            record(outcome, together(outcome, written, read))
            produced, consumed = (
                measured_produce(outcome, written),
                measured_consume(reading_outcome, read),
            )
            delivery = follow(outcome, written, reading_outcome, read)
            # A consumer that was stopped, or killed, may have had records still to come.
            # Of one whose beginning is not kept, what came may have come in what is gone.
            is_all = not run.description.get("stopped") and not known.get("forever")
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
            f"Remove it: kipctl runs remove {rows.parent.name}",
        )
    outcomes = [part.outcome for part in parts]
    return combined_outcome(spec, outcomes, outcomes[0].start_us), tuple(parts)


def _kept_from_s(outcome: ProduceOutcome, written: Sequence[ProbeResult[ProduceOutcome]]) -> float:
    """Seconds from the start to the first batch that is kept; 0 where all are."""
    if all(raw_path(part.directory, "batches").exists() for part in written):
        return 0.0
    first = next(rows_of_probes(written, "batches", outcome.start_us), None)
    return 0.0 if first is None else (int(first[0, BATCH["acked_us"]]) - outcome.start_us) / 1e6


def _producer(known: Mapping[str, Any]) -> ProduceSpec:
    """The inverse of `produce_settings`."""
    return ProduceSpec(
        Access(known["bootstrap_server"]),
        known["topic"],
        num_records=known["num_records"],
        throughput=known["throughput"],
        record_size=known["record_size"] or 0,
        warmup_records=known["warmup_records"],
        discovery=LeaderDiscovery(known["leader_discovery"]),
        config=producer_config(known["producer"]),
    )


def _consumer(known: Mapping[str, Any]) -> ConsumeSpec:
    """The inverse of `consume_settings`."""
    return ConsumeSpec(
        Access(known["bootstrap_server"]),
        known["topic"],
        num_records=known["num_records"],
        discovery=LeaderDiscovery(known["leader_discovery"]),
        config=consumer_config(known["consumer"]),
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
