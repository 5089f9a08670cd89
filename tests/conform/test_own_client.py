"""kipctl's own clients do what the rules ask, in a simulated world."""

import pytest
from campaigns import as_many, campaign, chance
from conform_faults import FAULTS, Fault
from simulated_conform import played

from kipctl.conform.rule import Rule
from kipctl.conform.rules import BY_ID, RULES
from kipctl.conform.trace import API_OF
from kipctl.conform.verdict import Role, Status


@pytest.mark.parametrize("role", API_OF)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_kipctl_passes_every_rule_that_applies(rule: type[Rule], role: Role) -> None:
    if role not in rule.least:
        return
    trace = played(rule, role)
    judged = rule().judged(trace)
    assert judged.status is Status.PASS, (judged.seen, trace.evidence())


def test_each_rule_has_a_fault_of_its_own() -> None:
    assert [fault.rule for fault in FAULTS] == [rule.id for rule in RULES]


@campaign
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.put.__name__)
def test_a_fault_fails_its_own_rule_and_no_other(fault: Fault) -> None:
    found = {}
    others = [
        r for r in RULES if r.id not in {fault.rule, *fault.implied} and fault.role in r.least
    ]
    chosen = chance(fault.rule).sample(others, as_many(1, len(others)))
    for rule in (BY_ID[fault.rule], *chosen):
        with pytest.MonkeyPatch.context() as patch:
            fault.put(patch)
            found[rule.id] = rule().judged(played(rule, fault.role)).status
    assert found.pop(fault.rule) is fault.status
    assert Status.FAIL not in found.values(), found
