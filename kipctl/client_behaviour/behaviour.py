"""What a client does with leader hints (KIP-951): judged from counts of what was seen.

The tap, `analyze` of a tap's run and `analyze request-log` count episodes
(`kipctl.client_behaviour.episode`) each in its own way, and judge here. What is known of a software
(`kipctl.client_behaviour.software`) never overrules what was seen: it only tells apart what looks
the same, and what to do about it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kipctl.client_behaviour.doubt import OF_MACHINE, TIMED, Doubt
from kipctl.client_behaviour.episode import AT_ONCE_US, BACKOFF_US, HintFault, Outcome
from kipctl.client_behaviour.findings.catalogue import FINDINGS, known_bug
from kipctl.client_behaviour.software import HintUse, Software, known_of
from kipctl.counts import counted
from kipctl.documents.common import ClientVerdict
from kipctl.next_step import Command
from kipctl.protocol.leader_hints import FIRST_FETCH_WITH_HINTS, FIRST_PRODUCE_WITH_HINTS


class Behaviour(StrEnum):
    """What a client does when it is refused by a broker that does not lead any more."""

    FOLLOWS = "follows"
    """It goes at once where the hint says."""
    LOOPS = "loops"
    """It asks again and again without a backoff."""
    WAITS = "waits"
    """It goes where the hint says, after its backoff."""
    IGNORES = "ignores"
    """It is sent usable hints, and goes on as if there were none."""
    NO_HINTS = "no hints"
    """It is sent none: its versions, or those of its brokers, have no hints."""
    UNUSABLE = "unusable"
    """It is sent hints that nobody could follow (`HintFault`)."""
    UNKNOWN = "unknown"
    """It was refused, and what it did cannot be told."""
    NOT_MET = "not met"
    """It met no leader that had moved."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Of episodes that were no loop: how many had an end that was seen, and how long a client
    waited in them, in microseconds."""

    episodes: int = 0
    p50_us: int = 0
    p99_us: int = 0
    max_us: int = 0
    met: int = 0
    """Of so many moved leaders; 0 where that is not told."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a client that produces or fetches.

    Episodes are counted by what became of the hint; `reaction_p50_us` is of FOLLOWED and
    BY_METADATA together, None if there was none.
    """

    leader_errors: int = 0
    hints: int = 0
    """Leader errors with a hint that the client can read."""
    draft_hints: int = 0
    dropped_hints: int = 0
    """Taken out by the tap (`--drop-hints`)."""
    outcomes: Mapping[Outcome, int] = field(default_factory=dict)
    loops: int = 0
    faults: Mapping[HintFault, int] = field(default_factory=dict)
    """Episodes in which a hint had that fault."""
    reaction_p50_us: int | None = None
    waits: Waits = Waits()
    longest_us: int = 0
    """From a first refusal to the success, or to what was seen last; 0 if that is not told."""
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """A behaviour; of hints that cannot be used what is wrong with most; of UNKNOWN the reason."""

    behaviour: Behaviour
    fault: HintFault | None = None
    why: str = ""


_NO_SOFTWARE = Software()
_LOOPS_SHARE = 10
"""A client loops if one episode in so many is a loop: none should be."""
_LONG_S = 0.1


def judge(seen: Seen, software: Software = _NO_SOFTWARE) -> Verdict:
    """What the client does, as far as was seen."""
    if not seen.leader_errors:
        return Verdict(Behaviour.NOT_MET)
    episodes = sum(seen.outcomes.values())
    fault = _most_frequent(seen.faults)
    if seen.loops and seen.loops * _LOOPS_SHARE >= episodes:
        return Verdict(Behaviour.LOOPS, fault)
    if seen.dropped_hints and not seen.hints:
        return Verdict(Behaviour.NO_HINTS, why="the tap drops them")
    if not seen.hints:
        return Verdict(Behaviour.NO_HINTS)
    untimed = [doubt for doubt in seen.doubts if doubt not in TIMED]
    if untimed:
        of_machine = [doubt for doubt in seen.doubts if doubt in OF_MACHINE]
        return Verdict(Behaviour.UNKNOWN, why=", or ".join((*of_machine[:1], untimed[0])))
    followed, by_metadata, sent_back, elsewhere = (
        seen.outcomes.get(outcome, 0)
        for outcome in (
            Outcome.FOLLOWED,
            Outcome.BY_METADATA,
            Outcome.SENT_BACK,
            Outcome.ELSEWHERE,
        )
    )
    reactions = followed + by_metadata + sent_back + elsewhere
    if not reactions:
        if fault is not None:
            return Verdict(Behaviour.UNUSABLE, fault)
        return Verdict(Behaviour.UNKNOWN, why="what it did afterwards was not seen")
    if 2 * (sent_back + elsewhere) > reactions:
        return Verdict(Behaviour.IGNORES)
    if seen.reaction_p50_us is None or seen.reaction_p50_us < AT_ONCE_US:
        return Verdict(Behaviour.FOLLOWS)
    # From here on it took its time, unless the times are wrong.
    if timed := [doubt for doubt in seen.doubts if doubt in TIMED]:
        return Verdict(Behaviour.UNKNOWN, why=timed[0].value)
    known = known_of(software)
    use = known.hints if known is not None else None
    if 2 * followed > reactions or use is HintUse.WAITS:
        return Verdict(Behaviour.WAITS)
    # When Metadata had named the leader too: it may have gone by either. Sooner than any backoff
    # that is no sign against hints; later, one that is known to follow them was held up.
    is_quick = seen.reaction_p50_us < BACKOFF_US
    if use is HintUse.FOLLOWS and is_quick:
        return Verdict(Behaviour.FOLLOWS)
    if use is HintUse.FOLLOWS:
        return Verdict(Behaviour.UNKNOWN, why="it was slow, and Metadata said the same meanwhile")
    if use is None and is_quick:
        return Verdict(Behaviour.UNKNOWN, why="it asked for Metadata at once, which says the same")
    return Verdict(Behaviour.IGNORES)


def _most_frequent(faults: Mapping[HintFault, int]) -> HintFault | None:
    return max(faults, key=lambda fault: faults[fault], default=None)


_FAULTS = {
    HintFault.NO_ENDPOINT: "they name a leader without its endpoint (by the broker's fault)",
    HintFault.OTHER_ENDPOINT: (
        "their endpoint is another node's, or not the one that Metadata gives: a proxy between"
        " client and broker does not rewrite NodeEndpoints, or the broker names another listener's"
    ),
    HintFault.REFUSER: "they name the very broker that refuses (by that broker's fault)",
    HintFault.OLDER: "they are older than what the client was shown before",
    HintFault.SAME_EPOCH: (
        "they name another leader at the epoch that the client knows (by that broker's fault)"
    ),
}


def verdict_document(seen: Seen, software: Software) -> ClientVerdict:
    """Judge what was seen, and say it."""
    verdict = judge(seen, software)
    return {
        "behaviour": verdict.behaviour.value,
        "fault": verdict.fault.value if verdict.fault else None,
        "why": verdict.why or None,
        "doubts": [doubt.value for doubt in seen.doubts],
        "sentence": sentence(verdict, seen),
        "advice": advice(verdict, software) or None,
    }


def sentence(verdict: Verdict, seen: Seen) -> str:
    """The verdict as a sentence without its subject, `follows hints: waits p50 ...`."""
    text = _behaviour_sentence(verdict, seen)
    if seen.loops and verdict.behaviour is not Behaviour.LOOPS:
        times = counted(seen.loops, "time")
        text += f" {times} it asked again and again without a backoff."
    return text


def _behaviour_sentence(verdict: Verdict, seen: Seen) -> str:
    waits = _waits_clause(seen.waits)
    errors = counted(seen.leader_errors, "leader error")
    match verdict.behaviour:
        case Behaviour.NOT_MET:
            return "met no leader that had moved."
        case Behaviour.LOOPS:
            fault = f" The hints are no use: {_FAULTS[verdict.fault]}." if verdict.fault else ""
            return (
                f"asks again and again without a backoff: {errors} in"
                f" {counted(seen.loops, 'loop')}{_without_success(seen)}.{fault}"
            )
        case Behaviour.NO_HINTS if verdict.why:
            return f"had to do without hints ({verdict.why}) with {errors}{waits}."
        case Behaviour.NO_HINTS:
            draft = f" that it could read ({seen.draft_hints:,} in the draft's form)"
            return f"is sent no hints{draft if seen.draft_hints else ''} with {errors}{waits}."
        case Behaviour.UNUSABLE:
            assert verdict.fault is not None
            waits = _without_success(seen) or waits
            return f"is sent hints that are no use with {errors}: {_FAULTS[verdict.fault]}{waits}."
        case Behaviour.FOLLOWS:
            return f"follows hints{waits}."
        case Behaviour.WAITS:
            return f"follows hints, but only after its backoff{waits}."
        case Behaviour.IGNORES:
            return f"ignores hints ({seen.hints:,} with {errors}){waits}."
        case _:
            return (
                f"gets hints with {errors}; what it does with them cannot be told: {verdict.why}."
            )


def _without_success(seen: Seen) -> str:
    seconds = seen.longest_us / 1e6
    digits = 0 if seconds >= 10 else 1
    return f", {seconds:,.{digits}f} s without success" if seconds >= _LONG_S else ""


def _waits_clause(waits: Waits) -> str:
    if not waits.episodes:
        return ""
    return (
        f": waits p50 {waits.p50_us / 1000:,.1f} ms, at most {waits.max_us / 1000:,.1f} ms, for"
        f" {_of_met(waits)}"
    )


def _of_met(waits: Waits) -> str:
    if waits.met <= waits.episodes:
        return counted(waits.episodes, "moved leader")
    return f"{waits.episodes:,} of {counted(waits.met, 'moved leader')} that it met"


def advice(verdict: Verdict, software: Software) -> str:
    """What to do about it; "" where nothing is."""
    known = known_bug(software)
    match verdict.behaviour:
        case Behaviour.LOOPS:
            return f"Update the client. {known}".rstrip()
        case Behaviour.FOLLOWS | Behaviour.NOT_MET:
            return known
        case Behaviour.WAITS:
            return "What to set: " + Command("explain clients-ready-for-kip-951")
        case Behaviour.IGNORES:
            return f"It needs a version that reads hints. {known}".rstrip()
        case Behaviour.UNUSABLE:
            return "Look at what brokers send: " + Command("inspect hints --require")
        case _:
            return ""


def expected(
    software: Software, produce_versions: Collection[int], fetch_versions: Collection[int]
) -> str:
    """In a few words what a client will make of hints that met no moved leader yet, by the versions
    that it was seen to use (the most able one counts) and by what is known of its software."""
    if not produce_versions and not fetch_versions:
        return "-"
    is_sent = (
        max(produce_versions, default=-1) >= FIRST_PRODUCE_WITH_HINTS
        or max(fetch_versions, default=-1) >= FIRST_FETCH_WITH_HINTS
    )
    known = known_of(software)
    if not is_sent or (known is not None and known.hints is HintUse.NONE):
        return "too old for them"
    if known is None:
        return "not known"
    if loops := FINDINGS["hint-hot-loop"].affected(software):
        return f"known to loop: update to {loops.mended_in}"
    return f"known to {known.hints.value.removesuffix('s')}"
