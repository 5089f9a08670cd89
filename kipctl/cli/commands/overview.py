"""`kipctl` alone: how the cluster is, what moves, what was measured last, what to type next."""

from kipctl.cli.environment import Environment
from kipctl.errors import ExitStatus, KipctlError
from kipctl.protocol.address import in_brief
from kipctl.report.layout import wrapped
from kipctl.report.overview import Overview, health_of, in_one_line, next_commands, sentences
from kipctl.report.printable import on_one_line
from kipctl.report.terminal import columns_of

_TIMEOUT_S = 5.0
"""An overview that takes longer is none."""
_LEAST_COLUMNS = 16
"""For what a command does, beside it."""


def show(environment: Environment) -> ExitStatus:
    """Look at the cluster that a command without options would mean, and print all of it.

    Returns the status of the error where a cluster is meant and does not answer.
    """
    seen = _look(environment)
    write = environment.stdout.write
    width = columns_of(environment.stdout)
    for line in sentences(seen):
        write("".join(f"{part}\n" for part in wrapped(on_one_line(line), width)))
    write("\n")
    commands = next_commands(seen)
    names = max(len(str(command)) for command, _ in commands)
    for command, what in commands:
        room = width and max(_LEAST_COLUMNS, width - names - 4)
        first, *rest = wrapped(what, room)
        write(f"  {command!s:{names}}  {first}\n")
        write("".join(f"{'':{names + 4}}{line}\n" for line in rest))
    write("\nAll commands: kipctl --help\n")
    return seen.status


def _look(environment: Environment) -> Overview:
    from kipctl.changes.execution.safety_checks import list_or_reason
    from kipctl.cluster.snapshot import take_snapshot
    from kipctl.roll.in_journal import not_ended
    from kipctl.transport.request import Cluster

    last_run, result = _last_run(environment)
    try:
        access = environment.access(None)
    except KipctlError as error:
        return Overview("", error.what, None, last_run, result)
    at = in_brief(str(access))
    name = f"{access.name} ({at})" if access.name else at
    try:
        with Cluster(access, timeout_s=_TIMEOUT_S) as cluster:
            snapshot = take_snapshot(cluster)
            busy, refused = list_or_reason(cluster, may_not_list=True)
    except KipctlError as error:
        return Overview(name, error.what, None, last_run, result, status=error.status)
    health = health_of(snapshot, None if refused else busy)
    begun = not_ended(snapshot.cluster_id, environment.variables)
    return Overview(name, "", health, last_run, result, *begun)


def _last_run(environment: Environment) -> tuple[str, str]:
    """The newest run of the store, by when it began, and its result in a line; "" without any."""
    from kipctl.trace.stored_runs import stored_runs

    for run in reversed(stored_runs(environment.variables)):
        if run.description:
            return run.name, run.flaw or in_one_line(run.summary)
    return "", ""
