"""Changes by a plan: a rotation, a file of Kafka's JSON, a planner (`changes/plans/planners`)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kipctl.changes.carry_out import carry_out
from kipctl.changes.change import ChangeRun, ReplicaChange, report_moves
from kipctl.changes.context import ChangeContext
from kipctl.changes.disks import DiskChange
from kipctl.changes.execution.disk_moves import require_no_disk_moves
from kipctl.changes.execution.plan_execution import reassign
from kipctl.changes.execution.plan_result import PlanResult
from kipctl.changes.execution.safety_checks import (
    Planner,
    min_insync_replicas,
    replication_factor_warning,
    require_factor_wanted,
    require_no_reassignments,
    require_same,
    survey,
)
from kipctl.changes.plans.kafka_json import check_against
from kipctl.changes.plans.log_sizes import (
    BYTES_IN_S,
    NOT_ASKED,
    LogSizes,
    ask_bytes_in,
    ask_log_sizes,
)
from kipctl.changes.plans.plan import Plan, plan_to, require_moves
from kipctl.changes.plans.plan_files import LeadersFile, read_plan
from kipctl.changes.plans.planners.leader_bytes import bytes_in_by_leader
from kipctl.changes.plans.planners.options import PlannerOption
from kipctl.changes.plans.planners.placement import TOO_FEW_BROKERS, PlanInputs, UnknownBrokerError
from kipctl.changes.plans.planners.preferred_leaders import set_preferred
from kipctl.changes.plans.planners.rotate_leaders import rotate as rotated
from kipctl.changes.proposal import Proposal
from kipctl.changes.throttle import require_restored
from kipctl.cluster.acls import hidden_topics_warning, may_be_shown_less
from kipctl.cluster.snapshot import Snapshot, select, take_snapshot
from kipctl.counts import broker_list, counted
from kipctl.errors import PartlyDoneError
from kipctl.transport.acl_errors import TOPIC, Right, grant_it


@dataclass(frozen=True, kw_only=True)
class PlannedChange(ReplicaChange[Proposal, PlanResult]):
    """A change by a plan, which is made anew after the question.

    Where it `elects`, its preferred leaders are elected after each batch, and leaders of a canary's
    topic move along. With `chooses` the plan is for topics that are looked for, as those of a
    broker are. Only what may copy data `may_meet_throttles`.
    """

    planner: Planner
    question_words: str
    """With `{}` for the partitions."""
    title_words: str = "Reassigning {}"
    check: Callable[[Plan], None] = lambda plan: None
    """Raises RefusedError for a plan that is not to be carried out."""
    elects: bool = True
    chooses: bool = True
    may_meet_throttles: bool = True
    measured_on: Sequence[str] = ()
    """Topics that are made after the question, and whose leaders are rotated too then."""
    logs: LogSizes | None = None
    """How large partitions are, where it is known already."""
    drained: frozenset[int] = frozenset()
    """Brokers on which no replica is to stay."""

    @property
    def moves_measured(self) -> bool:
        return bool(self.measured_on)

    def propose(self, context: ChangeContext) -> Proposal:
        seen = survey(
            context.cluster,
            lambda now: self.planner(context.guard.without_canary(now)),
            context.topics,
            may_not_list=context.dry_run,
        )
        context.say_if_not_listed(seen.busy_refused)
        return Proposal(seen.snapshot, seen.plan, others=seen.busy)

    def look(self, context: ChangeContext) -> Proposal:
        seen = super().look(context) if self.logs is None else self.propose(context)
        hidden = self.chooses and hidden_topics_warning(
            context.cluster, seen.snapshot.topics, context.topics
        )
        if hidden:
            context.ui.say(hidden)
        if not context.dry_run:
            context.require_no_reassignments(seen.others)
            self.check(seen.plan)
        return seen if self.logs is None else replace(seen, logs=self.logs)

    def announce(self, context: ChangeContext, seen: Proposal) -> None:
        super().announce(context, seen)
        context.say_unfinished(context.journal(), seen.plan if self.may_meet_throttles else None)

    def question(self, seen: Proposal) -> str:
        question = self.question_words.replace("{}", counted(len(seen.plan.moves), "partition"))
        return f"{question}{replication_factor_warning(seen.plan)}"

    def leaders_along(self, seen: Proposal) -> int:
        return len(seen.plan.moves) if self.elects else 0

    def look_again(self, run: ChangeRun, seen: Proposal) -> Proposal:
        context = run.context
        again = self.propose(context)
        require_no_reassignments(again.others, additional=context.additional)
        require_same(seen.plan, again.plan, self.measured_on)
        plan, batch = again.plan, context.pace.batch
        if self.measured_on:
            own = rotated(select(again.snapshot, self.measured_on)).moves
            plan = Plan((*plan.without(move.id for move in own).moves, *own), plan.skipped)
        if self.elects:
            plan, batch = context.guard.with_canary_moves(plan, batch)
        return replace(again, plan=plan, batch=batch)

    def title(self, again: Proposal) -> str:
        return self.title_words.replace("{}", counted(len(again.plan.moves), "partition"))

    def execute(self, run: ChangeRun, again: Proposal) -> PlanResult:
        run.settings["pace"] = replace(run.context.pace, batch=again.batch)
        return reassign(
            run.context.cluster, again.plan, entry=run.entry, elects=self.elects, **run.settings
        )

    def report(self, run: ChangeRun, seen: Proposal, again: Proposal, done: PlanResult) -> None:
        report_moves(run.context, seen, again.snapshot, done)

    def end_without(self, context: ChangeContext, seen: Proposal) -> None:
        super().end_without(context, seen)
        self._require_drained(seen)

    def require_ended(self, run: ChangeRun, again: Proposal, done: PlanResult) -> None:
        require_restored(run.not_restored)  # a throttle that is left is more urgent
        self._require_drained(again)

    def _require_drained(self, seen: Proposal) -> None:
        """Raise PartlyDoneError for replicas that no other broker could take."""
        held = {
            skipped: self.drained & {*seen.snapshot.by_id[skipped.id].replicas}
            for skipped in seen.plan.skipped
        }
        if left := [skipped for skipped, on in held.items() if on]:
            staying = counted(sum(map(len, held.values())), "replica", "stay")
            raise PartlyDoneError(
                f"{staying} on {broker_list(set().union(*held.values()))}, such as one of"
                f" {left[0].id}: {left[0].reason}.",
                "Start another broker, or add one, and repeat the command."
                if left[0].reason == TOO_FEW_BROKERS
                else "Repeat the command when that is over.",
            )


def rotate(context: ChangeContext) -> None:
    """Rotate the leaders of the topics asked for; without topics those of all."""
    carry_out(
        context,
        PlannedChange(
            planner=lambda now: rotated(select(now, context.topics)),
            question_words="Rotate the leaders of {}?",
            title_words="Rotating {}",
            check=partial(require_moves, patterns=context.topics),
            may_meet_throttles=False,
            measured_on=context.measured_on,
        ),
    )


def carry_out_plan(context: ChangeContext, path: Path) -> None:
    """Carry out a plan in Kafka's own JSON, or a table of replicas or leaders (CSV)."""
    file = read_plan(path)
    if isinstance(file, LeadersFile):
        leaders = file.leaders
        carry_out_planned(
            context,
            PlannerOption(f"--plan {path}", lambda now, _: set_preferred(now, leaders), False),
        )
        return

    if file.log_dirs:
        now = take_snapshot(context.cluster)
        check_against(file, now)
        if not plan_to(now, file.assignment).moves:
            carry_out(context, DiskChange(file.log_dirs))
            return

    def planner(now: Snapshot) -> Plan:
        check_against(file, now)
        require_no_disk_moves(context.cluster, file)
        return plan_to(now, file.assignment)

    if file.note:
        context.ui.say(file.note)
    carry_out(
        context,
        PlannedChange(
            planner=planner,
            question_words="Reassign {}?",
            check=partial(require_factor_wanted, wanted=context.change_factor),
            elects=False,
            chooses=False,
        ),
    )


def carry_out_planned(context: ChangeContext, option: PlannerOption) -> None:
    """Carry out a way to plan, with an election after each batch.

    Sizes are asked for once: a plan that is made again after the question is by the same ones.
    """
    cluster = context.cluster
    first = take_snapshot(cluster, named=context.topics)
    if option.weighs:
        context.ui.say(f"Looking for {BYTES_IN_S:g} s at what comes in.")
        logs = ask_bytes_in(cluster, first)
    else:
        logs = ask_log_sizes(cluster, first) if option.copies else NOT_ASKED
    topics = select(first, context.topics).topics if context.topics else first.topics
    insync = min_insync_replicas(cluster, topics) if option.takes_min_insync else {}
    known_insync = {topic: least for topic, least in insync.items() if least is not None}

    def planner(now: Snapshot) -> Plan:
        chosen = frozenset(partition.id for partition in select(now, context.topics).partitions)
        meant = chosen if context.topics else None
        try:
            return option.plan(now, PlanInputs(logs.sizes, known_insync, meant, option.spare))
        except UnknownBrokerError as unknown:
            if may_be_shown_less(cluster):
                unknown.what += (
                    " One that is down is known by its replicas, and"
                    f" {cluster.access.security.principal} may not be shown all topics."
                )
                unknown.next_step = grant_it((Right("Describe", TOPIC),), cluster.access, "*")
            raise

    held: LogSizes | None = logs
    if option.weighs:
        held = None
        context.ui.say(bytes_in_by_leader(first, planner(first), logs.sizes, BYTES_IN_S))

    question = f"{option.option}: change {{}}?"
    change = PlannedChange(
        planner=planner, question_words=question, logs=held, drained=option.drained
    )
    carry_out(context, change)
