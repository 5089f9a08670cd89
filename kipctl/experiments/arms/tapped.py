"""One run of one arm: its client through a tap of its own while leaders move, and the record."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from kipctl.counts import counted
from kipctl.documents.common import Action
from kipctl.documents.experiments import ClientSays, TapConditions
from kipctl.errors import InterruptedRunError, RefusedError
from kipctl.experiments.arms.arm import Arm
from kipctl.experiments.arms.figures import Figures, figures_of, records_within, service
from kipctl.experiments.arms.probe_arm import ProbeArm
from kipctl.experiments.arms.stand import Stand
from kipctl.load.clients.client import Produced, ProducerLoad, RunningClient
from kipctl.load.clients.command import RunningCommand
from kipctl.load.execute import Executed, PlannedActions, execute_load
from kipctl.load.own_client import OwnClient
from kipctl.load.plan import RunPlan
from kipctl.load.record import event_rows
from kipctl.probe.schedule import Schedule
from kipctl.protocol.api import ApiKey
from kipctl.redaction import without_secrets
from kipctl.tap import export
from kipctl.tap.process import RunningTap, running_tap
from kipctl.tap.spec import Lend, TapSpec, api_name
from kipctl.trace.clock import now_us
from kipctl.trace.columns import BATCH
from kipctl.trace.store import Run
from kipctl.transport.access import Access

ROUND_ROBIN = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
_LOOK_US = 20_000
_LEAST_ROTATIONS = 2
"""Of a run that ends once enough moved leaders were met: until the first one it warms up."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the tap does to all arms alike, in microseconds.

    It holds every answer to a Metadata request for `metadata_delay_us`; and for so long after a
    change as `stale_metadata_us` such answers show the leaders of before.
    """

    metadata_delay_us: int = 0
    stale_metadata_us: int = 0

    def tap(self, arm: Arm, access: Access) -> TapSpec:
        """The tap for a run of this arm."""
        delays = ((int(ApiKey.METADATA), self.metadata_delay_us),) if self.metadata_delay_us else ()
        return TapSpec(
            access=access,
            caps=arm.caps,
            delays=delays,
            drop_hints=arm.drop_hints,
            stale_metadata_us=self.stale_metadata_us,
            lends=Lend.THIS_USER,
        )

    def as_document(self) -> TapConditions:
        """For JSON, in milliseconds."""
        return {
            "metadata_delay_ms": self.metadata_delay_us / 1000,
            "stale_metadata_ms": self.stale_metadata_us / 1000,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What every arm's client is given to send.

    `throughput` is in records per second; the first `warmup_records` are left out of the times.
    `properties` have the names of Java's producer.
    """

    topic: str
    num_records: int
    throughput: int
    record_size: int
    partitions: int = 1
    warmup_records: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    until_met: int = 0
    """It ends before all records are sent once the client has met so many moved leaders; 0: not."""

    def of(self, arm: Arm) -> ProducerLoad:
        """The load with the arm's own properties."""
        return ProducerLoad(
            topic=self.topic,
            num_records=self.num_records,
            throughput=self.throughput,
            record_size=arm.own_record_size or self.record_size,
            partitions=self.partitions,
            properties=arm.given(self.properties),
            warmup_records=self.warmup_records,
        )


@dataclass(frozen=True, slots=True)
class ArmRun:
    """A run of an arm: what the tap saw, and what the client itself reports."""

    arm: Arm
    figures: Figures
    claims: ClientSays
    actions: list[Action]
    busy: float | None = None
    """The share of this machine's CPU time that was used meanwhile."""

    def as_document(self) -> dict[str, Any]:
        """As `run.json` has it: with the names that a run of `perf produce` has there."""
        document = self.figures.as_document()
        records = document["records"]
        rate = self.figures.acknowledged / self.figures.seconds if self.figures.seconds else 0.0
        return {
            **document,
            "records": {"sent": records["acknowledged"] + records["failed"], **records},
            "records_per_second": round(rate, 1),
            "actions": self.actions,
            "client_says": self.claims,
        }


def run_arm(
    arm: Arm,
    stand: Stand,
    load: Load,
    plan: RunPlan,
    conditions: Conditions,
    run: Run,
    message: Callable[[str], None],
    seed: int = 0,
    command: str = "experiment redirect",
) -> ArmRun:
    """Run the arm's client through a tap, with the plan's actions meanwhile, and record it as a run
    of this command.

    Raises RefusedError when every action failed, the client was refused or no record that counts
    was acknowledged, InterruptedRunError after Ctrl-C, and other KipctlErrors.
    """
    before = stand.snapshot()
    with TemporaryDirectory(prefix="kipctl-tap-") as scratch:
        with running_tap(conditions.tap(arm, stand.access), Path(scratch)) as tap:
            executed, claims = _executed(arm, stand, load, plan, tap, seed)
            tapped = tap.stop()
        export.write(run, tapped, Path(scratch))
    run.write("events", [event_rows(executed.events, tapped.start_us)])
    actions = [action.as_document(tapped.start_us) for action in executed.performed]
    warmup_records = load.warmup_records
    if arm.sets_own_rate:
        every = figures_of(run, 0).batch_rows
        warmup_records = records_within(every, warmup_records / load.throughput)
    figures = figures_of(run, warmup_records)
    arm_run = ArmRun(arm, figures, claims, actions, executed.busy)
    discovery = {"leader_discovery": arm.leader_discovery, "warmup_records": warmup_records}
    stand.describe(
        run,
        command,
        tapped.wall_start_us,
        arm.name,
        before,
        {
            "source": "tap",
            "interval_ns": 0,
            **({"stopped": True} if executed.cut_off else {}),
            **discovery,
            "num_records": load.num_records,
            "throughput": load.throughput,
            "record_size": load.of(arm).record_size,
            "producer": without_secrets(dict(load.of(arm).properties)),
            "tap": {
                **conditions.as_document(),
                "caps": ", ".join(f"{api_name(key)}={highest}" for key, highest in arm.caps),
                "drop_hints": arm.drop_hints,
            },
        },
        {
            **discovery,
            **arm_run.as_document(),
            "service_ms": service(arm_run.figures.batch_rows, warmup_records).as_ms(),
        },
    )
    if executed.cut_off:
        raise InterruptedRunError(
            f"Interrupted in a run of {arm.name}: {arm_run.figures.acknowledged:,} of "
            f"{load.num_records:,} records were acknowledged. {executed.interrupted}".strip()
        )
    errors = [action["error"] for action in actions if action["error"]]
    if errors and len(errors) == len(actions):
        raise RefusedError(f"In a run of {arm.name} no action succeeded: {errors[0]}")
    for error in errors:
        message(f"In this run of {arm.name} an action failed: {error}")
    if not figures.latency.total:
        said = claims.get("error") or "it does not say why"
        raise RefusedError(
            f"In a run of {arm.name} no record that counts was acknowledged: {said}.",
            f"It sent {counted(sent, 'record')}: it has to go on while leaders move."
            if (sent := int(figures.batch_rows[:, BATCH["records"]].sum()))
            else "Does it send to the topic and the server that it is given?",
        )
    return arm_run


def _executed(
    arm: Arm, stand: Stand, load: Load, plan: RunPlan, tap: RunningTap, seed: int
) -> tuple[Executed[Produced], ClientSays]:
    """The arm's run, and what its client says of it."""
    access = stand.access.behind(tap.bootstrap_server)
    own = OwnClient(arm.discovery, seed) if isinstance(arm, ProbeArm) else None
    with (own or stand.clients[arm]).producer(load.of(arm), access) as client:
        schedule = Schedule(began_us(client, tap), load.num_records, load.throughput)

        def has_met_all() -> bool:
            if not load.until_met or len(actions.performed) < _LEAST_ROTATIONS:
                return False
            return sum(seen.moves for seen in tap.show().clients) >= load.until_met

        actions = PlannedActions(stand.cluster, load.topic, plan, enough=has_met_all)
        executed = execute_load(client, schedule, actions)
    return executed, _reported_by_client(executed.outcome)


def began_us(client: RunningClient[Produced], tap: RunningTap) -> int:
    """When the client's first records came to the tap, to some 20 ms, or when it was done.

    A JVM may take a second from when its producer is made to its first record.
    """
    while not any(seen.counts.requests[ApiKey.PRODUCE] for seen in tap.show().clients):
        if client.is_done_by(now_us() + _LOOK_US):
            break
    began = now_us()
    if isinstance(client, RunningCommand):
        client.sends_since(began)
    return began


def _reported_by_client(produced: Produced) -> ClientSays:
    latency = cast(Mapping[str, float], produced.latency_ms)
    names = {"avg": "mean", "p99.9": "p999"}  # as kipctl's own results have them
    return {
        "software": f"{produced.software} {produced.version}".strip(),
        "records": produced.records,
        "failed": produced.failed,
        "latency_ms": {names.get(name, name): ms for name, ms in latency.items()},
        "cpu_seconds": None if produced.cpu_s is None else round(produced.cpu_s, 3),
        "error": produced.error or None,
    }
