"""kipctl's own clients do what the rules ask, in a simulated world."""

from dataclasses import replace
from typing import Any

import pytest
from campaigns import as_many, campaign, chance
from conform_faults import FAULTS, Fault
from simulated_conform import played, played_stage

from kipctl.conform.cluster import Attempt
from kipctl.conform.rule import Rule, Stage
from kipctl.conform.rules import BY_ID, RULES
from kipctl.conform.trace import API_OF
from kipctl.conform.verdict import Role, Status
from kipctl.probe.consume import requests
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.fetch import FetchPartition


@pytest.mark.parametrize("role", API_OF)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_kipctl_passes_every_rule_that_applies(rule: type[Rule], role: Role) -> None:
    if role not in rule.least:
        return
    stage = played_stage(rule, role)
    trace = stage.trace(1.0)
    judged = rule().judged(trace)
    assert judged.status is Status.PASS, (judged.seen, trace.evidence(judged.ms))
    assert not_as_kafka(stage) == []


@pytest.mark.parametrize("id", ["951-1", "951-15", "951-16", "951-17", "951-20", "392-9"])
def test_a_reader_that_says_no_leader_epoch_is_fenced_by_no_rule(
    id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without(**fields: Any) -> FetchPartition:
        return replace(FetchPartition(**fields), current_leader_epoch=-1)

    monkeypatch.setattr(requests, "FetchPartition", without)
    stage = played_stage(BY_ID[id], Role.CONSUMER)
    expected = Status.NOT_APPLICABLE if id == "951-16" else Status.PASS
    judged = BY_ID[id]().judged(stage.trace(1.0))
    assert judged.status is expected, judged
    assert not_as_kafka(stage) == []


def not_as_kafka(stage: Stage) -> list[Attempt]:
    """What was fenced, or refused otherwise, unlike Kafka does it: a broker that holds a partition
    asks Partition.checkCurrentLeaderEpoch first, which takes any epoch of who says none. And
    readers whose sessions were not kept (KIP-227)."""
    fetches = [e for e in stage.cluster.exchanges if e.api == ApiKey.FETCH]
    assert not fetches or any(e.request.session_epoch > 0 for e in fetches)
    wrong = []
    for tried in (tried for e in fetches for tried in e.tried.values()):
        is_older = tried.hint is not None and -1 < tried.epoch < tried.hint.epoch
        is_held = stage.cluster.holds(tried.broker, tried.place)
        is_fenced = tried.error == ErrorCode.FENCED_LEADER_EPOCH
        if tried.error and is_fenced != (is_held and is_older):
            wrong.append(tried)
    return wrong


def test_each_rule_has_a_fault_of_its_own() -> None:
    assert [fault.rule for fault in FAULTS] == [rule.id for rule in RULES]


@campaign
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.put.__name__)
def test_a_fault_fails_its_own_rule_and_no_other(fault: Fault) -> None:
    statuses = {}
    others = [
        r for r in RULES if r.id not in {fault.rule, *fault.implied} and fault.role in r.least
    ]
    chosen = chance(fault.rule).sample(others, as_many(1, len(others)))
    for rule in (BY_ID[fault.rule], *chosen):
        with pytest.MonkeyPatch.context() as patch:
            fault.put(patch)
            statuses[rule.id] = rule().judged(played(rule, fault.role)).status
    assert statuses.pop(fault.rule) is fault.status
    assert Status.FAIL not in statuses.values(), statuses
