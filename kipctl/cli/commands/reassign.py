"""`kipctl reassign`: rotate leaders, carry out a plan, and look at what is under way."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from kipctl.cli.combinations import combined
from kipctl.cli.commands.change_options import (
    AdditionalOption,
    ChangeOptions,
    ChangeTimeoutOption,
    PaceOptions,
    changing,
)
from kipctl.cli.commands.guard import STOP, GuardActionOption, GuardOptions, read_guard
from kipctl.cli.environment import Environment
from kipctl.cli.options import TopicOption, option
from kipctl.errors import UsageError
from kipctl.next_step import Command

if TYPE_CHECKING:
    from kipctl.changes.plans.planners.options import PlannerOption

_COPYING = ("--drain", "--add", "--replace", "--replication-factor", "--rack-aware")
_PLANNERS = ("--leaders-off", "--leader", "--balance", *_COPYING)
_CHANGES = ("--rotate", *_PLANNERS, "--plan")


@dataclass(frozen=True)
class PlannerOptions:
    """Which brokers are to hold partitions, or lead them: one way, and what goes with it."""

    drain: Annotated[
        list[str] | None, option("Leave no replica on this broker; repeatable.", value="BROKER")
    ] = None
    leaders_off: Annotated[
        list[str] | None,
        option(
            "Let others lead what it leads; repeatable. Back: `kipctl undo`, no election.",
            value="BROKER|RACK",
        ),
    ] = None
    leader: Annotated[
        list[str] | None,
        option("Let this replica lead it; repeatable.", value="TOPIC:PARTITION=BROKER"),
    ] = None
    balance: Annotated[
        str | None,
        option("Even out who leads, by number or bytes; no copying.", value="leaders|bytes"),
    ] = None
    add: Annotated[
        list[str] | None, option("Give a new broker its share; repeatable.", value="BROKER")
    ] = None
    replace: Annotated[
        list[str] | None, option("Let broker B take A's places; repeatable.", value="A=B")
    ] = None
    replication_factor: Annotated[int | None, option("Give each partition N replicas.", min=1)] = (
        None
    )
    rack_aware: Annotated[bool, option("Spread replicas over racks, by the fewest moves.")] = False
    spare: Annotated[
        int,
        option(
            "Only where N replicas above min.insync.replicas are left without the brokers.",
            value="N",
            min=0,
        ),
    ] = 0

    def read(self, force: bool) -> "PlannerOption | None":
        """The way that is given, if one is. Raises UsageError."""
        from kipctl.changes.plans.planners.options import planner_for

        for name, value in vars(self).items():
            option = "--" + name.replace("_", "-")
            if value and (planner := planner_for(option, value, force, self.spare)):
                return planner
        return None


@dataclass(frozen=True)
class _ReassignOptions(ChangeOptions):
    dry_run: Annotated[bool, option("Print the plan (-o json: Kafka's); change nothing.")] = False


@combined(
    one_of=((*_CHANGES, "--list", "--verify"),),
    exclusive=(("--topic", "--all-topics"), ("--measure", "--dry-run")),
    needs={
        **dict.fromkeys(("--dry-run", "--additional", "--force"), _CHANGES),
        **dict.fromkeys(("--guard", "--guard-action", "--metrics-url"), _CHANGES),
        **dict.fromkeys(("--throttle", "--concurrent-moves"), (*_COPYING, "--plan")),
        "--topic": ("--rotate", *_PLANNERS, "--list"),
        "--all-topics": "--rotate",
        "--measure": ("--rotate", "--plan"),
        "--change-replication-factor": "--plan",
        "--spare": "--leaders-off",
    },
)
def reassign(
    environment: Environment,
    pace: PaceOptions,
    guard: GuardOptions,
    planners: PlannerOptions,
    options: _ReassignOptions,
    rotate: Annotated[
        bool,
        option("Move each leader to its next replica, of --topic or --all-topics; else show it."),
    ] = False,
    plan: Annotated[
        list[Path] | None,
        option(
            "Carry out Kafka's reassignment JSON, or CSV of replicas or leaders; several: phases.",
            value="FILE",
        ),
    ] = None,
    show: Annotated[bool, option("--list", "Show what is being reassigned.")] = False,
    verify: Annotated[
        list[Path] | None,
        option(
            "Compare the cluster with this JSON or entry: status 5 where it differs; last counts.",
            value="FILE",
        ),
    ] = None,
    topic: TopicOption = None,
    all_topics: Annotated[bool, option("Rotate all topics but internal ones.")] = False,
    force: Annotated[
        bool,
        option("Insist: go below min.insync.replicas, fill a disk, reach no broker from here."),
    ] = False,
    additional: AdditionalOption = False,
    change_factor: Annotated[
        bool, option("--change-replication-factor", "Let --plan do so.")
    ] = False,
    measure: Annotated[
        bool, option("Print what it cost a producer (with --rotate, --plan).")
    ] = False,
    guard_action: GuardActionOption = STOP,
    timeout: ChangeTimeoutOption = None,
) -> None:
    """Change which brokers hold partitions, in which order, and so who leads them.

    It is written down first: `kipctl changes` lists, undoes, resumes, cancels it.
    """
    topics = topic or []
    if rotate and options.yes and not (topics or all_topics):
        raise UsageError(
            "--rotate with --yes needs --topic or --all-topics.",
            "See `" + Command("reassign --help") + "`.",
        )
    from kipctl.changes import phased, planned
    from kipctl.cli.commands.reassign_looks import show_ongoing, show_rotations, verify_plans
    from kipctl.guard.conditions import parse_guard

    planner = planners.read(force)
    guard_settings = read_guard(guard, guard_action, moves_along=rotate or planner is not None)
    if measure and any(
        parse_guard(text).kind.is_measured_by_canary for text in guard_settings.conditions
    ):
        raise UsageError(
            "--measure and a --guard of latencies or waits exclude one another.",
            "Both produce to a topic of kipctl's own: measure, or guard.",
        )
    with changing(
        environment,
        options,
        guard=guard_settings,
        pace=pace.read(),
        topics=topics,
        force=force,
        additional=additional,
        change_factor=change_factor,
        measures=measure,
        timeout_s=timeout,
    ) as (change, ui):
        if rotate and not (topics or all_topics):
            show_rotations(change, ui)
        elif rotate:
            planned.rotate(change)
        elif planner is not None:
            planned.carry_out_planned(change, planner)
        elif plan:
            phased.carry_out_plans(change, plan)
        elif verify:
            verify_plans(change, ui, verify)
        else:
            show_ongoing(change, ui)
