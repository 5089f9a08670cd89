"""`kipctl tap --rotate`: leaders move while clients go through the tap, and then are put back."""

from collections.abc import Callable
from dataclasses import replace

from kipctl.changes.context import ChangeContext
from kipctl.changes.guard_interface import RecordedGuard
from kipctl.changes.journal.entry import Origin
from kipctl.changes.repeated_rotation import Rotation, rotate_while
from kipctl.cli.commands.change_ui import TerminalUi
from kipctl.cli.environment import Environment
from kipctl.documents.tap import TapDocument
from kipctl.errors import KipctlError
from kipctl.guard.session import guarded
from kipctl.load.tap import TapPlan
from kipctl.load.until_met import UntilMet, hints_worth
from kipctl.report.formats import OutputFormat
from kipctl.trace.store import require_new
from kipctl.transport.request import Cluster

_TIMEOUT_S = 30.0


def tap_while_leaders_rotate(
    environment: Environment,
    plan: TapPlan,
    topic: str,
    wanted: int,
    tapped: Callable[[TapPlan, UntilMet], TapDocument],
    *,
    yes: bool,
    and_without_hints: bool,
) -> tuple[TapDocument, KipctlError | None]:
    """The document of a tap (`tapped` runs one until the other argument says that it is over) that
    ends once each client has met so many moved leaders of the topic; of a second one, that takes
    hints out, it is in `without_hints`. And the error to end with once the document is shown.

    Raises KipctlError where there is no document: what cannot be changed, what `tapped` does.
    """
    plans = [TapPlan(replace(plan.spec, topic=topic), plan.record)]
    if and_without_hints:
        record = plan.record and plan.record.with_name(f"{plan.record.name}-without-hints")
        if record:
            require_new(record)
        plans.append(TapPlan(replace(plans[0].spec, drop_hints=True), record))
    documents: list[TapDocument] = []
    failed: KipctlError | None = None

    def act(rotate: Rotation) -> None:
        nonlocal failed
        for tap_plan in plans:
            if documents:
                environment.message("The same again, without hints.")
            until = UntilMet(rotate, wanted, lambda: rotate.is_to_pause, topic)
            documents.append(tapped(tap_plan, until))
            if failed := until.shortfall:
                if len(documents) < len(plans):
                    failed.what += " The half without hints is left out."
                break

    with Cluster(plan.spec.access, timeout_s=_TIMEOUT_S) as cluster:
        watched = guarded(cluster, RecordedGuard(), environment.message)
        context = ChangeContext(
            cluster=cluster,
            ui=TerminalUi(environment, cluster, watched, OutputFormat.AUTO, yes),
            guard=watched,
            origin=Origin.here(environment.arguments),
            variables=environment.variables,
            topics=(topic,),
        )
        question = f"Rotate the leaders of {{}} until clients have met {wanted} moved ones?"
        try:
            rotate_while(context, act, question)
        except KipctlError as stopped:
            if not documents:
                raise
            if failed:
                stopped.what = f"{failed.what} {stopped.what}"
            failed = stopped
    first, *others = documents
    for without in others:
        first["hints_worth"] = hints_worth(first["clients"], without["clients"])
        first["without_hints"] = without
    return first, failed
