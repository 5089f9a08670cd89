"""What a roll knows of min.insync.replicas when an answer about it is cut off, and of topics that
it is not shown."""

from collections.abc import Iterator

import pytest
from reassigning import Reassigning, reassigning
from scripted_broker import ALICE, HANG_UP, VERSIONS_WITH_LOGIN, Asked, ScriptedBroker, with_login

from kipctl.cluster.snapshot import PartitionId
from kipctl.errors import RefusedError
from kipctl.guard.conditions import Guard, Verdict, parse_guard
from kipctl.guard.exporters import Exporters
from kipctl.guard.monitor import GuardMonitor
from kipctl.protocol.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kipctl.protocol.message import Response
from kipctl.roll.facts import ask_facts
from kipctl.roll.plan import Effect, plan_roll, require_safe
from kipctl.transport.access import Access
from kipctl.transport.request import Cluster

T0 = PartitionId("t", 0)
NOT_TOLD = DescribeConfigsResponse()


class Configs:
    """A cluster of one partition with min.insync.replicas 2, whose next answers stumble so."""

    def __init__(self, fake: Reassigning, broker: ScriptedBroker) -> None:
        self.fake, self.address = fake, broker.address
        self.stumbles: list[bytes | Response] = []
        fake.min_insync = {"t": "2"}
        broker.answers = self.answer

    def answer(self, asked: Asked) -> Response | bytes | None:
        if isinstance(asked.request, DescribeConfigsRequest) and self.stumbles:
            return self.stumbles.pop()
        return self.fake.answer(asked)


@pytest.fixture
def configs() -> Iterator[Configs]:
    with reassigning({T0: (1, 2)}) as running:
        yield Configs(*running)


def test_a_cut_answer_is_asked_for_again(configs: Configs) -> None:
    configs.stumbles = [HANG_UP, HANG_UP]
    with Cluster(configs.address, timeout_s=5) as cluster:
        plan = plan_roll(ask_facts(cluster), [1])
    assert plan.steps[0].effects[Effect.BELOW] == [T0]
    with pytest.raises(RefusedError, match=r"t-0 below min\.insync\.replicas"):
        require_safe(plan, force=False)


def test_a_guard_does_not_keep_what_was_not_known(configs: Configs) -> None:
    configs.stumbles = [NOT_TOLD]
    configs.fake.partitions[T0].isr = (1,)
    with Cluster(configs.address, timeout_s=5) as cluster:
        guard = Guard.of([parse_guard("under-min-isr > 5")], 600, 0)
        guarding = GuardMonitor(cluster, guard, Exporters(), print)
        seen = []
        for _ in range(2):
            guarding.look(None)
            guarding._next = 0.0
            seen.append((guarding.guard.gauges[0].last, guarding.guard.verdict))
    assert seen == [(None, Verdict.PAUSE), (1.0, Verdict.GO)]


@pytest.mark.parametrize(
    ("topics", "bits", "not_known", "refused"),
    [
        (True, 0, "Topics that User:alice may not Describe are not among these.", ""),
        (True, -1, "", ""),  # all bits
        (False, 0, "", "No topic is shown: there is none, or none that User:alice may Describe"),
        (False, -1, "", ""),
    ],
)
def test_what_the_client_may_not_be_shown_is_said_or_refuses_the_roll(
    topics: bool, bits: int, not_known: str, refused: str
) -> None:
    with reassigning({T0: (1, 2)} if topics else {}) as (fake, broker):
        fake.brokers = (1, 2)
        broker.answers = with_login(fake.answer, bits)
        broker.versions = {**VERSIONS_WITH_LOGIN, **broker.versions}
        with Cluster(Access(broker.address, ALICE), timeout_s=5) as cluster:
            plan = plan_roll(ask_facts(cluster))
    assert [text for text in plan.not_known if "Describe" in text and "API" not in text] == (
        [not_known] if not_known else []
    )
    assert plan.refused == ((refused,) if refused else ())
