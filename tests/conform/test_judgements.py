"""How requests are judged: limits, repeats, and what is not judged."""

from uuid import UUID

import pytest

from kipctl.conform import run as conform
from kipctl.conform.cluster import Cluster, Exchange, Leader
from kipctl.conform.expected import outdated, read_expected, surprises
from kipctl.conform.rule import Stage
from kipctl.conform.rules import BY_ID, RULES, chosen, rule_of
from kipctl.conform.run import Client, run_rule
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Role, Status, Verdict, decided
from kipctl.errors import UsageError
from kipctl.protocol.metadata import MetadataRequest, MetadataRequestTopic

PLACE = "t", 0
BEGAN_US = 1_000_000


def produce(
    ms: float, broker: int, error: int = 0, version: int = 13, sequence: int = -1
) -> Exchange:
    us = BEGAN_US + round(ms * 1000)
    exchange = Exchange(us, broker, 0, 0, version, 0, "", answered_us=us)
    attempt = exchange.attempt(PLACE)
    attempt.error, attempt.hint = error, Leader(2, 6) if error else None
    attempt.sequence = sequence
    return exchange


def metadata(ms: float) -> Exchange:
    us = BEGAN_US + round(ms * 1000)
    return Exchange(us, 1, 0, 3, 13, 0, "", answered_us=us)


def trace(*after: Exchange, gap_ms: float = 2.0, scale: float = 1.0) -> Trace:
    """Good requests, a refusal at 0 ms, and what came after it."""
    warm = [produce(-gap_ms * (15 - k), 1) for k in range(15)]
    return Trace(Role.PRODUCER, PLACE, [*warm, produce(0, 1, 6), *after], [], BEGAN_US, scale)


@pytest.mark.parametrize(
    ("ms", "gap_ms", "scale", "status"),
    [
        (9, 2, 1, Status.PASS),
        (11, 2, 1, Status.SLOW),
        (11, 20, 1, Status.PASS),
        (61, 100, 1, Status.SLOW),
        (19, 2, 2, Status.PASS),
        (300, 2, 1, Status.SLOW),
        (599, 2, 2, Status.SLOW),
        (91, 2, 10, Status.SLOW),
        (1499, 2, 1, Status.SLOW),
        (1501, 2, 1, Status.FAIL),
        (1501, 2, 10, Status.FAIL),
    ],
)
def test_how_late_is_slow_and_how_late_is_wrong(
    ms: float, gap_ms: float, scale: float, status: Status
) -> None:
    seen = trace(produce(ms, 2), gap_ms=gap_ms, scale=scale)
    assert BY_ID["951-1"]().judged(seen).status is status


def fetch(
    ms: float,
    broker: int,
    error: int | None = 0,
    offset: int = 0,
    preferred: int = -1,
    epoch: int = 5,
) -> Exchange:
    """Error None: the broker hangs up."""
    us = BEGAN_US + round(ms * 1000)
    exchange = Exchange(us, broker, 0, 1, 16, 0, "", answered_us=-1 if error is None else us)
    if error is None:
        return exchange
    attempt = exchange.attempt(PLACE)
    attempt.error, attempt.offset, attempt.preferred = error, offset, preferred
    attempt.epoch = epoch
    return exchange


def _loop(error: int | None, gap_ms: float) -> tuple[Exchange, ...]:
    """A reader that stays at broker 3 for a second, which refuses or hangs up; then the leader."""
    asked = (fetch(900 + gap_ms * k, 3, error) for k in range(round(1000 / gap_ms)))
    return (fetch(890, 3), *asked, fetch(2000, 1))


@pytest.mark.parametrize(
    ("rule", "after", "status"),
    [
        ("392-2", (fetch(5999, 3),), Status.SLOW),
        ("392-2", (fetch(6001, 3),), Status.FAIL),
        ("392-4", (fetch(900, 3, 6), fetch(2399, 1)), Status.PASS),
        ("392-4", (fetch(900, 3, 6), fetch(2400, 1)), Status.SLOW),
        ("392-4", _loop(6, 50), Status.PASS),
        ("392-4", _loop(6, 40), Status.FAIL),
        ("392-5", _loop(1, 40), Status.FAIL),
        ("392-6", _loop(None, 50), Status.PASS),
        ("392-6", _loop(None, 40), Status.FAIL),
        ("392-9", _loop(56, 50), Status.SLOW),
        ("392-9", _loop(56, 40), Status.FAIL),
        ("392-10", _loop(78, 50), Status.PASS),
        ("392-10", _loop(78, 40), Status.FAIL),
        ("392-7", (fetch(2, 3),), Status.SLOW),
        ("392-7", (fetch(2, 3), fetch(5002, 1)), Status.PASS),
        ("392-7", (fetch(2, 3), *(fetch(k, 1) for k in (200, 300, 3999, 5000))), Status.PASS),
        ("392-7", (fetch(2, 3), *(fetch(k, 1) for k in (200, 300, 400, 3999))), Status.FAIL),
        ("392-7", (fetch(200, 1),), Status.NOT_REACHED),
        ("392-8", (fetch(900, 3, 1), fetch(902, 3)), Status.PASS),
        ("392-8", (fetch(900, 3, 1), fetch(2901, 3)), Status.SLOW),
        ("392-8", (fetch(900, 3, 1),), Status.NOT_REACHED),
        ("392-8", (*(fetch(900 + k, 3, 1) for k in range(21)), fetch(999, 3)), Status.FAIL),
        ("392-8", (fetch(900, 3),), Status.NOT_REACHED),
        ("392-9", (fetch(900, 3, 3, 7), fetch(999, 1, 0, 7)), Status.PASS),
        ("392-9", (fetch(900, 3, 56, 7), fetch(1701, 1, 0, 7)), Status.SLOW),
        ("392-9", (fetch(900, 3, 3, 7), fetch(999, 1, 0, 8)), Status.FAIL),
        ("392-9", (fetch(900, 3, 3, 7), fetch(999, 3, 0, 7)), Status.SLOW),
        ("392-9", (fetch(900, 3, 3, 7), fetch(999, 3, 3, 7)), Status.FAIL),
        ("392-9", (fetch(900, 3),), Status.NOT_REACHED),
        ("392-10", (fetch(900, 3, 78, 7), fetch(999, 3, 0, 7)), Status.PASS),
        ("392-10", (fetch(900, 3, 78, 7), fetch(999, 1, 0, 7)), Status.PASS),
        ("392-10", (fetch(900, 3, 78, 7), fetch(2400, 1, 0, 7)), Status.SLOW),
        ("392-10", (fetch(900, 3, 78, 7), fetch(999, 1, 0, 0)), Status.FAIL),
        ("392-10", (*(fetch(900 + k, 3, 78) for k in range(41)), fetch(999, 3)), Status.FAIL),
    ],
)
def test_what_each_rule_makes_of_reads(
    rule: str, after: tuple[Exchange, ...], status: Status
) -> None:
    warm = [fetch(-2 * (15 - k), 1) for k in range(15)]
    seen = [*warm, fetch(0, 1, preferred=3), *after]
    starts = BY_ID[rule].starts
    read = Trace(Role.CONSUMER, PLACE, seen, [], BEGAN_US, 1.0, starts)
    assert BY_ID[rule]().judged(read).status is status


def test_who_is_not_told_how_long_metadata_lasts_is_not_judged_by_it() -> None:
    client = Client(("no-such-program", "{bootstrap}"), Role.CONSUMER)
    verdict = run_rule(BY_ID["392-7"], client, 1.0, lambda text: None)
    assert verdict.status is Status.NOT_REACHED
    assert "5,000 ms ({metadata_ms})" in verdict.seen


def _in_flight(every_ms: int, batches: int, error: int = 6) -> tuple[Exchange, ...]:
    """Retries for 1 s, each of several batches."""
    return tuple(
        produce(at + k / 10, broker, error, sequence=k)
        for at in range(0, 1000, every_ms)
        for k in range(batches)
        for broker in (1, 2)
    )


def _small(until_ms: int, retry_ms: int, broker: int) -> tuple[Exchange, ...]:
    """A batch for each record, 50 a second, each tried again after so long until then."""
    tries = (
        produce(at, broker, 6, sequence=first_ms // 20)
        for first_ms in range(1, until_ms, 20)
        for at in range(first_ms, until_ms, retry_ms)
    )
    return tuple(sorted(tries, key=lambda e: e.us))


def _asks_for_each(times: int) -> tuple[Exchange, ...]:
    """Metadata so many times after each of 50 batches a second is refused for the first time."""
    refused = (produce(at, 1, 6, sequence=at) for at in range(1, 2000, 20))
    asked = (metadata(at + 5 * k) for at in range(3, 2000, 20) for k in range(times))
    return tuple(sorted((*refused, *asked), key=lambda e: e.us))


@pytest.mark.parametrize(
    ("rule", "after", "status"),
    [
        ("951-1", (), Status.FAIL),
        ("951-2", (produce(50, 1),), Status.PASS),
        ("951-2", (produce(50, 2),), Status.FAIL),
        ("951-2", (produce(50, 1, 6),), Status.NOT_REACHED),
        ("951-3", (metadata(5), produce(90, 1, 6), produce(2100, 1)), Status.PASS),
        ("951-3", (metadata(5), produce(90, 1, 6)), Status.FAIL),
        ("951-3", (produce(90, 1, 6), produce(2100, 1)), Status.FAIL),
        ("951-3", (metadata(5), *(produce(40 * k, 1, 6) for k in range(41))), Status.FAIL),
        ("951-1", (produce(2, 2, 87), produce(90, 2, 87)), Status.FAIL),
        ("951-1", (produce(2, 2, 87), produce(90, 2)), Status.SLOW),
        ("951-4", (produce(90, 1, 6), produce(1100, 1)), Status.PASS),
        ("951-4", (produce(90, 2, 6), produce(1100, 1)), Status.FAIL),
        ("951-4", (produce(90, 1, 6), produce(4001, 1)), Status.FAIL),
        ("951-3", (metadata(5), *_in_flight(100, 5), produce(2100, 1)), Status.PASS),
        ("951-3", (metadata(5), *_small(2000, 100, 1), produce(2100, 1)), Status.PASS),
        ("951-3", (metadata(5), *_small(2000, 20, 1), produce(2100, 1)), Status.FAIL),
        ("951-5", (*_small(1000, 100, 2), produce(1100, 2)), Status.PASS),
        ("951-5", (*_small(1000, 20, 2), produce(1100, 2)), Status.FAIL),
        ("951-5", (*(produce(45 * k, 2, 6) for k in range(21)), produce(1100, 2)), Status.PASS),
        ("951-5", tuple(produce(45 * k, 2, 6) for k in range(21)), Status.FAIL),
        (
            "951-5",
            (produce(2, 2, 6), *(produce(4 * k, 1, 6) for k in range(1, 201)), produce(1100, 2)),
            Status.FAIL,
        ),
        ("951-5", tuple(produce(45 * k, 2, 6) for k in range(22)), Status.FAIL),
        ("951-5", (*_in_flight(250, 8), produce(1100, 2)), Status.PASS),
        ("951-5", tuple(produce(k, 2, 6) for k in range(101)), Status.FAIL),
        ("951-5", (produce(90, 1, 6),), Status.NOT_REACHED),
        ("951-5", (produce(1001, 2, 6), produce(1100, 2)), Status.NOT_REACHED),
        ("951-6", (produce(2, 2), metadata(3), produce(20, 2)), Status.PASS),
        ("951-6", (produce(2, 2), metadata(3), produce(20, 1, 6)), Status.FAIL),
        ("951-6", (produce(2, 2), produce(20, 2)), Status.NOT_REACHED),
        ("951-7", (produce(2, 2), metadata(1999)), Status.PASS),
        ("951-7", (produce(2, 2), metadata(2001)), Status.FAIL),
        ("951-7", (metadata(3),), Status.NOT_REACHED),
        ("951-9", (produce(299, 2),), Status.PASS),
        ("951-9", (produce(301, 2),), Status.SLOW),
        ("951-9", (produce(1499, 2),), Status.SLOW),
        ("951-9", (produce(1501, 2),), Status.FAIL),
        ("951-9", (produce(1501, 1, 6),), Status.FAIL),
        ("951-8", (produce(999, 2),), Status.SLOW),
        ("951-8", (produce(1001, 2),), Status.FAIL),
        ("951-13", (produce(1500, 2),), Status.SLOW),
        ("951-13", (), Status.SLOW),
        ("951-14", (produce(999, 2),), Status.PASS),
        ("951-14", (produce(1001, 2),), Status.FAIL),
        ("951-15", (produce(1499, 3),), Status.PASS),
        ("951-15", (produce(1501, 3),), Status.SLOW),
        ("951-15", (produce(6001, 3),), Status.FAIL),
        ("951-19", (produce(1499, 2),), Status.FAIL),
        ("951-19", (produce(1500, 2),), Status.PASS),
        ("951-19", (produce(50, 1, 6),), Status.FAIL),
        ("951-21", (produce(2, 2),), Status.NOT_APPLICABLE),
        ("526-5", (metadata(3), metadata(200), produce(2100, 1)), Status.PASS),
        ("526-5", (metadata(3), produce(5001, 1)), Status.SLOW),
        ("526-5", (metadata(3),), Status.FAIL),
        ("526-5", (*(metadata(k) for k in range(42)), produce(2100, 1)), Status.FAIL),
        ("526-5", (*_asks_for_each(1), produce(2100, 1)), Status.PASS),
        ("526-5", (*_asks_for_each(2), produce(2100, 1)), Status.FAIL),
        ("526-5", (produce(2100, 1),), Status.NOT_REACHED),
        ("526-1", (produce(2100, 1),), Status.NOT_REACHED),
    ],
)
def test_what_each_rule_makes_of_requests(
    rule: str, after: tuple[Exchange, ...], status: Status
) -> None:
    assert BY_ID[rule]().judged(trace(*after)).status is status


def test_what_is_not_judged() -> None:
    follow = BY_ID["951-1"]()
    nothing = Trace(Role.PRODUCER, PLACE, [], [], None)
    assert follow.judged(nothing).status is Status.NOT_REACHED
    old = Trace(Role.PRODUCER, PLACE, [produce(-9, 1, version=9), produce(0, 1, 6, 9)], [], 0)
    assert follow.judged(old) == Judgement(
        Status.NOT_APPLICABLE, "It asks Produce 9; this comes from 10 on."
    )
    silent = Trace(Role.PRODUCER, PLACE, [produce(-9, 1)], [], BEGAN_US)
    assert follow.judged(silent).status is Status.NOT_REACHED


P, S, F, R = Status.PASS, Status.SLOW, Status.FAIL, Status.NOT_REACHED


@pytest.mark.parametrize(
    ("runs", "most", "status"),
    [
        ((P,), 1, P),
        ((P,), 3, None),
        ((P, P), 3, P),
        ((F, P), 3, None),
        ((F, P, P), 3, P),
        ((F, P, F), 3, F),
        ((F, P, S), 3, R),
        ((F, F), 5, None),
    ],
)
def test_two_of_three_runs_decide(
    runs: tuple[Status, ...], most: int, status: Status | None
) -> None:
    assert decided(tuple(Judgement(run, "") for run in runs), most) is status


def test_who_follows_no_hint_is_not_asked_how(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one fault, and is said once."""
    monkeypatch.setattr(conform, "self_test", lambda role: 1.0)
    monkeypatch.setattr(conform, "run_rule", lambda rule, *_: Verdict(rule.id, F, ""))
    rules = chosen("951-9,951-7,951-1", Role.PRODUCER)
    outcomes = conform.run_rules(rules, Client(("mine",), Role.PRODUCER), print)
    assert [(v.rule, v.status) for v in outcomes] == [
        ("951-1", F), ("951-7", F), ("951-9", Status.NOT_APPLICABLE)
    ]  # fmt: skip
    for number, rule in enumerate(RULES):
        assert rule.needs in ("", *(before.id for before in RULES[:number]))


def test_rules_are_named_by_id_and_by_kip() -> None:
    assert {*chosen(None, Role.PRODUCER), *chosen(None, Role.CONSUMER)} == {*RULES}
    assert [rule.id for rule in chosen("951-2,951-1", Role.PRODUCER)] == ["951-1", "951-2"]
    assert [rule.id for rule in chosen("1102,392-1", Role.CONSUMER)] == [
        "392-1",
        "1102-1",
        "1102-2",
    ]
    with pytest.raises(UsageError, match="None of these rules is about a producer"):
        chosen("392", Role.PRODUCER)
    with pytest.raises(UsageError, match=r"There is no rule or KIP '952'"):
        chosen("952", Role.PRODUCER)
    with pytest.raises(UsageError, match=r"There is no rule .951-l."):
        rule_of("951-l")


def test_ids_titles_and_sentences_are_whole() -> None:
    assert len(BY_ID) == len(RULES)
    for rule in RULES:
        assert rule.says.endswith(".")
        assert rule.why.endswith(".")
        assert (rule.__doc__ or "").endswith(".")
        assert not rule.title.endswith(".")


def test_known_faults_are_expected_and_those_that_are_gone_are_told(tmp_path) -> None:
    file = tmp_path / "known"
    file.write_text("# of 2.16\n951-3  # asks no Metadata\n\n951-7\n")
    expected = read_expected(file, BY_ID)
    verdicts = [Verdict("951-3", F, ""), Verdict("951-4", F, ""), Verdict("951-7", P, "")]
    assert surprises(verdicts, expected) == ("951-4",)
    assert outdated(verdicts, expected) == ("951-7",)
    file.write_text("951-99\n")
    with pytest.raises(UsageError, match="there is no rule '951-99'"):
        read_expected(file, BY_ID)


def fetches(ms: float, broker: int, *errors: int | None) -> Exchange:
    """Of partitions 0, 1, ...; None where one is left out."""
    exchange = fetch(ms, broker)
    exchange.tried.clear()
    for index, error in enumerate(errors):
        if error is not None:
            exchange.attempt(("t", index)).error = error
    return exchange


@pytest.mark.parametrize(
    ("after", "status"),
    [
        ((fetches(2, 2, 0), fetches(3, 1, None, 0), fetches(600, 3, None, None, 0)), Status.PASS),
        (
            (fetches(2, 2, 0, 6), fetches(9, 1, None, 0), fetches(600, 3, None, None, 0)),
            Status.FAIL,
        ),
        ((fetches(2, 2, 0), fetches(600, 3, None, None, 0)), Status.FAIL),
        ((fetches(2, 2, 0), fetches(3, 1, None, 0)), Status.FAIL),
    ],
    ids=["each its way", "one is taken along", "one is forgotten", "one is not looked up"],
)
def test_of_one_answer_each_partition_goes_its_way(
    after: tuple[Exchange, ...], status: Status
) -> None:
    warm = [fetches(-2.0 * k, 1, 0, 0, 0) for k in range(15, 0, -1)]
    refused = fetches(0, 1, 6, 0, 6)
    refused.us -= 1000
    seen = Trace(Role.CONSUMER, PLACE, [*warm, refused, *after], [], BEGAN_US)
    assert BY_ID["951-17"]().judged(seen).status is status


@pytest.mark.parametrize(("scale", "status"), [(2.0, Status.PASS), (2.1, Status.NOT_REACHED)])
def test_a_throttle_is_not_judged_where_nothing_of_its_silence_is_left(
    scale: float, status: Status
) -> None:
    seen = trace(produce(2, 2), produce(600, 1), scale=scale)
    assert BY_ID["951-22"]().judge(seen).status is status
    assert BY_ID["219-1"]().judge(seen).status is status


def test_a_rule_lasts_longer_where_its_limits_are_widened() -> None:
    now_us = [0]
    rule = BY_ID["951-1"]()
    stage = Stage(rule, Role.PRODUCER, Cluster({"t": 1}, now_us=lambda: now_us[0]), "t", 0.0)
    stage.began_us, now_us[0] = 0, round(rule.seconds * 1e6)
    assert stage.is_over
    stage.longer = 2.0
    assert not stage.is_over


@pytest.mark.parametrize(
    ("error", "epoch", "status"), [(74, 5, Status.PASS), (6, -1, Status.NOT_APPLICABLE)]
)
def test_who_says_no_leader_epoch_is_not_fenced(error: int, epoch: int, status: Status) -> None:
    warm = [fetch(-2 * (15 - k), 1) for k in range(15)]
    seen = [*warm, fetch(0, 1, error, epoch=epoch), fetch(2, 2)]
    assert (
        BY_ID["951-16"]().judged(Trace(Role.CONSUMER, PLACE, seen, [], BEGAN_US)).status is status
    )


U_ID = UUID(int=7)


def renewed(ms: float, *topics: MetadataRequestTopic) -> Exchange:
    asked = metadata(ms)
    asked.request = MetadataRequest(topics=topics)
    return asked


@pytest.mark.parametrize(
    ("rule", "asked", "status"),
    [
        ("526-3", MetadataRequestTopic(name="u"), Status.PASS),
        ("526-3", MetadataRequestTopic(U_ID, None), Status.PASS),
        ("526-3", MetadataRequestTopic(UUID(int=8), None), Status.FAIL),
        ("526-1", MetadataRequestTopic(U_ID, None), Status.SLOW),
        ("526-1", MetadataRequestTopic(UUID(int=8), None), Status.PASS),
    ],
)
def test_topics_are_the_same_by_name_and_by_id(
    rule: str, asked: MetadataRequestTopic, status: Status
) -> None:
    """In 526-1 u is asked for with v, after it was asked for alone."""
    others = [produce(ms, 1) for ms in (10, 20, 30)]
    for other, name in zip(others, ("t", "u", "v"), strict=True):
        other.tried = {(name, 0): other.tried[PLACE]}
    t, u, v = (MetadataRequestTopic(name=name) for name in "tuv")
    at_first = renewed(5, u), renewed(15, v, asked), renewed(25, v, asked)
    seen = [produce(0, 1), *at_first, *others, renewed(5000, t, v, asked)]
    starts, names = BY_ID[rule].starts, {U_ID: "u", UUID(int=8): "w"}
    last = -1 if rule == "526-1" else None
    judged = Trace(Role.PRODUCER, PLACE, seen[:last], [], 0, 1.0, starts, names=names)
    assert BY_ID[rule]().judge(judged).status is status
