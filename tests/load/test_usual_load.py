"""How large a load is, and when something happens within it, where nobody says."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kipctl.cli.options import Load, LoadOptions
from kipctl.errors import UsageError
from kipctl.load.actions import parse_action
from kipctl.load.consume import ConsumePlan
from kipctl.load.plan import RunPlan
from kipctl.load.produce import PerfPlan
from kipctl.probe.consume.run import ConsumeSpec
from kipctl.probe.produce.run import ProduceSpec
from kipctl.transport.access import Access


@pytest.mark.parametrize(
    ("records", "warmup", "throughput", "every_s", "count", "load"),
    [
        (None, None, 1000.0, None, 0, Load(30_000, 5_000, 5.0)),
        (None, 0, 1000.0, None, 0, Load(30_000, 0, 5.0)),
        (None, None, -1.0, None, 0, Load(1_000_000, 166_666, 5.0)),
        (None, None, 0.01, None, 0, Load(1, 0, 5.0)),
        (6_000, None, 1500.0, None, 0, Load(6_000, 0, 2.0)),
        (6_000, 100, 1500.0, 1.0, 0, Load(6_000, 100, 1.0)),
        (6_000, None, 1500.0, None, 1, Load(6_000, 0, 2.0)),
        (6_000, None, 1500.0, None, 7, Load(6_000, 0, 0.5)),
        (None, None, 1000.0, None, 3, Load(30_000, 5_000, 5.0)),
    ],
)
def test_what_is_usual(
    records: int | None, warmup: int | None, throughput: float, every_s: Any, count: int, load: Load
) -> None:
    assert LoadOptions(records, throughput, warmup).load(every_s, count) == load


def plan(every_s: float, throughput: float = 1500.0, count: int = 0) -> PerfPlan:
    access = Access("127.0.0.1:1")
    spec = ProduceSpec(access, "t", num_records=6_000, throughput=throughput, record_size=10)
    return PerfPlan(probe=spec, during=parse_action("rotate"), every_s=every_s, count=count)


def test_actions_that_are_due_after_the_load_are_refused_and_how_many_fit_is_said() -> None:
    with pytest.raises(UsageError, match="The load lasts 4 s, and the first rotate is due after 5"):
        plan(5.0)
    with pytest.raises(UsageError) as refused:
        plan(1.0, count=4)
    assert str(refused.value) == (
        "The load lasts 4 s, and --count 4 with one rotate every 1 s takes 4 s: 3 fit.\n"
        "Give --count 3, a shorter --every, or more records."
    )
    assert plan(3.9).every_s == 3.9
    assert plan(1.0, count=3).count == 3
    # Unthrottled nobody knows how long it lasts.
    assert plan(5.0, throughput=-1).every_s == 5.0
    assert plan(1.0, throughput=-1, count=100).count == 100


SPEC = ProduceSpec(Access("h:1"), "t", 10)
READ = ConsumeSpec(Access("h:1"), "t", 10)


@pytest.mark.parametrize(
    ("make", "least"),
    [
        (lambda n: PerfPlan(probe=replace(SPEC, num_records=n)), 1),
        (lambda n: PerfPlan(probe=replace(SPEC, record_size=n)), 1),
        (lambda n: PerfPlan(probe=replace(SPEC, warmup_records=n)), 0),
        (lambda n: PerfPlan(probe=SPEC, partitions=n), 1),
        (lambda n: PerfPlan(probe=SPEC, replication_factor=n), 0),
        (lambda n: PerfPlan(probe=SPEC, count=n), 0),
        (lambda n: ConsumePlan(replace(READ, num_records=n)), 1),
        (lambda n: ConsumePlan(replace(READ, timeout_ms=n)), 1),
        (lambda n: ConsumePlan(replace(READ, offset=n)), -1),
        (lambda n: ConsumePlan(replace(READ, partitions=(7, n))), 0),
    ],
)
def test_each_number_has_a_least_that_is_taken(make: Callable[[int], RunPlan], least: int) -> None:
    make(least)
    with pytest.raises(UsageError, match=f" is {least - 1}"):
        make(least - 1)
