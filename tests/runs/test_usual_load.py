"""How large a load is, and when something happens within it, where nobody says."""

from typing import Any

import pytest

from kipctl.cli.environment import Environment
from kipctl.cli.options import Load, LoadOptions, RunOptions
from kipctl.durations import Duration
from kipctl.errors import UsageError
from kipctl.probe.produce.run import ProduceSpec
from kipctl.runs.actions import parse_action
from kipctl.runs.produce import PerfPlan
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


@pytest.mark.parametrize("options", [RunOptions(count=3), RunOptions(every=Duration(2))])
def test_actions_without_during_are_refused(options: RunOptions) -> None:
    with pytest.raises(UsageError, match="does nothing without --during"):
        options.of_plan(5.0, Environment())
