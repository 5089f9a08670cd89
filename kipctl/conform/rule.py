"""What a rule is: a script for the cluster, and how the client's requests are judged."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from kipctl.conform.cluster.call import Attempt, Exchange
from kipctl.conform.cluster.cluster import Cluster
from kipctl.conform.cluster.control import Control, Refusal, Scripted, Waiting
from kipctl.conform.cluster.state import Place
from kipctl.conform.requirement import Requirement
from kipctl.conform.trace import API_OF, Trace, is_refused
from kipctl.conform.verdict import Judgement, Role, Status
from kipctl.probe.leadership import Leader
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode

WARM_UP_REQUESTS = 15
QUIET_METADATA_S = 6.0
"""Clients that keep to a least age of Metadata (5 s in franz-go) are not held up by it then."""
METADATA_MS = 300_000
"""Kafka's default of all that `Rule.metadata_ms` says."""
_LONGEST_WARM_UP_S = 30.0
_RECORDS_PER_S = 50
_LOOK_EVERY_US = 20_000
HINTS = {Role.PRODUCER: 10, Role.CONSUMER: 16}
"""The versions of Produce and Fetch that have KIP-951's hints with endpoints."""


class Stage:
    """The cluster that a rule plays on: before it begins, the client warms up."""

    def __init__(
        self, rule: "Rule", role: Role, cluster: Cluster, topics: Sequence[str], quiet_s: float
    ) -> None:
        self.rule, self.role, self.cluster, self.topics = rule, role, cluster, topics
        self.tell: Callable[[str], None] = lambda topic: None
        """Writes a line to the client's standard input: the topic to which it sends from now on."""
        self._used = 0
        self.place: Place = topics[0], 0
        """The partition that the rule is about. Broker 1 leads it in epoch 5."""
        self.began_us: int | None = None
        self._quiet_us = round(min(quiet_s, rule.metadata_ms / 2000) * 1e6)
        self._looked_us = 0
        self._good_since_us: int | None = None
        self._written = 0
        self._first_us: int | None = None
        self._is_asked_of_it = True
        self.longer = 1.0
        """So many times as long the rule lasts, where its limits are widened."""
        cluster.before, cluster.control, cluster.script = self._before, self._control, self._script
        cluster.sessions.keeps = lambda: True  # as brokers do, which have room for 1,000
        rule.prepare(self)

    @property
    def ms(self) -> float:
        """Since the rule began."""
        return 0.0 if self.began_us is None else (self.cluster.now_us() - self.began_us) / 1000

    @property
    def is_over(self) -> bool:
        """The rule was played, or is not asked of a client of its version."""
        return self.ms >= self.rule.seconds * 1000 * self.longer or not self._is_asked_of_it

    def move(self, to: int, epoch: int, metadata_after_ms: float) -> None:
        """Another leads; Metadata shows the one before for so long."""
        if self.ms < metadata_after_ms:
            self.show(Leader(1, 5))
        else:
            self.show(None)
        self.cluster.move(self.place, Leader(to, epoch))

    def give_away(self, broker: int) -> None:
        """From now on it has no replica, so that it refuses whatever epoch it is told."""
        self.cluster.not_held.add((self.place, broker))

    def show(self, leader: Leader | None) -> None:
        """What all brokers' Metadata shows of the partition; the truth for None."""
        for broker in self.cluster.brokers.values():
            if leader is None:
                broker.shown.maps[0].clear()
            else:
                broker.shown[self.place] = leader

    def use(self, number: int) -> None:
        """From now on the client is to send to this one of the topics."""
        if number != self._used:
            self._used = number
            self.tell(self.topics[number])

    def hide(self, broker: int, hidden: bool = True) -> None:
        """Whether Metadata leaves a broker out."""
        for shows in self.cluster.brokers.values():
            shows.hidden = {broker} if hidden else set()

    def hint(self, leader: Leader, endpoint: bool = True) -> Refusal:
        """A refusal that names this leader, and where it listens."""
        node = self.cluster.nodes.get(leader.id) if endpoint else None
        return Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, leader, node)

    def metadata_answered(self) -> int:
        """So many Metadata requests have been answered since it began."""
        began = self.began_us or 0
        return sum(
            e.api == ApiKey.METADATA and e.answered_us >= began for e in self.cluster.exchanges
        )

    def trace(self, scale: float) -> Trace:
        """What the client has done so far."""
        cluster = self.cluster
        return Trace(
            self.role,
            self.place,
            tuple(cluster.exchanges),
            tuple(cluster.connections),
            self.began_us,
            scale,
            type(self.rule).starts,
            tuple(cluster.log(self.place).batches),
            cluster.names,
        )

    def _before(self) -> None:
        now_us = self.cluster.now_us()
        if self.role is Role.CONSUMER:
            self._write_records(now_us)
        if self.began_us is None and now_us >= self._looked_us + _LOOK_EVERY_US:
            self._looked_us = now_us
            if self._is_warm(now_us):
                self.began_us = now_us
        if self.began_us is not None:
            self.rule.arrange(self)

    def _write_records(self, now_us: int) -> None:
        if self._first_us is None:
            self._first_us = now_us
        due = (now_us - self._first_us) * _RECORDS_PER_S // 1_000_000
        while self._written < due:
            for log in self.cluster.logs.values():
                log.write(b"%d" % self._written, now_us)
            self._written += 1

    def _is_warm(self, now_us: int) -> bool:
        """It has sent or read for a while, and has not asked for Metadata lately."""
        api, place, good, quiet_since_us, version = API_OF[self.role], self.place, 0, 0, 0
        for e in self.cluster.exchanges:
            if e.api == api and place in e.tried and e.tried[place].error == 0:
                good, version = good + 1, e.version
            if e.api == ApiKey.METADATA:
                quiet_since_us = e.us
        if good < WARM_UP_REQUESTS:
            return False
        self._is_asked_of_it = version >= self.rule.least[self.role]
        if self._good_since_us is None:
            self._good_since_us = now_us
        is_late = now_us - self._good_since_us > _LONGEST_WARM_UP_S * 1e6
        return is_late or now_us - quiet_since_us >= self._quiet_us

    def _control(self, call: Exchange) -> Control | None:
        return None if self.began_us is None else self.rule.control(self, call)

    def _script(self, attempt: Attempt) -> Scripted | Waiting | None:
        if self.began_us is None or attempt.place != self.place:
            return None
        if attempt.api != API_OF[self.role]:
            return None
        return self.rule.refuse(self, attempt)


class Rule(Requirement):
    """What is asked of a client. An instance is of one run, and may remember what it did.

    A rule takes the client for warm before it begins; it then lasts `seconds`. `least` are the
    versions of Produce and Fetch from which on it applies; a role that is not in it is not held
    against it.
    """

    least: ClassVar[Mapping[Role, int]] = HINTS
    seconds: ClassVar[float] = 2.5
    needs_rack: ClassVar[bool] = False
    """It is about what the client is told to be its rack."""
    needs: ClassVar[str] = ""
    """The rule whose FAIL says all that one of this would: who fails that is not asked this."""
    partitions: ClassVar[int] = 1
    """Partition p is led by broker 1 + p."""
    topics: ClassVar[int] = 1
    """With so many partitions each; the client sends to the first until it is told otherwise."""
    metadata_ms: ClassVar[int] = METADATA_MS
    """How old the client's Metadata may become, how long it keeps topics that it does not use, and
    how long it goes without: `metadata.max.age.ms` and its like, {metadata_ms} in a command."""

    @staticmethod
    def starts(tried: Attempt) -> bool:
        """The first answer for the partition from which on times are counted."""
        return is_refused(tried)

    def prepare(self, stage: Stage) -> None:
        """Before the client is started."""

    def arrange(self, stage: Stage) -> None:
        """Before each look at a request, from the beginning on: what the cluster is by now."""

    def refuse(self, stage: Stage, attempt: Attempt) -> Scripted | Waiting | None:
        """What the partition is answered; None for what the cluster says by itself."""
        return None

    def control(self, stage: Stage, call: Exchange) -> Control | None:
        """What is done to a request; None for nothing."""
        return None

    def judge(self, trace: Trace) -> Judgement:
        """What the requests say, from the first refusal on."""
        raise NotImplementedError

    def judged(self, trace: Trace) -> Judgement:
        """The same where the rule applies, and came to be played."""
        version, least = trace.version, self.least[trace.role]
        if version is None:
            return Judgement(Status.NOT_REACHED, "It never asked for the partition.")
        name = ApiKey(API_OF[trace.role]).name.title()
        if version < least:
            return Judgement(
                Status.NOT_APPLICABLE, f"It asks {name} {version}; this comes from {least} on."
            )
        if trace.start_us is None:
            return Judgement(Status.NOT_REACHED, "It did not get the answer that this is about.")
        return self.judge(trace)


RuleClass = Callable[[], Rule]
