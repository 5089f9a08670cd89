"""A measured run: probes at work, actions on the cluster meanwhile, the record, the result."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Generic, TypeVar

from kipctl.cluster.snapshot import Snapshot
from kipctl.documents.common import Waits
from kipctl.documents.runs import RunDocument
from kipctl.load.actions import check_action, kafka_version
from kipctl.load.execute import (
    Actions,
    Executed,
    Listeners,
    PlannedActions,
    await_settled_leaders,
    check_end,
    execute,
)
from kipctl.load.plan import RunPlan
from kipctl.load.record import Recorder, recording, snapshot_after
from kipctl.load.start import OnThisMachine, Probe, Starter, starter
from kipctl.measure.doubts import Observed, doubts
from kipctl.measure.probe_results import ProbeResult
from kipctl.probe.run import AnyOutcome, Spec
from kipctl.signals import Cut, cut_in_order
from kipctl.trace.store import Run
from kipctl.transport.request import Cluster

AnyDocument = TypeVar("AnyDocument", bound=RunDocument)
_CLIENT_ID = "kipctl"
_ADMIN_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class RunResult(Generic[AnyOutcome, AnyDocument]):
    """What a run came to. `document` is what `--output json` prints.

    `kafka_lines` are those that Kafka's own tool ends with. `broke_off`, `interrupted` and
    `figures` say how far it came, where it did not come to its end.
    """

    executed: Executed[AnyOutcome]
    document: AnyDocument
    kafka_lines: tuple[str, ...]
    broke_off: str
    interrupted: str
    figures: tuple[str, ...]

    @property
    def outcome(self) -> AnyOutcome:
        return self.executed.outcome


class Load(Generic[AnyOutcome, AnyDocument]):
    """What one kind of run has of its own. It is for one run."""

    command: ClassVar[str]
    plan: RunPlan
    specs: tuple[Spec[Any], ...]
    """Of the probes, which start together. The outcome is that of the last one."""

    @property
    def topic(self) -> str:
        return self.specs[-1].topic

    def check(self, cluster: Cluster) -> None:
        """Raise KipctlError for what cannot be done on this cluster, before anything begins."""

    def ready(self, cluster: Cluster, listeners: Listeners) -> AbstractContextManager[Snapshot]:
        """The topic, ready for the run, while inside."""
        raise NotImplementedError

    def settings(self, interval_ns: int) -> Mapping[str, object]:
        """What was asked for, for `run.json`."""
        raise NotImplementedError

    def attended(
        self, probes: Sequence[Probe[Any]], listeners: Listeners
    ) -> AbstractContextManager[Probe[AnyOutcome]]:
        """While inside, show how far it is; yields what is to be stopped."""
        raise NotImplementedError

    def read_to_end(self, executed: Executed[AnyOutcome], cut: Cut) -> None:
        """The load is over: wait for what comes after it."""

    def whole(
        self, executed: Executed[AnyOutcome], probes: Sequence[Probe[Any]], cut: Cut
    ) -> tuple[Executed[AnyOutcome], Sequence[ProbeResult[Any]]]:
        """The outcome of all probes together, and each one's rows."""
        return executed, probes[-1].results

    def counted(self, outcome: AnyOutcome) -> int:
        """How many records it had to do with: of none nothing is recorded."""
        raise NotImplementedError

    def of_record(self, recorder: Recorder, outcome: AnyOutcome) -> Recorder:
        """What is recorded of a run that is over."""
        return recorder

    def result(
        self, executed: Executed[AnyOutcome], probes: Sequence[Probe[Any]], version: str | None
    ) -> RunResult[AnyOutcome, AnyDocument]:
        """The result, from the rows; `version` is the cluster's."""
        raise NotImplementedError

    def doubts(
        self,
        executed: Executed[AnyOutcome],
        p99_ms: float,
        lags: Sequence[Waits | None],
        moves: int,
        **observed: Any,
    ) -> list[str]:
        """What spoils the run: `lags` are the probes' own (milliseconds), `moves` the moved leaders
        that were met."""
        return list(
            doubts(
                Observed(
                    measured_p99_ms=p99_ms,
                    loop_lag_ms=max((lag["p99"] for lag in lags if lag), default=None),
                    busy=None if self.plan.on_spark else executed.busy,
                    moves=moves if self.plan.during else None,
                    **observed,
                )
            )
        )


def run(
    load: Load[AnyOutcome, AnyDocument], listeners: Listeners
) -> RunResult[AnyOutcome, AnyDocument]:
    """Carry it out. Raises KipctlError when it cannot begin, broke off, or was interrupted.

    What was measured until then is recorded; of a run that did not begin nothing is left.
    """
    plan = load.plan
    with (
        recording(plan.record) as run,
        Cluster(load.specs[-1].access, _CLIENT_ID, _ADMIN_TIMEOUT_S) as cluster,
    ):
        if plan.during:
            check_action(cluster, plan.during)
        load.check(cluster)
        with (
            starter(plan, listeners.message, runs=len(load.specs)) as start,
            load.ready(cluster, listeners) as before,
        ):
            return measure(load, cluster, before, listeners, run, start)


def measure(
    load: Load[AnyOutcome, AnyDocument],
    cluster: Cluster,
    before: Snapshot,
    listeners: Listeners,
    run: Run | None = None,
    start: Starter | None = None,
    actions: Actions | None = None,
) -> RunResult[AnyOutcome, AnyDocument]:
    """Measure on a topic that is there and ready, with the plan's actions meanwhile, or with others
    that end the load.

    Raises InterruptedRunError after Ctrl-C, and PartlyDoneError (with workers PipelineError) when
    it broke off; what was measured until then is recorded.
    """
    plan, topic = load.plan, load.topic
    version = kafka_version(cluster)
    await_settled_leaders(cluster, topic, plan, listeners.message)
    start = start or OnThisMachine(run.folder if run else None)
    with start.start(*load.specs) as probes:
        schedule = probes[-1].schedule
        how = {**load.settings(schedule.interval_ns), **plan.asked, "kafka_version": version}
        recorder = Recorder(run, load.command, topic, how, asdict(before)) if run else None
        if recorder:
            recorder.begin()
        actions = actions or PlannedActions(cluster, topic, plan, listeners)
        with cut_in_order() as cut:
            with load.attended(probes, listeners) as leading:
                executed = execute(leading, actions, listeners, cut)
                load.read_to_end(executed, cut)
            executed, parts = load.whole(executed, probes, cut)
            outcome = executed.outcome
            is_recorded = bool(load.counted(outcome) or outcome.failure)
            if recorder and is_recorded:
                after = snapshot_after(cluster, topic, listeners.message)
                recorder = load.of_record(recorder, outcome)
                recorder.write(outcome, parts, executed.events, executed.actions, after)
            result = load.result(executed, probes, version)
            if recorder and is_recorded:
                recorder.evaluated(result.document)
    check_end(
        executed,
        plan,
        topic,
        run,
        listeners.message,
        broke_off=result.broke_off,
        interrupted=result.interrupted,
        figures=result.figures,
    )
    return result
