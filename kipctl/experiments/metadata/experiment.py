"""`experiment metadata`: what KIP-526 claims, for kipctl's producer and for others behind a tap."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from kipctl.documents.experiments import Claims, ClaimsDocument
from kipctl.documents.runs import MetadataClient
from kipctl.errors import UsageError, did_you_mean
from kipctl.experiments.arms.arm import Arm
from kipctl.experiments.arms.experiment import Experiment
from kipctl.experiments.arms.java_arm import JavaArm
from kipctl.experiments.arms.names import parse_arm
from kipctl.experiments.arms.stand import Stand
from kipctl.extras import require
from kipctl.load.clients.java import JavaClient
from kipctl.load.metadata.phases import (
    PhaseLoad,
    PhaseResult,
    Rpc,
    growth,
    phase_document,
    phase_loads,
)
from kipctl.load.metadata.plan import MetadataPlan, Phase
from kipctl.load.metadata.run import phase_going_on, probe_client, topics_of
from kipctl.load.metadata.tapped import Sender, tapped_client
from kipctl.load.record import describe
from kipctl.probe.idle_eviction import TopicPolicy
from kipctl.trace.store import Run
from kipctl.transport.access import Access

CLIENT_ID = "kipctl-experiment"
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
    clients = []
    for name in dict.fromkeys(part.strip() for part in text.split(",")):
        policy = next((p for p in TopicPolicy if name == f"probe-{p}"), None)
        if policy is not None:
            clients.append(Watched(name, policy=policy))
            continue
        arm = parse_arm(name) if name.startswith(("java-", "librdkafka")) else None
        if arm is None or not _is_plain(arm):
            raise UsageError(
                f"{name!r} is no client of this experiment.{did_you_mean(name, CLIENTS)}",
                f"There are {', '.join(CLIENTS)}, and java-X.Y.Z.",
            )
        if isinstance(arm, JavaArm):
            require("py4j", name)
        clients.append(Watched(name, arm=arm))
    return tuple(clients)


def _is_plain(arm: Arm) -> bool:
    """Whether it is nothing but a client: what concerns hints and backoffs is of no use here."""
    return not (arm.caps or arm.drop_hints or arm.given({}))


def run_claims(
    plan: MetadataPlan,
    clients: Sequence[Watched],
    stand: Stand,
    record: Callable[[str], Path | None],
    message: Callable[[str], None],
) -> ClaimsDocument:
    """Carry it out; returns what `--output json` prints. Raises KipctlError.

    Each phase has a client of its own, which first gets to know all topics, and a tap of its own.
    """
    if len(stand.cluster.nodes) < 2 and Phase.LEADER_CHANGES in plan.phases:
        raise UsageError("No leader can move on a cluster of one broker.")
    loads = phase_loads(plan.phases, plan.topics, plan.throughput, plan.seconds)
    with topics_of(plan, stand.cluster, message) as ids, ExitStack() as machines:
        makers = {watched: _maker(watched, plan, stand, ids, machines) for watched in clients}

        def run_one(arm: _Arm, _: int, run: Run) -> _Measured:
            client, load = arm
            return _watch(client, plan, makers[client], stand, loads, load, run, message)

        measured = Experiment(
            arms=[(client, load) for client in clients for load in loads],
            runs=1,
            run_one=run_one,
            record=record,
            message=message,
            name=lambda arm: f"{arm[0].name}-{arm[1].phase}",
        ).carry_out()
    documents = [
        _client_document(client.name, {load: measured[client, load][0] for load in loads})
        for client in clients
    ]
    return {
        "topic_count": plan.topics,
        "partition_count": plan.partitions,
        "throughput": plan.throughput,
        "kafka_version": stand.kafka_version,
        "clients": documents,
        "claims": [claims(document, plan.topics) for document in documents],
    }


_Arm = tuple[Watched, PhaseLoad]
Make = Callable[[Access, PhaseLoad], Sender]
"""A producer at that bootstrap server, with the settings that the phase asks for."""


def _maker(
    client: Watched,
    plan: MetadataPlan,
    stand: Stand,
    ids: Mapping[str, UUID],
    machines: ExitStack,
) -> Make:
    """How the client's producers are made; a JVM that they share is gone with `machines`."""
    config = replace(plan.config, client_id=CLIENT_ID)
    if client.policy is not None:
        of_policy = partial(probe_client, replace(plan, config=config), client.policy, ids)
        return lambda server, _: of_policy(server)
    assert client.arm
    if isinstance(of_arm := stand.clients[client.arm], JavaClient):
        from kipctl.load.metadata.java import JavaSender

        version = of_arm.version
        gateway, _ = machines.enter_context(of_arm.gateway())

        def java(server: Access, load: PhaseLoad) -> Sender:
            settings = {
                "client.id": CLIENT_ID,
                "metadata.max.age.ms": load.max_age_ms,
                "metadata.max.idle.ms": load.max_idle_ms,
            }
            given = {name: str(value) for name, value in settings.items() if value is not None}
            return JavaSender(gateway, version, server, plan.names, plan.record_size, given)

        return java
    from kipctl.load.metadata.librdkafka import LibrdkafkaSender

    return lambda server, load: LibrdkafkaSender(
        server, config, plan.names, plan.record_size, load.max_age_ms
    )


class _Measured(NamedTuple):
    """A phase: the client's software, what the tap saw it do, and how often leaders moved."""

    software: str
    result: PhaseResult
    moves: int


def _client_document(name: str, of_phases: Mapping[PhaseLoad, _Measured]) -> MetadataClient:
    """One client through all phases, in the shape of `perf metadata`."""
    startup = next(iter(of_phases.values()))
    return {
        "client": name,
        "policy": None,
        "version": startup.software,
        "phases": [
            {
                **phase_document(load.phase, measured.result, None),
                "move_count": measured.moves,
                "least_asked": least_asked(measured.result.rpcs, load),
            }
            for load, measured in of_phases.items()
        ],
        "growth": growth(startup.result),
    }


def _watch(
    client: Watched,
    plan: MetadataPlan,
    make: Make,
    stand: Stand,
    loads: Sequence[PhaseLoad],
    load: PhaseLoad,
    run: Run,
    message: Callable[[str], None],
) -> _Measured:
    """One phase. What the client does before it is not part of it."""
    with tapped_client(lambda server: make(server, load), stand.access) as tapped:
        if load is not loads[0]:
            tapped.send(replace(loads[0], max_age_ms=load.max_age_ms))
        with phase_going_on(load, plan, message) as moves:
            tapped.send(load)
        outcome, results = tapped.finish(run, CLIENT_ID)
    describe(
        run,
        "experiment metadata",
        outcome.wall_start_us,
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
                **phase_document(load.phase, results[-1], None),
            },
        },
    )
    return _Measured(tapped.software, results[-1], len(moves))


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


def claims(client: MetadataClient, topics: int) -> Claims:
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
