"""What `kipctl` alone says: how the cluster is, what goes on, and what to type next."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kipctl.counts import broker_list, counted
from kipctl.errors import ExitStatus
from kipctl.next_step import Command

if TYPE_CHECKING:
    from kipctl.cluster.reassignments import Reassignment
    from kipctl.cluster.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Health:
    """How many brokers, topics and partitions there are, and how many partitions are not well.

    `reassigning` is None where the cluster does not say it to this user.
    """

    brokers: int
    topics: int
    partitions: int
    leaderless: int
    under_replicated: int
    off_preferred: int
    reassigning: int | None
    away: tuple[int, ...] = ()
    """Brokers that have replicas, and are not alive."""


@dataclass(frozen=True, slots=True)
class Overview:
    """`cluster` is how it is called, "" where none is named and no lab runs; then, as where it does
    not answer, `health` is None and `problem` says why. `last_run` is the newest of the store, and
    `result` what it came to. `entry` is the newest change that has not ended, `roll` what is left
    of a roll; `changed_by` is which kipctl of this machine changes the cluster now, and it
    `may_be_paused` if it is this user's; `throttle` is the newest throttle that is
    still set."""

    cluster: str
    problem: str
    health: Health | None
    last_run: str
    result: str = ""
    entry: str = ""
    roll: str = ""
    changed_by: str = ""
    may_be_paused: bool = False
    throttle: str = ""
    status: ExitStatus = ExitStatus.DONE


def health_of(snapshot: "Snapshot", busy: "Sequence[Reassignment] | None") -> Health:
    """The counts of a snapshot of the whole cluster; `busy` is what is being reassigned, if that is
    known. As brokers count it (`Partition.isUnderReplicated`), a replica that is being added is not
    missed."""
    from kipctl.cluster.reassignments import adding_of

    adding = adding_of(busy or ())
    return Health(
        len(snapshot.brokers),
        len(snapshot.topics),
        len(snapshot.partitions),
        len(snapshot.leaderless),
        sum(
            not {*partition.replicas} <= {*partition.isr, *adding.get(partition.id, ())}
            for partition in snapshot.partitions
        ),
        len(snapshot.led_by_another),
        None if busy is None else len(busy),
        snapshot.away,
    )


def sentences(seen: Overview) -> Iterator[str]:
    """The state in words."""
    if seen.health is None:
        yield f"Cluster {seen.cluster}: {seen.problem}" if seen.cluster else seen.problem
    else:
        health = seen.health
        yield (
            f"Cluster {seen.cluster}: {counted(health.brokers, 'broker')},"
            f" {counted(health.topics, 'topic')}, {counted(health.partitions, 'partition')}."
        )
        if health.away:
            yield f"{broker_list(health.away, 'are').capitalize()} away."
        wrong = (
            (health.leaderless, "have", "no leader"),
            (health.under_replicated, "are", "under-replicated"),
            (health.reassigning or 0, "are", "being reassigned"),
            (health.off_preferred, "are", "not led by the preferred replica"),
        )
        problems = [f"{counted(count, '', verb)} {what}" for count, verb, what in wrong if count]
        if problems:
            yield f"Of them {', '.join(problems)}."
        elif not (health.away or seen.entry or seen.roll or seen.changed_by or seen.throttle):
            yield "Every partition is as it should be."
    if seen.changed_by:
        yield f"Changing it now: {seen.changed_by}."
    if seen.roll:
        yield f"A rolling restart has not ended: {seen.roll}."
    if seen.entry:
        yield f"A change {seen.entry}."
    if seen.throttle:
        yield f"A throttle {seen.throttle}."
    if seen.last_run:
        yield f"Last recorded run: {seen.last_run}" + (f": {seen.result}." if seen.result else ".")


def next_commands(seen: Overview) -> Sequence[tuple[Command, str]]:
    """The three likeliest next commands, and what each does."""
    health = seen.health
    commands: list[tuple[Command, str]] = []
    if not seen.cluster:
        return (
            (Command("demo"), "see what a leader move costs, on brokers of its own"),
            (Command("lab up"), "start brokers on this machine to try things on"),
            (Command("clusters add --help"), "give a cluster of yours a name"),
        )
    if health is None:
        commands += [
            (Command("clusters test --help"), "see step by step what fails: name, TCP, TLS, login"),
            (Command("lab status"), "see whether a lab runs"),
        ]
    elif health.leaderless or health.under_replicated:
        commands += [
            (Command("inspect brokers"), "find what is wrong, and what to change"),
            (Command("wait --until in-sync"), "wait until every replica is in sync"),
        ]
    if seen.roll and not seen.changed_by:
        commands.append((Command("roll --resume"), "go on with the rolling restart"))
    if seen.entry:
        commands += [
            (Command("changes resume --dry-run"), "see what is left of that change"),
            (Command("changes list"), "see it, and what undoes it"),
        ]
    if health and seen.throttle:
        commands.append((Command("throttle show"), "see what is throttled, and what needs it"))
    if health and seen.changed_by and seen.may_be_paused:
        commands += [
            (Command("changes list"), "see how far it is"),
            (Command("changes pause"), "let it stop after its batch"),
        ]
        if health.reassigning:
            stop = "stop what is under way, and put the old order back"
            commands.append((Command("changes cancel"), stop))
    if health and health.reassigning and not seen.changed_by:
        commands += [
            (Command("reassign --list"), "see what is being reassigned"),
            (Command("wait --until no-reassignment"), "wait until it is done"),
        ]
    if health and health.off_preferred:
        commands.append(
            (Command("elect preferred --all --dry-run"), "see what an election would move")
        )
    if health:
        commands += [
            (Command("inspect brokers"), "look for what will hurt when leaders move"),
            (Command("perf produce --during rotate"), "measure what a leader move costs a client"),
            (Command("reassign --rotate --all-topics --dry-run"), "see what a rotation would move"),
        ]
    if seen.last_run:
        commands.insert(2, (Command("runs show", seen.last_run), "see what the last run came to"))
    first: dict[Command, str] = {}
    for command, what in commands:
        first.setdefault(command, what)
    return list(first.items())[:3]


def in_one_line(summary: Mapping[str, Any]) -> str:
    """A run's result, by the summary in its `run.json`; "" where that says nothing of it."""
    from kipctl.trace.settings import record_counts

    records = record_counts(summary)
    parts = [
        f"{counted(count, 'record')} {name}"
        for name in ("acknowledged", "read", "failed", "missing")
        if (count := records.get(name))
    ]
    if rate := summary.get("records_per_second"):
        parts.append(f"{rate:,.0f} records/s")
    moves = (summary.get("redirects") or {}).get("moves") or {}
    if moves.get("met"):
        wait = moves["wait_ms"]
        parts.append(
            f"{counted(moves['met'], 'moved leader')} met, p50 {wait['p50']:,.1f} ms and p99"
            f" {wait['p99']:,.1f} ms waited for each"
        )
    elif (latency := summary.get("latency_ms") or {}).get("p99") is not None:
        parts.append(f"latency p99 {latency['p99']:,.1f} ms")
    return ", ".join(parts)
