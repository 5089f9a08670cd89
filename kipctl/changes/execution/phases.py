"""Phases carried out one after another: the next begins when all of the one before has arrived."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Unpack

from kipctl.changes.execution.batch_execution import Execution
from kipctl.changes.execution.copy_progress import CopyResult
from kipctl.changes.execution.plan_execution import ExecutionSettings
from kipctl.changes.execution.plan_result import PlanResult
from kipctl.changes.journal.entry import Entry, EntryState
from kipctl.changes.plans.phases import composed
from kipctl.changes.plans.plan import Plan
from kipctl.cluster.snapshot import refresh_snapshot
from kipctl.errors import KipctlError
from kipctl.transport.request import Cluster


def reassign_phases(
    cluster: Cluster,
    plans: Sequence[Plan],
    entry: Entry,
    *,
    first: int = 0,
    named: str = "",
    pause_asked: Callable[[], bool] | None = None,
    **settings: Unpack[ExecutionSettings],
) -> PlanResult:
    """Carry out these phases of the entry, of which the `first` (from 0) may not be its first.

    As `reassign`, with one time for all of them. After a phase of which something was refused, no
    other begins, and the entry stays open; else it is marked as done. `named` is how `kipctl undo`
    takes the entry, if not by its id.
    """
    began, whole_s = time.monotonic(), settings.get("timeout_s")
    total = first + len(plans)
    done: list[PlanResult] = []
    for number, plan in enumerate(plans, first):
        if number:
            entry = entry.begin_phase(number)
        if not plan.moves:
            continue
        if whole_s is not None:
            settings["timeout_s"] = max(0.0, whole_s - (time.monotonic() - began))
        with in_phase(number, total):
            change = Execution(
                cluster,
                _led_now(cluster, plan) if number else plan,
                entry,
                named=named,
                pause_asked=pause_asked,
                **settings,
            )
            if number:
                with change.explain_errors():
                    change.pause(number, "phase", total)
            change.execute()
            done.append(change.result())
        entry = change.entry or entry
        if done[-1].refused:
            return joined_results(done, entry)
    return joined_results(done, entry.mark_or_note(EntryState.DONE))


@contextmanager
def in_phase(number: int, total: int) -> Iterator[None]:
    """What is raised inside says in which phase (from 0) it was."""
    try:
        yield
    except KipctlError as error:
        error.what = f"Phase {number + 1} of {total}: {error.what}"
        raise


def _led_now(cluster: Cluster, plan: Plan) -> Plan:
    """The plan with who leads now: it was made before that was known."""
    now = refresh_snapshot(cluster, plan.topics).by_id
    moves = (replace(m, leader=now[m.id].leader) if m.id in now else m for m in plan.moves)
    return replace(plan, moves=tuple(moves))


def joined_results(done: Sequence[PlanResult], entry: Entry | None) -> PlanResult:
    """What became of several phases, as of one change. A pure function."""
    copied = [result.copied for result in done if result.copied]
    return PlanResult(
        plan=composed([result.plan for result in done]),
        refused=tuple(refusal for result in done for refusal in result.refused),
        called_us=min((result.called_us for result in done if result.called_us), default=0),
        answered_us=min((result.answered_us for result in done if result.answered_us), default=0),
        finished_us=max((result.finished_us for result in done), default=0),
        entry=entry,
        copied=CopyResult(
            sum(copy.expected_bytes for copy in copied),
            sum(copy.copied for copy in copied),
            sum(copy.seconds for copy in copied),
        )
        if copied
        else None,
    )
