"""`kipctl reassign` where nothing is changed: what a rotation would move, `--list`, `--verify`."""

from pathlib import Path

from kipctl.changes.context import ChangeContext
from kipctl.changes.execution.disk_moves import require_no_disk_moves
from kipctl.changes.execution.reassign import require_as_planned, verify
from kipctl.changes.execution.safety_checks import survey
from kipctl.changes.journal.entry import read_target
from kipctl.changes.plans.kafka_json import check_against
from kipctl.changes.plans.planners.rotate_leaders import rotate
from kipctl.cli.change_ui import TerminalUi
from kipctl.cluster.snapshot import take_snapshot
from kipctl.report.reassign_tables import ongoing_report, rotations_report, verified_report


def show_rotations(context: ChangeContext, ui: TerminalUi) -> None:
    """What a rotation of each topic would move; nothing is changed."""
    seen = survey(context.cluster, rotate)
    ui.report(rotations_report(seen.plan))


def verify_plan(context: ChangeContext, ui: TerminalUi, path: Path) -> None:
    """Compare the cluster with an assignment in Kafka's own JSON, or with an entry's."""
    file = read_target(path)
    check_against(file, take_snapshot(context.cluster), brokers_alive=False)
    require_no_disk_moves(context.cluster, file)
    verified = verify(context.cluster, file.assignment)
    ui.report(verified_report(verified, file.assignment))
    require_as_planned(verified)


def show_ongoing(context: ChangeContext, ui: TerminalUi) -> None:
    """List what is being reassigned."""
    ui.report(ongoing_report(context.ongoing()))
