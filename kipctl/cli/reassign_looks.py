"""`kipctl reassign` where nothing is changed: what a rotation would move, `--list`, `--verify`."""

from collections.abc import Sequence
from pathlib import Path

from kipctl.changes.context import ChangeContext
from kipctl.changes.execution.disk_moves import require_no_disk_moves
from kipctl.changes.execution.reassign import require_as_planned, verify
from kipctl.changes.execution.safety_checks import survey
from kipctl.changes.journal.target import read_target
from kipctl.changes.plans.kafka_json import check_against
from kipctl.changes.plans.planners.rotate_leaders import rotate
from kipctl.cli.change_ui import TerminalUi
from kipctl.cluster.snapshot import PartitionId, take_snapshot
from kipctl.report.reassign_tables import ongoing_report, rotations_report, verified_report


def show_rotations(context: ChangeContext, ui: TerminalUi) -> None:
    """What a rotation of each topic would move; nothing is changed."""
    seen = survey(context.cluster, rotate)
    ui.report(rotations_report(seen.plan))


def verify_plans(context: ChangeContext, ui: TerminalUi, paths: Sequence[Path]) -> None:
    """Compare the cluster with an assignment in Kafka's own JSON, or with an entry's; with several,
    which follow one another, as all of them leave it."""
    files = [read_target(path) for path in paths]
    snapshot, wanted = take_snapshot(context.cluster), dict[PartitionId, tuple[int, ...]]()
    for file in files:
        check_against(file, snapshot, brokers_alive=False)
        require_no_disk_moves(context.cluster, file)
        wanted |= file.assignment
    verified = verify(context.cluster, wanted)
    ui.report(verified_report(verified, wanted))
    require_as_planned(verified)


def show_ongoing(context: ChangeContext, ui: TerminalUi) -> None:
    """List what is being reassigned."""
    ui.report(ongoing_report(context.ongoing()))
