"""`kipctl reassign` where nothing is changed: what a rotation would move, `--list`, `--verify`."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from kipctl.changes.context import ChangeContext
from kipctl.changes.execution.disk_moves import disk_moves, look_at, under_way
from kipctl.changes.execution.reassign import require_as_planned, verify
from kipctl.changes.execution.safety_checks import survey
from kipctl.changes.journal.target import how_to_carry_out, read_target
from kipctl.changes.plans.kafka_json import check_against
from kipctl.changes.plans.plan import Plan
from kipctl.changes.plans.planners.rotate_leaders import rotate
from kipctl.cli.commands.change_ui import TerminalUi
from kipctl.cluster.log_dirs import between_disks
from kipctl.cluster.snapshot import PartitionId, Snapshot, select, take_snapshot
from kipctl.counts import counted
from kipctl.errors import PartlyDoneError
from kipctl.report.disk_tables import copies_report, with_disks
from kipctl.report.reassign_tables import ongoing_report, rotations_report, verified_report

LIST_DEADLINE_S = 5.0
"""For all brokers together: a list that is to be seen at once waits for none that hangs."""


def show_rotations(context: ChangeContext, ui: TerminalUi) -> None:
    """What a rotation of each topic but internal ones would move; nothing is changed."""

    def of_others(now: Snapshot) -> Plan:
        return rotate(now.only(p.id for p in now.partitions if not p.internal))

    seen = survey(context.cluster, of_others)
    ui.report(rotations_report(seen.plan))


def verify_plans(context: ChangeContext, ui: TerminalUi, paths: Sequence[Path]) -> None:
    """Compare the cluster with an assignment in Kafka's own JSON, or with an entry's; with several,
    which follow one another, as all of them leave it."""
    files = [read_target(path) for path in paths]
    snapshot, wanted = take_snapshot(context.cluster), dict[PartitionId, tuple[int, ...]]()
    log_dirs: dict[PartitionId, Mapping[int, str]] = {}
    for file in files:
        check_against(file, snapshot, brokers_alive=False)
        wanted |= file.assignment
        for partition in file.assignment:
            log_dirs[partition] = file.log_dirs.get(partition, {})
    verified = verify(context.cluster, wanted)
    moves, missing = disk_moves(log_dirs, look_at(context.cluster, log_dirs))
    ui.report(with_disks(verified_report(verified, wanted), moves))
    require_as_planned(verified, how_to_carry_out(paths))
    if moves or missing:
        raise PartlyDoneError(
            f"{counted(len(moves) + len(missing), 'replica', 'are')} not on the disk"
            " that the file says.",
            how_to_carry_out(paths),
        )


def show_ongoing(context: ChangeContext, ui: TerminalUi) -> None:
    """List what is being reassigned, and what brokers copy from disk to disk."""
    snapshot = take_snapshot(context.cluster)
    topics = select(snapshot, context.topics).topics if context.topics else snapshot.topics
    ongoing = context.ongoing()  # first: a broker that hangs keeps its connection in use
    copies = between_disks(context.cluster, snapshot.broker_ids, LIST_DEADLINE_S)
    shown = [move for move in under_way(copies) if move.id.topic in topics]
    ui.report(copies_report(ongoing_report(ongoing), copies, shown))
