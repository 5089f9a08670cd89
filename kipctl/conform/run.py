"""A client is run against rules, each on a cluster of its own."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kipctl.conform.cluster import Cluster, Loopback
from kipctl.conform.rule import METADATA_MS, QUIET_METADATA_S, Rule, Stage
from kipctl.conform.rules.hints import NEW
from kipctl.conform.rules.kip951_01_follow import Follow
from kipctl.conform.rules.replicas import RACK
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Role, Status, Verdict, decided
from kipctl.errors import RefusedError, UsageError
from kipctl.load.clients.child import Child
from kipctl.load.clients.command import filled
from kipctl.load.presets import OWN
from kipctl.protocol.api import ApiKey
from kipctl.trace.clock import now_us

REPEATS = 3
_LOOK_EVERY_US = 20_000
_QUIET_FOR_OWN_S = 0.3
"""kipctl's own client keeps to no least age of Metadata."""
_OWN_MS = 10.0
"""By then kipctl's own client follows a hint on a machine that has nothing else to do."""
_BUSY = 2.0
"""So many times slower it is tried again: that may be over."""
_TOO_BUSY = 10.0
"""So many times slower a machine says nothing of a client."""
_TRIES = 4
_LONGEST = 3.0
"""So many times as long a rule lasts at most."""
_NEVER_MS = 1e9
_RATE = 50
"""Records a second that a producer is asked to send."""
_SAID = 200


@dataclass(frozen=True)
class Client:
    """A command line; in its words {bootstrap}, {topic}, {partitions}, {group}, {rack}, {role} and
    {metadata_ms} are filled in.

    It has to send to the topic, or read it, until it is ended: about 50 records a second.
    """

    words: tuple[str, ...]
    role: Role
    start_timeout_s: float = 60.0
    quiet_s: float = QUIET_METADATA_S
    """It is refused first when it has not asked for Metadata for so long."""


@dataclass(frozen=True)
class Played:
    """One run of a rule."""

    judgement: Judgement
    trace: Trace


def check_command(words: Sequence[str]) -> None:
    """Raise UsageError for a program that is not there."""
    if shutil.which(words[0]) is None:
        raise UsageError(f"There is no program {words[0]}.", "Give its whole path.")


def topics_of(rule: type[Rule]) -> list[str]:
    """Topics of its own, so that clients of several rules can be told in logs."""
    first = f"conform-{rule.id}"
    return [first, *(f"{first}-{number}" for number in range(2, rule.topics + 1))]


@contextmanager
def staged(rule: type[Rule], role: Role, quiet_s: float) -> Iterator[Stage]:
    """The rule's cluster, which listens; the rule begins when a client has warmed up."""
    topics = topics_of(rule)
    with Loopback(Cluster(dict.fromkeys(topics, rule.partitions))) as cluster:
        yield Stage(rule(), role, cluster, topics, quiet_s)


def play(rule: type[Rule], client: Client, scale: float = 1.0) -> Played:
    """Run the client once. Raises UsageError where it cannot be started."""
    with (
        staged(rule, client.role, client.quiet_s) as stage,
        tempfile.TemporaryDirectory(prefix="kipctl-conform-") as folder,
    ):
        given = {
            "bootstrap": stage.cluster.bootstrap_server,
            "topic": stage.place[0],
            "partitions": str(rule.partitions),
            "group": f"{stage.place[0]}-group",
            "role": client.role.value,
            "rack": RACK,
            "rate": str(_RATE),
            "acks": "all",
            "metadata_ms": str(rule.metadata_ms),
        }
        words = [filled(word, given) for word in client.words]
        try:
            child = Child(words, Path(folder), works_in=Path.cwd(), is_told=rule.topics > 1)
        except OSError as error:
            raise UsageError(f"{words[0]} cannot be run: {error.strerror}.") from None
        stage.tell, stage.longer = child.write_line, min(scale, _LONGEST)
        try:
            ended = _watch(stage, child, client.start_timeout_s)
        finally:
            child.close_all()
        trace = stage.trace(scale)
        if not ended:
            return Played(stage.rule.judged(trace), trace)
        # Who is gone sends nothing to the wrong broker, and closes its connections: no verdict. But
        # who is killed by what it was answered (a signal: it did not end itself) does not do it.
        said = " ".join((child.new_stderr() or child.stdout()).split())[-_SAID:]
        said = "" if said == "ready" else said  # what a preset says of itself when it works
        judged = stage.rule.judged(trace) if stage.began_us is not None else None
        if judged and judged.status is Status.NOT_APPLICABLE:
            return Played(judged, trace)
        is_crash = stage.began_us is not None and (child.exit_code or 0) < 0
    status = Status.FAIL if is_crash else Status.NOT_REACHED
    seen = " ".join(filter(None, (ended, not_served(trace), said)))
    return Played(Judgement(status, seen), trace)


def not_served(trace: Trace) -> str:
    """What it asked for and the cluster does not have, as a sentence; "" where there is nothing."""
    unknown = dict.fromkeys(
        e.unknown for e in trace.exchanges if e.unknown and e.api != ApiKey.API_VERSIONS
    )
    return f"This cluster does not serve what it asked: {', '.join(unknown)}." if unknown else ""


def _watch(stage: Stage, child: Child, start_timeout_s: float) -> str:
    """Wait until the rule is over; what went wrong before, as a sentence."""
    deadline_us = now_us() + round(start_timeout_s * 1e6)
    while not stage.is_over:
        if child.is_over_by(now_us() + _LOOK_EVERY_US):
            how = child.exit_code or 0
            return (
                f"It was ended by signal {-how}."
                if how < 0
                else f"It ended by itself, with status {how}."
            )
        if stage.began_us is None and now_us() > deadline_us:
            return f"It did not send or read enough within {start_timeout_s:.0f} s."
    return ""


def self_test(role: Role) -> float:
    """How many times slower this machine is than a quiet one, by kipctl's own client.

    It has four tries: a machine that is busy is so at times. Raises RefusedError where it says
    nothing of a client.
    """
    own = Client(OWN.words(role), role, quiet_s=_QUIET_FOR_OWN_S)
    ms = _NEVER_MS
    for _ in range(_TRIES):
        first = play(Follow, own).trace.first_at(NEW)
        ms = min(ms, _NEVER_MS if first is None else first)
        if ms <= _OWN_MS * _BUSY:
            break
    if ms <= _OWN_MS * _TOO_BUSY:
        return max(1.0, ms / _OWN_MS)
    raise RefusedError(
        "This machine is too busy to tell: kipctl's own client "
        + (f"took {ms:,.0f} ms to follow a hint." if ms < _NEVER_MS else "followed no hint."),
        "Repeat it when less goes on.",
    )


def run_rule(
    rule: type[Rule],
    client: Client,
    scale: float,
    tell: Callable[[str], None],
    repeats: int = REPEATS,
) -> Verdict:
    """Run it until most of so many runs agree."""
    is_told = any("{metadata_ms}" in word for word in client.words)
    if rule.metadata_ms != METADATA_MS and not is_told:
        seen = f"It is not told that its Metadata lasts {rule.metadata_ms:,} ms ({{metadata_ms}})."
        return Verdict(rule.id, Status.NOT_REACHED, seen)
    if rule.needs_rack and not any("{rack}" in word for word in client.words):
        return Verdict(rule.id, Status.NOT_REACHED, "It is not told its rack ({rack}).")
    played: list[Played] = []
    while (status := decided(tuple(p.judgement for p in played), repeats)) is None:
        tell(f"{rule.id}: {rule.title} (run {len(played) + 1})")
        played.append(play(rule, client, scale))
    tell(f"{rule.id}: {status}")
    shown = next((p for p in played if p.judgement.status is status), played[-1])
    seen = shown.judgement.seen
    if shown.judgement.status is not status:
        seen = f"Its runs differ: {', '.join(p.judgement.status for p in played)}."
    return Verdict(
        rule.id,
        status,
        seen,
        tuple(p.judgement for p in played),
        shown.trace.evidence(shown.judgement.ms),
        has_not_started=status is Status.NOT_REACHED
        and all(p.trace.began_us is None for p in played),
    )


def run_rules(
    rules: Sequence[type[Rule]],
    client: Client,
    tell: Callable[[str], None],
    repeats: int = REPEATS,
) -> list[Verdict]:
    """All of them, one after the other, so that none disturbs another."""
    tell("Self-test with kipctl's own client")
    scale = self_test(client.role)
    verdicts: list[Verdict] = []
    failed: set[str] = set()
    for rule in rules:
        if rule.needs in failed:
            seen = f"It follows no hint ({rule.needs})."
            verdicts.append(Verdict(rule.id, Status.NOT_APPLICABLE, seen))
            continue
        verdicts.append(run_rule(rule, client, scale, tell, repeats))
        if verdicts[-1].status is Status.FAIL:
            failed.add(rule.id)
        if verdicts[0].has_not_started:
            break  # nor will it for the others, and each would be waited for
    return verdicts
