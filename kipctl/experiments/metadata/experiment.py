"""`experiment metadata`: what KIP-526 claims, for kipctl's producer and for others behind a tap."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np

from kipctl.errors import UsageError, did_you_mean
from kipctl.experiments.arms.arm import Arm, parse_arm
from kipctl.experiments.arms.arm import JavaClient as JavaArm
from kipctl.experiments.arms.end_to_end_load import recorded_in
from kipctl.experiments.arms.run_rows import dataset, rows
from kipctl.experiments.arms.stand import Stand
from kipctl.extras import require
from kipctl.probe.idle_eviction import TopicPolicy
from kipctl.progress import ProgressText, part_of
from kipctl.protocol.api import ApiKey
from kipctl.protocol.produce_frames import Topic
from kipctl.runs.metadata.phases import (
    PhaseLoad,
    PhaseResult,
    Rpc,
    growth,
    phase_document,
    phase_loads,
)
from kipctl.runs.metadata.plan import MetadataPlan, Phase
from kipctl.runs.metadata.run import leaders_moving, topics_of
from kipctl.runs.metadata.senders import (
    CLIENT_ID,
    LibrdkafkaSender,
    ProbeSender,
    Sender,
)
from kipctl.runs.record import describe
from kipctl.tap import export
from kipctl.tap.process import running_tap
from kipctl.tap.spec import Lend, TapSpec
from kipctl.trace.clock import now_us
from kipctl.trace.codes import MetadataCause
from kipctl.trace.columns import BATCH, RPC
from kipctl.trace.rows import IntRows
from kipctl.trace.store import Run
from kipctl.transport.access import Access

CLIENTS = (
    "probe-legacy", "probe-kip526", "probe-preload", "java-3.6.0", "java-4.3.1", "librdkafka"
)  # fmt: skip
"""Those that are measured unless others are asked for."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A client under test: kipctl's own under a policy, or an arm of another client."""

    name: str
    policy: TopicPolicy | None = None
    arm: Arm | None = None


def parse_clients(text: str) -> tuple[Watched, ...]:
    """Clients by their names, separated by commas. Raises UsageError."""
    found = []
    for name in dict.fromkeys(part.strip() for part in text.split(",")):
        policy = next((p for p in TopicPolicy if name == f"probe-{p}"), None)
        if policy is not None:
            found.append(Watched(name, policy=policy))
            continue
        arm = parse_arm(name) if name.startswith(("java-", "librdkafka")) else None
        if arm is None or not _is_plain(arm):
            raise UsageError(
                f"{name!r} is no client of this experiment.{did_you_mean(name, CLIENTS)}",
                f"There are {', '.join(CLIENTS)}, and java-X.Y.Z.",
            )
        if isinstance(arm.client, JavaArm):
            require("py4j", name)
        found.append(Watched(name, arm=arm))
    return tuple(found)


def _is_plain(arm: Arm) -> bool:
    """Whether it is nothing but a client: what concerns hints and backoffs is of no use here."""
    return not (arm.caps or arm.drop_hints or arm.properties)


def run_claims(
    plan: MetadataPlan,
    clients: Sequence[Watched],
    stand: Stand,
    record: Callable[[str], Path | None],
    message: Callable[[str], None],
) -> dict[str, Any]:
    """Carry it out; returns what `--output json` prints. Raises KipctlError.

    Each phase has a client of its own, which first gets to know all topics, and a tap of its own.
    """
    if len(stand.cluster.nodes) < 2 and Phase.LEADER_CHANGES in plan.phases:
        raise UsageError("No leader can move on a cluster of one broker.")
    documents = []
    with topics_of(plan, stand.cluster, message) as ids:
        for number, client in enumerate(clients):
            part = part_of(message, number / len(clients), (number + 1) / len(clients))
            with _maker(client, plan, stand, ids) as make:
                documents.append(_client_document(client, plan, make, stand, record, part))
    return {
        "topics": plan.topics,
        "partitions": plan.partitions,
        "throughput": plan.throughput,
        "kafka_version": stand.kafka_version,
        "clients": documents,
        "claims": [claims(document, plan.topics) for document in documents],
    }


Make = Callable[[Access, PhaseLoad], Sender]
"""A producer at that bootstrap server, with the settings that the phase asks for."""


@contextmanager
def _maker(
    client: Watched, plan: MetadataPlan, stand: Stand, ids: Mapping[str, UUID]
) -> Iterator[Make]:
    """How the client's producers are made; what they share is gone after the block."""
    if client.policy is not None:
        policy, topics = client.policy, [Topic(name, ids[name]) for name in plan.names]

        def probe(server: Access, load: PhaseLoad) -> Sender:
            config = replace(plan.config, client_id=CLIENT_ID)
            return ProbeSender(server, config, policy, topics, plan.partitions, plan.record_size)

        yield probe
    elif client.arm is not None and isinstance(client.arm.client, JavaArm):
        from kipctl.runs.metadata.java import JavaSender, java_machine

        version = client.arm.client.version
        with java_machine(stand.java[version]) as gateway:

            def java(server: Access, load: PhaseLoad) -> Sender:
                settings = {
                    "metadata.max.age.ms": load.max_age_ms,
                    "metadata.max.idle.ms": load.max_idle_ms,
                }
                given = {name: str(ms) for name, ms in settings.items() if ms is not None}
                return JavaSender(gateway, version, server, plan.names, plan.record_size, given)

            yield java
    else:

        def librdkafka(server: Access, load: PhaseLoad) -> Sender:
            return LibrdkafkaSender(server, plan.names, plan.record_size, load.max_age_ms)

        yield librdkafka


def _client_document(
    client: Watched,
    plan: MetadataPlan,
    make: Make,
    stand: Stand,
    record: Callable[[str], Path | None],
    message: Callable[[str], None],
) -> dict[str, Any]:
    """One client through all phases, in the shape of `perf metadata`."""
    phases: list[dict[str, Any]] = []
    grown: list[dict[str, Any]] = []
    software = ""
    loads = phase_loads(plan.phases, plan.topics, plan.throughput, plan.seconds)
    startup = loads[0]
    for done, load in enumerate(loads):
        message(ProgressText(f"{client.name}: {load.phase}", done, len(loads)))
        before = () if load is startup else (startup,)
        with recorded_in(record(f"{client.name}-{load.phase}")) as run:
            software, result, moves = _watch(client, plan, make, stand, before, load, run, message)
        if load is startup:
            grown = growth(result)
        document = phase_document(load.phase, result, None)
        phases.append(document | {"moves": moves, "least_asked": least_asked(result.rpcs, load)})
    return {
        "client": client.name,
        "policy": None,
        "version": software,
        "phases": phases,
        "growth": grown,
    }


def _watch(
    client: Watched,
    plan: MetadataPlan,
    make: Make,
    stand: Stand,
    before: Sequence[PhaseLoad],
    load: PhaseLoad,
    run: Run,
    message: Callable[[str], None],
) -> tuple[str, PhaseResult, int]:
    """One phase: the client's software, what it did as the tap saw it, and how often leaders moved.

    What it does `before` is not part of it.
    """
    moving = load.phase is Phase.LEADER_CHANGES
    with (
        tempfile.TemporaryDirectory(prefix="kipctl-tap-") as scratch,
        running_tap(TapSpec(access=stand.access, lends=Lend.THIS_USER), Path(scratch)) as tap,
    ):
        with closing(make(stand.access.behind(tap.bootstrap_server), load)) as sender:
            for earlier in before:
                sender.send(replace(earlier, max_age_ms=load.max_age_ms))
            begin_us = now_us() if before else tap.start_us
            moves: list[int] = []
            with ExitStack() as meanwhile:
                if moving:
                    moves = meanwhile.enter_context(leaders_moving(plan, message))
                failed = sender.send(load)
            end_us = now_us()
            software = sender.software
        tapped = tap.stop()
        export.write(run, tapped, Path(scratch))
    result = phase_result(run, begin_us - tapped.start_us, end_us - tapped.start_us, failed)
    describe(
        run,
        "experiment metadata",
        tapped.wall_start_us,
        {
            "source": "tap",
            "bootstrap_server": str(stand.access),
            "arm": client.name,
            "phase": str(load.phase),
            "interval_ns": 0,
            "topics": plan.topics,
            "throughput": plan.throughput,
            "record_size": plan.record_size,
            "warmup_records": 0,
            "summary": {
                "kafka_version": stand.kafka_version,
                **phase_document(load.phase, result, None),
            },
        },
    )
    return software, result, len(moves)


def phase_result(run: Run, begin_us: int, end_us: int, failed: int) -> PhaseResult:
    """What the recorded client did in [begin, end), microseconds since the run's start."""
    calls = rows(dataset(run, "rpcs", CLIENT_ID), "rpcs")
    batches = rows(dataset(run, "batches", CLIENT_ID), "batches")
    calls = _sent_in(calls, RPC["sent_us"], begin_us, end_us)
    calls = calls[calls[:, RPC["api_key"]] == ApiKey.METADATA]
    batches = _sent_in(batches, BATCH["sent_us"], begin_us, end_us)
    done = batches[batches[:, BATCH["error"]] == 0]
    latencies = np.repeat(
        done[:, BATCH["acked_us"]] - done[:, BATCH["intended_us"]], done[:, BATCH["records"]]
    )
    return PhaseResult(
        records=int(done[:, BATCH["records"]].sum()),
        failed=failed,
        seconds=(end_us - begin_us) / 1e6,
        latencies_us=latencies.tolist(),
        waits_us=None,
        rpcs=[_rpc(call) for call in calls.tolist()],
    )


def _sent_in(found: IntRows, column: int, begin_us: int, end_us: int) -> IntRows:
    at = found[:, column]
    return found[(at >= begin_us) & (at < end_us)]


def _rpc(call: Sequence[int]) -> Rpc:
    cause, topics, size, answer, sent_us, received_us = (
        call[RPC[name]]
        for name in (
            "cause", "topics", "request_bytes", "response_bytes", "sent_us", "received_us"
        )
    )  # fmt: skip
    answered = received_us > 0
    return Rpc(
        MetadataCause(cause).name.lower() if cause >= 0 else None,
        topics if topics >= 0 else None,
        size,
        answer if answered else None,
        received_us - sent_us if answered else None,
    )


def least_asked(rpcs: Sequence[Rpc], load: PhaseLoad) -> int | None:
    """Of a phase in which topics are idle, for how few the client asked when it renewed Metadata.

    A request for one topic is none of all that is in use; None if there was no other.
    """
    if load.phase is not Phase.IDLE_RETURN:
        return None
    return min(
        (rpc.topics for rpc in rpcs if rpc.topics is not None and rpc.topics > 1), default=None
    )


def how_asked(most: int, asked: int | None, topics: int) -> str | None:
    """How a client asked for so many new topics, by how many it asked for at most, and in all.

    If it asked for each once, and for all of them at once, it knew them beforehand. With all that
    were known, they add up to topics * (topics + 1) / 2, or half of that if every second request
    was for two new ones.
    """
    if asked is None:
        return None
    if most <= 1:
        return "alone"
    if most == asked == topics:
        return "all at once"
    return "with all that it knows" if asked >= topics * (topics + 1) / 4 else "with some others"


def claims(client: Mapping[str, Any], topics: int) -> dict[str, Any]:
    """How a client stands to what KIP-526 asks for; None where no phase shows it.

    A producer that follows it asks for a new topic alone, and asks no more for topics that were
    idle for `metadata.max.idle.ms`: when they come back, it has to ask for them again.
    """
    by_phase = {phase["phase"]: phase for phase in client["phases"]}
    startup, steady = by_phase[Phase.STARTUP], by_phase.get(Phase.STEADY)
    moved, idle = by_phase.get(Phase.LEADER_CHANGES), by_phase.get(Phase.IDLE_RETURN)
    asked = startup["topics_asked"]
    least = None if idle is None else idle["least_asked"]
    back = None
    if idle is not None:
        causes = idle["by_cause"]
        back = causes.get("idle_eviction", 0) + causes.get("new_topic", 0)
    return {
        "client": client["client"],
        "startup_requests": startup["requests"],
        "most_topics_at_startup": startup["most_topics_asked"],
        "startup_topics_asked": asked,
        "startup_response_bytes": startup["response_bytes"],
        "asks_for_new_topics": how_asked(startup["most_topics_asked"], asked, topics),
        "renewal_topics": None if steady is None else steady["most_topics_asked"],
        "leader_change_requests": None if moved is None else moved["requests"],
        "leader_change_topics": None if moved is None else moved["most_topics_asked"],
        "topics_asked_once_idle": least,
        "forgets_idle_topics": None if least is None else least < topics,
        "requests_for_returned_topics": back,
    }
