"""All that is asked of brokers: pure judgements of what they answered."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kipctl.cluster.inspect.leader_hint_check import BrokerHints, Verdict
from kipctl.cluster.inspect.replica_selection import NO_SELECTOR
from kipctl.conform.broker.facts import Facts
from kipctl.conform.requirement import Requirement
from kipctl.conform.verdict import Outcome, Status, judged, outcome
from kipctl.conform.verdict import Verdict as RuleVerdict
from kipctl.protocol.error_codes import LEADER_ERRORS, ErrorCode, error_name
from kipctl.protocol.leader_hints import LeaderHint

_FIRST_VERSION_WITH_RACK = 11


class Line(NamedTuple):
    """What was seen of one broker, or of one partition: PASS, FAIL, or N/A; None says nothing."""

    status: Status | None
    seen: str


class BrokerClaim(Requirement):
    @abstractmethod
    def lines(self, facts: Facts) -> Iterator[Line]:
        """What was seen, a line each."""

    def judge(self, facts: Facts) -> Outcome:
        """FAIL by one line that fails, PASS by one that passes."""
        lines = tuple(self.lines(facts))
        seen = {line.status for line in lines}
        if Status.FAIL in seen:
            return judged([line.seen for line in lines if line.status is Status.FAIL], "")
        evidence = [line.seen for line in lines]
        if Status.PASS in seen:
            well = [line.seen for line in lines if line.status is Status.PASS]
            more = f" And {len(well) - 1:,} more." if len(well) > 1 else ""
            return outcome(Status.PASS, f"{well[0]}.{more}", evidence)
        if lines:
            is_other = Status.NOT_APPLICABLE in seen
            status = Status.NOT_APPLICABLE if is_other else Status.NOT_REACHED
            return outcome(status, f"{evidence[0]}.", evidence)
        return outcome(Status.NOT_REACHED, "No broker could be asked.")


class Given(NamedTuple):
    """What one broker answered to a Produce or a Fetch for a partition that it does not lead."""

    who: str
    verdict: Verdict
    hint: LeaderHint | None
    detail: str


_NOT_KNOWN = frozenset(
    {Verdict.NOT_ASKED, Verdict.READS_ALL, Verdict.NO_RIGHT, Verdict.UNREACHABLE}
)
_NO_LEADER = frozenset({Verdict.DIFFERS, Verdict.NO_HINT, Verdict.UNEXPECTED})
_NO_WAY = frozenset({Verdict.NO_ENDPOINT, Verdict.OTHER_ENDPOINT})


def by_produce(hints: Iterable[BrokerHints]) -> Iterator[Given]:
    for told in hints:
        yield Given(f"broker {told.broker.id}", told.verdict, told.hint, told.detail)


def by_fetch(hints: Iterable[BrokerHints]) -> Iterator[Given]:
    for told in hints:
        fetched = told.fetched
        yield Given(f"broker {told.broker.id}", fetched.verdict, fetched.hint, fetched.detail)


def _line(given: Given, wrong: frozenset[Verdict]) -> Line:
    named = ""
    if hint := given.hint:
        named = f": leader {hint.leader_id}, epoch {hint.leader_epoch}, {hint.address}"
    detail = f" ({given.detail})" if given.detail else ""
    seen = f"{given.who}: {given.verdict}{named}{detail}"
    if given.verdict in wrong:
        return Line(Status.FAIL, seen)
    if given.verdict in (Verdict.TOO_OLD, Verdict.DRAFT):
        return Line(Status.NOT_APPLICABLE, seen)
    return Line(None if given.verdict in _NOT_KNOWN | _NO_LEADER else Status.PASS, seen)


class NamedLeader(BrokerClaim):
    """What brokers say of the leader when they refuse: `told`, of which some is `wrong`."""

    told = staticmethod(by_produce)
    wrong = _NO_LEADER

    def lines(self, facts: Facts) -> Iterator[Line]:
        return (_line(given, self.wrong) for given in self.told(facts.hints))


class ProduceHint(NamedLeader):
    """Each broker gets a Produce for a partition that it does not lead, whose CRC is wrong."""

    id = "broker-produce-hint"
    title = "who does not lead says in Produce who does, as Metadata has it"
    says = "NOT_LEADER_OR_FOLLOWER comes with the id and epoch of the leader (KIP-951)."
    why = "Producers go to the wrong broker, or wait for Metadata each time that a leader moves."


class ProduceEndpoint(NamedLeader):
    """The endpoint in the same answers is held against that in Metadata of the same connection."""

    id = "broker-produce-endpoint"
    title = "where that is, is in Produce as it is in Metadata"
    says = "NodeEndpoints has the endpoint of every leader that is named, on the same listener."
    why = "Producers cannot connect, or go past what stands between them and the broker."
    wrong = _NO_WAY


class FetchHint(NamedLeader):
    """Each broker gets a Fetch for a partition that it holds not, or with an epoch of before."""

    id = "broker-fetch-hint"
    title = "who refuses a Fetch says who leads, as Metadata has it"
    says = "NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH come with the leader (KIP-951)."
    why = "Consumers go to the wrong broker, or wait for Metadata each time that a leader moves."
    told = staticmethod(by_fetch)


class FetchEndpoint(NamedLeader):
    """The endpoint in the same answers is held against that in Metadata of the same connection."""

    id = "broker-fetch-endpoint"
    title = "where that is, is in Fetch as it is in Metadata"
    says = "NodeEndpoints has the endpoint of every leader that is named, on the same listener."
    why = "Consumers cannot connect, or go past what stands between them and the broker."
    told = staticmethod(by_fetch)
    wrong = _NO_WAY


class NoDraft(BrokerClaim):
    """Each broker gets the same Produce in version 9."""

    id = "broker-draft"
    title = "no leader is named in versions that have none of this"
    says = "CurrentLeader and NodeEndpoints come from Produce 10 on (KIP-951)."
    why = "The KIP's early draft had them in Produce 9: clients that read it there can crash."

    def lines(self, facts: Facts) -> Iterator[Line]:
        for broker, hint in sorted(facts.drafts.items()):
            status = Status.FAIL if hint else Status.PASS
            yield Line(status, f"broker {broker}: {'a hint' if hint else 'no hint'} in Produce 9")


class FollowerRead(BrokerClaim):
    """Each broker is read from, for a partition that it follows in sync."""

    id = "broker-follower-read"
    title = "a follower in sync can be read from"
    says = "From Fetch 11 on consumers may read from followers (KIP-392)."
    why = "Consumers that were sent there are sent back, again and again."

    def lines(self, facts: Facts) -> Iterator[Line]:
        for read in facts.reads:
            if read.follows and read.version >= _FIRST_VERSION_WITH_RACK:
                told = error_name(read.error)
                status = None if read.error else Status.PASS
                if read.error in LEADER_ERRORS:
                    status = Status.FAIL
                yield Line(status, f"broker {read.broker}, which follows {read.partition}: {told}")


class OldReader(BrokerClaim):
    """The same is asked in Fetch 10."""

    id = "broker-old-reader"
    title = "a follower refuses readers that know nothing of followers"
    says = "Before Fetch 11 only the leader is read from (KIP-392)."
    why = "Old consumers read where nothing tells them how far they may."

    def lines(self, facts: Facts) -> Iterator[Line]:
        for read in facts.reads:
            if read.follows and read.version < _FIRST_VERSION_WITH_RACK:
                is_refused = read.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
                seen = f"broker {read.broker}, which follows {read.partition}"
                seen += f": {error_name(read.error)} in Fetch {read.version}"
                yield Line(Status.PASS if is_refused else Status.FAIL, seen)


class Selection(BrokerClaim):
    """Leaders get a Fetch at the high watermark from a reader in each rack. What they say is held
    against the rules of their replica.selector.class.
    """

    id = "broker-replica-selection"
    title = "readers are sent to the replica in their rack that has what they ask for"
    says = "The leader names the preferred replica by replica.selector.class (KIP-392)."
    why = "Readers pay for traffic between racks, or ask a replica that lacks their offset."

    def lines(self, facts: Facts) -> Iterator[Line]:
        if facts.no_racks:
            yield Line(Status.NOT_APPLICABLE, facts.no_racks.rstrip("."))
        selectors = {fact.id: fact.selector for fact in facts.partitions}
        for choice in facts.choices:
            seen = f"{choice.id} in {choice.rack}: broker {choice.reads_from}, {choice.why}"
            if selectors.get(choice.id) == NO_SELECTOR and choice.as_expected:
                yield Line(Status.NOT_APPLICABLE, seen)
            elif choice.as_expected is None:
                yield Line(None, seen)
            else:
                yield Line(Status.PASS if choice.as_expected else Status.FAIL, seen)


class SentEmpty(BrokerClaim):
    """Leaders are read from the beginning of a log on, from each rack."""

    id = "broker-preferred-empty"
    title = "who is sent to another replica gets no records"
    says = "With a preferred replica there are no records in the answer (KIP-392)."
    why = "Records are read twice, or paid for twice."

    def lines(self, facts: Facts) -> Iterator[Line]:
        for read in facts.reads:
            if read.rack and not read.follows and not read.error:
                seen = f"broker {read.broker} to a reader in {read.rack} of {read.partition}: "
                if read.preferred < 0:
                    yield Line(Status.NOT_APPLICABLE, f"{seen}no other replica")
                else:
                    status = Status.FAIL if read.size else Status.PASS
                    seen += f"replica {read.preferred}, {read.size:,} bytes of records"
                    yield Line(status, seen)


class NoRack(BrokerClaim):
    """Leaders are read from by a reader that names no rack."""

    id = "broker-no-rack"
    title = "who names no rack is read to by the leader"
    says = "Without client.rack consumers read from the leader (KIP-392)."
    why = "Consumers are sent away that did not ask for it."

    def lines(self, facts: Facts) -> Iterator[Line]:
        for read in facts.reads:
            if not read.rack and not read.follows:
                seen = f"broker {read.broker}, which leads {read.partition}: "
                if read.preferred >= 0:
                    yield Line(Status.FAIL, f"{seen}read at {read.preferred}")
                else:
                    yield Line(None if read.error else Status.PASS, seen + error_name(read.error))


BROKER_CLAIMS: tuple[type[BrokerClaim], ...] = (
    ProduceHint,
    ProduceEndpoint,
    FetchHint,
    FetchEndpoint,
    NoDraft,
    FollowerRead,
    OldReader,
    Selection,
    SentEmpty,
    NoRack,
)


def verdicts_of(claims: Iterable[type[BrokerClaim]], facts: Facts) -> list[RuleVerdict]:
    """One of each claim."""
    verdicts = []
    for claim in claims:
        judgement, evidence = claim().judge(facts)
        status, seen = judgement.status, judgement.seen
        verdicts.append(RuleVerdict(claim.id, status, seen, (judgement,), evidence))
    return verdicts
