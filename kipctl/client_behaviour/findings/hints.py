"""What clients make of leader hints (KIP-951), and what is wrong with hints."""

from kipctl.client_behaviour.episode import HintFault, Outcome
from kipctl.client_behaviour.facts import End, EpisodeFact, Event, Pace
from kipctl.client_behaviour.findings.finding import Affected, Finding, episodes, events
from kipctl.protocol.api import ApiKey
from kipctl.severity import Severity

_FRANZ_GO_LOOP = "twmb/franz-go#1412"
_FRANZ_GO_CUTS = "twmb/franz-go@af5abf66"
_SARAMA = "IBM/sarama#3637"
_LIBRDKAFKA = "confluentinc/librdkafka#4756"

_FEW = 3
"""Of what must be more often than not: by chance, one may be."""
_MANY = 20
"""Moved leaders, before it is said that a client waits: a queue may hold up a few."""
_REACTIONS = (Outcome.FOLLOWED, Outcome.BY_METADATA, Outcome.SENT_BACK, Outcome.ELSEWHERE)
_AWAY = (Outcome.SENT_BACK, Outcome.ELSEWHERE)
_HINTED = episodes(lambda fact: fact.is_hinted)
_FOLLOWED = episodes(lambda fact: fact.outcome is Outcome.FOLLOWED)


def _fenced_too_late(fact: EpisodeFact) -> bool:
    is_late = fact.outcome is Outcome.BY_METADATA and fact.pace is Pace.AFTER_BACKOFF
    return fact.is_fenced and (fact.outcome in _AWAY or is_late)


FINDINGS = (
    Finding(
        id="hint-hot-loop",
        severity=Severity.PROBLEM,
        does="asks the same broker again and again without a backoff, though it was told no news",
        costs="Hundreds of requests a second for each partition, on brokers that just took over"
        " leaders; and nothing gets through until Metadata is asked for.",
        change="Update the client.",
        is_it=episodes(lambda fact: fact.is_loop and fact.is_hinted),
        of=_HINTED,
        share=0.1,
        known=(Affected("kgo", (1, 17), (1, 21, 7), _FRANZ_GO_LOOP),),
    ),
    Finding(
        id="hint-ignored",
        severity=Severity.WARNING,
        does="is told the new leader, and asks the broker again that has refused, or another one",
        costs="A move takes it a backoff and a Metadata request, and more while Metadata is stale;"
        " with few retries it loses records.",
        change="Use a version that reads hints.",
        is_it=episodes(lambda fact: fact.outcome in _AWAY),
        of=episodes(lambda fact: fact.outcome in _REACTIONS),
        least=_FEW,
        share=0.5,
        known=(Affected("sarama", (0,), None, _SARAMA),),
    ),
    Finding(
        id="hint-waited",
        severity=Severity.NOTE,
        does="goes where hints say, but only after its backoff",
        costs="Each move of a leader takes it retry.backoff.ms, which hints are there to save.",
        change="Set retry.backoff.ms lower, as clients-ready-for-kip-951 says.",
        is_it=episodes(
            lambda fact: fact.outcome is Outcome.FOLLOWED and fact.pace is Pace.AFTER_BACKOFF
        ),
        of=_FOLLOWED,
        least=_MANY,
        share=0.5,
        is_timed=True,
        known=(Affected("librdkafka", (2, 5), None, _LIBRDKAFKA),),
    ),
    Finding(
        id="hint-no-refresh",
        severity=Severity.NOTE,
        does="follows hints, and does not ask for Metadata",
        costs="Each other partition that moved with this one is refused too before it goes on; a"
        " hint that is wrong is found late.",
        change="Nothing, where moves are rare; KIP-951 asks clients to refresh all the same.",
        is_it=episodes(
            lambda fact: fact.outcome is Outcome.FOLLOWED and fact.is_refreshed is False
        ),
        of=episodes(
            lambda fact: fact.outcome is Outcome.FOLLOWED and fact.is_refreshed is not None
        ),
        least=_FEW,
        share=0.5,
        known=(Affected("librdkafka", (2, 5), None, _LIBRDKAFKA),),
    ),
    Finding(
        id="hint-same-epoch-followed",
        severity=Severity.WARNING,
        does="goes to a leader that a hint names at an epoch that it knows already, or at an older"
        " one",
        costs="Two brokers that name each other send it back and forth, for good at times.",
        change="Update the client: KIP-951 has it take newer epochs only.",
        is_it=episodes(lambda fact: fact.strayed is not None),
    ),
    Finding(
        id="hint-undone",
        severity=Severity.WARNING,
        does="goes to the leader that a hint names, and back to an older one by stale Metadata",
        costs="Each stale answer undoes what the hint has saved: it is refused once more.",
        change="Update the client: of two leaders it is to keep the one of the newer epoch.",
        is_it=episodes(lambda fact: fact.is_undone),
        least=2,
        known=(Affected("librdkafka", (2, 1), (2, 4), "confluentinc/librdkafka#4687"),),
    ),
    Finding(
        id="fenced-ignored",
        severity=Severity.NOTE,
        does="does not read the hint that comes with FENCED_LEADER_EPOCH, and waits for Metadata",
        costs="After such an answer a move takes it as long as without hints.",
        change="Nothing, where it is rare; KIP-951 asks clients to read it all the same.",
        is_it=episodes(_fenced_too_late),
        of=episodes(lambda fact: fact.is_fenced and fact.outcome in _REACTIONS),
        least=_FEW,
        share=0.5,
        is_timed=True,
    ),
    Finding(
        id="other-connections-cut",
        severity=Severity.WARNING,
        does="closes its connections to other brokers when it gets a hint",
        costs="What was under way there is lost, and is sent again; connections are made anew while"
        " leaders move.",
        change="Update the client.",
        is_it=events(Event.OTHERS_CUT),
        least=2,
        known=(Affected("kgo", (1, 17), (1, 21), _FRANZ_GO_CUTS),),
    ),
    Finding(
        id="endpoint-differs",
        severity=Severity.PROBLEM,
        does="is sent hints with another endpoint than Metadata gives for that broker",
        costs="A client that follows them leaves the proxy that it was to go through, or cuts a"
        " healthy connection, or reaches nobody.",
        change="Have the proxy rewrite NodeEndpoints as it rewrites Metadata.",
        is_it=episodes(lambda fact: HintFault.OTHER_ENDPOINT in fact.faults),
        of=_HINTED,
        least=_FEW,
        is_clients=False,
    ),
    Finding(
        id="hint-to-refuser",
        severity=Severity.NOTE,
        does="is sent by hints to brokers that go on refusing",
        costs="Hints save nothing there: clients that back off wait, those that do not loop.",
        change="Look at the brokers: their Metadata is ahead of what their replicas know.",
        is_it=episodes(lambda fact: fact.is_not_ready and not fact.is_loop),
        of=_HINTED,
        least=_FEW,
        share=0.1,
        is_clients=False,
    ),
    Finding(
        id="no-metadata-after-6",
        severity=Severity.WARNING,
        does="is refused without a hint, and does not ask for Metadata",
        costs="It does not learn the new leader until its Metadata is old: minutes.",
        change="Update the client, or set metadata.max.age.ms lower.",
        is_it=episodes(
            lambda fact: (
                fact.outcome is Outcome.NOT_HINTED
                and not fact.faults
                and fact.is_long
                and fact.is_refreshed is False
            )
        ),
        known=(Affected("kgo", (0,), (1, 18, 1), "twmb/franz-go#937"),),
    ),
    Finding(
        id="retries-exhausted",
        severity=Severity.WARNING,
        does="gives up what was refused after four attempts or fewer",
        costs="Records are lost, or come back to the program as errors, though the new leader was"
        " there.",
        change="Set retries so high, or delivery.timeout.ms so long, that a move is survived.",
        is_it=episodes(
            lambda fact: (
                fact.api == ApiKey.PRODUCE and fact.end is End.GIVEN_UP and fact.few_refusals
            )
        ),
    ),
)
