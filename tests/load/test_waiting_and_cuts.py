"""When an end-to-end run has read enough, what Ctrl-C leaves of a load, and actions that failed."""

import threading
from dataclasses import dataclass, field, replace

import pytest
from electing_broker import ElectingCluster, partition
from trace_rows import table

from kipctl.cli.commands.perf_results import raise_for_run
from kipctl.cli.options import RunOptions
from kipctl.errors import InterruptedRunError, PartlyDoneError
from kipctl.load.actions import parse_action
from kipctl.load.e2e import ProducerWithConsumer
from kipctl.load.execute import (
    Listeners,
    PlannedActions,
    await_settled_leaders,
    execute,
    execute_load,
    report_rate,
)
from kipctl.load.plan import RunPlan
from kipctl.load.produce import PerfPlan, _intervals
from kipctl.load.read_to_end import WrittenTo, await_offsets, ends_of
from kipctl.probe.produce.run import ProduceSpec
from kipctl.probe.schedule import Schedule
from kipctl.signals import Cut
from kipctl.transport.access import Access
from kipctl.transport.request import Cluster

LONG_S = 60.0


SENT_US = 1000


def read(partition, next_offset, records=1, time_us=SENT_US):
    return {
        "partition": partition,
        "next_offset": next_offset,
        "records": records,
        "time_us": time_us,
    }


def to(end):
    return WrittenTo(end, SENT_US, 2 * SENT_US)


@dataclass
class Reader:
    """A consumer that has read more each time it is looked at; at last it is done, or stalls."""

    steps: list
    is_done_at_last: bool = False
    looks: int = 0

    def new_rows(self, dataset):
        self.looks += 1
        step = self.steps.pop(0) if self.steps else ()
        return table(dataset, *step)

    def is_done_by(self, time_us):
        return self.is_done_at_last and not self.steps


@pytest.mark.parametrize(
    ("steps", "ends", "looks"),
    [
        pytest.param(
            [[read(0, 5)], [read(0, 10), read(1, 3)], [read(1, 7)], [read(1, 8)]],
            {0: to(10), 1: to(7)},
            3,
            id="each partition has an end",
        ),
        pytest.param(
            [[read(0, 10, records=0)], [read(0, 10)]],
            {0: to(10)},
            2,
            id="answers without records end nothing",
        ),
        pytest.param(
            [[read(0, 100, time_us=SENT_US - 1)], [read(0, 10)]],
            {0: to(10)},
            2,
            id="nor does what was read before the last batch was sent",
        ),
    ],
)
def test_it_waits_until_every_partition_was_read_to_its_end(steps, ends, looks):
    reader = Reader(list(steps))
    assert await_offsets(reader, ends, LONG_S)
    assert reader.looks == looks


def test_it_gives_up_when_nothing_comes_any_more_and_ends_with_the_reader():
    reader = Reader([[read(0, 5)]])
    await_offsets(reader, {0: to(10)}, quiet_s=0.05)
    assert reader.looks > 1
    reader = Reader([[read(0, 5)]], is_done_at_last=True)
    await_offsets(reader, {0: to(10)}, LONG_S)
    assert reader.looks == 1


@pytest.mark.parametrize(
    ("rate", "said"),
    [
        (-1, []),
        (3, []),
        (30_000, []),
        (5e6, []),
        (
            1.5e6,
            ["Records are due every 667 ns, so it is 1,499,250 records/s instead of 1,500,000."],
        ),
    ],
)
def test_a_rate_that_whole_nanoseconds_do_not_make_is_said(rate, said):
    messages = []
    report_rate(Schedule(0, 10, rate), messages.append)
    assert messages == said


def test_the_end_is_that_of_what_was_acknowledged():
    batches = table(
        "batches",
        {"partition": 0, "base_offset": 10, "records": 5},
        {"partition": 0, "base_offset": 3, "records": 2},
        {"partition": 1, "base_offset": 7, "records": 1},
        {"partition": 1, "base_offset": 90, "records": 1, "error": 6},
        {"partition": 2, "base_offset": -1, "records": 4},
    )
    assert {partition: log.end for partition, log in ends_of(batches).items()} == {0: 15, 1: 8}


def test_what_was_truncated_is_not_waited_for():
    batches = table(
        "batches",
        {"base_offset": 0, "records": 100, "sent_us": 10, "acked_us": 20},
        {"base_offset": 52, "records": 8, "sent_us": 30, "acked_us": 35},
        {"base_offset": 50, "records": 2, "sent_us": 29, "acked_us": 36},
    )
    assert ends_of(batches) == {0: WrittenTo(60, 29, 36)}


@dataclass(frozen=True)
class Done:
    what: str
    stopped: bool = False


@dataclass
class Load:
    """A load that is cut off while it is waited for, and again while it settles."""

    cuts: list
    is_done: bool = True
    schedule: Schedule = field(default_factory=lambda: Schedule(0, 10, 5))
    calls: list = field(default_factory=list)

    def outcome(self):
        self.calls.append("outcome")
        if self.cuts:
            raise self.cuts.pop(0)
        return Done("all")

    def is_done_by(self, time_us):
        return self.is_done

    def stop(self):
        self.calls.append("stop")

    def give_up(self):
        self.calls.append("give up")
        return Done("what was settled")


@pytest.mark.parametrize(
    ("cuts", "interrupted", "calls"),
    [
        ([], "", ["outcome"]),
        ([KeyboardInterrupt()], "", ["outcome", "stop", "outcome"]),
        (
            [InterruptedRunError("Interrupted. Half is moved.")],
            "Half is moved.",
            ["outcome", "stop", "outcome"],
        ),
    ],
)
def test_ctrl_c_stops_the_load_and_keeps_what_it_came_to(cuts, interrupted, calls):
    load = Load(list(cuts))
    executed = execute_load(load, load.schedule, PlannedActions(None, "t", RunPlan()))
    assert (executed.outcome, executed.cut_off) == (Done("all"), bool(cuts))
    assert (executed.interrupted, load.calls) == (interrupted, calls)


@pytest.mark.parametrize(
    ("cuts", "again", "outcome", "calls"),
    [
        (1, False, Done("all", True), ["outcome", "stop", "outcome"]),
        (2, False, Done("what was settled", True), ["outcome", "stop", "outcome", "give up"]),
        # One that comes before it is waited for.
        (1, True, Done("what was settled", True), ["outcome", "stop", "give up"]),
    ],
)
def test_a_second_ctrl_c_does_not_wait_for_what_is_under_way(cuts, again, outcome, calls):
    cut = Cut()
    cut.again = again
    load = Load([KeyboardInterrupt() for _ in range(cuts)], is_done=not again)
    executed = execute(load, PlannedActions(None, "t", RunPlan()), Listeners(), cut)
    assert (executed.outcome, executed.cut_off) == (outcome, True)
    assert load.calls == calls


@dataclass
class Worker:
    """A probe that is done after it was looked at so often, or when it was stopped."""

    looks: int
    schedule: Schedule = field(default_factory=lambda: Schedule(0, 10, 5))
    is_stopped: bool = False
    parts: tuple = ()
    new_rows = give_up = None

    def is_done_by(self, time_us):
        self.looks -= 1
        return self.looks < 0 or self.is_stopped

    def stop(self):
        self.is_stopped = True

    def outcome(self):
        return Done("all", self.is_stopped)


@pytest.mark.parametrize(("writer", "reader", "stopped"), [(3, 99, False), (99, 3, True)])
def test_nothing_is_produced_for_a_consumer_that_is_gone(writer, reader, stopped):
    load = ProducerWithConsumer(Worker(writer), Worker(reader))
    assert load.outcome() == Done("all", stopped)


def test_an_action_that_failed_ends_the_command_as_partly_done():
    rotate = parse_action("rotate")
    raise_for_run({"actions": [{"error": None}]}, rotate, RunOptions())
    with pytest.raises(PartlyDoneError, match="1 of 2 actions failed: no"):
        raise_for_run({"actions": [{"error": None}, {"error": "no"}]}, rotate, RunOptions())


def test_no_action_of_those_asked_for_is_partly_done_too():
    raise_for_run({"actions": []}, None, RunOptions())
    with pytest.raises(PartlyDoneError, match="--during restart:2: nothing happened before"):
        raise_for_run({"actions": []}, parse_action("restart:2"), RunOptions())


class Producer:
    """Its batches, some at a time."""

    schedule = Schedule(0, 1000, 1000)

    def __init__(self, *pieces):
        self.pieces = [table("batches", *piece) for piece in pieces]

    def new_rows(self, dataset):
        return self.pieces.pop(0) if self.pieces else table(dataset)


def test_an_interval_has_all_new_batches_though_they_come_in_pieces():
    told, over = [], threading.Event()

    def interval(line):
        told.append(line)
        over.set()

    batch = {"records": 2, "seq_stride": 1, "acked_us": 5000}
    plan = PerfPlan(probe=ProduceSpec(Access("h:1"), "t", 1000), reporting_interval_s=0.01)
    with _intervals(Producer([batch, batch], [batch]), plan, Listeners(interval=interval)):
        assert over.wait(60)
    assert [line.split(",")[0] for line in told] == ["6 records sent"]


def lagging():
    """A partition of which a replica is behind."""
    return ElectingCluster.of(partition("t", 0, (1, 2), leader=1, isr=(1,)))


ROTATING = RunPlan(during=parse_action("rotate"))


def test_a_run_that_moves_leaders_begins_when_those_of_before_have_settled() -> None:
    told: list[str] = []
    brokers = lagging()

    def catch_up() -> None:
        if brokers.metadata_asked == 6:
            (behind,) = brokers.partitions
            brokers.partitions[behind] = replace(brokers.partitions[behind], isr=(1, 2))

    brokers.before_metadata = catch_up
    with brokers.start() as broker, Cluster(broker.address) as cluster:
        await_settled_leaders(cluster, "t", ROTATING, told.append)
    assert brokers.metadata_asked > 6
    assert told == []


def test_a_topic_that_does_not_settle_is_told_of_and_measured_as_it_is() -> None:
    told: list[str] = []
    with lagging().start() as broker, Cluster(broker.address) as cluster:
        await_settled_leaders(cluster, "t", ROTATING, told.append, timeout_s=0.2)
    assert told == [
        "The run begins while leaders may still move: Topic 't' is not in sync on all brokers "
        "after 0.2 s."
    ]


def test_where_nothing_is_done_to_leaders_nobody_waits_for_them() -> None:
    brokers = lagging()
    with brokers.start() as broker, Cluster(broker.address) as cluster:
        asked = brokers.metadata_asked
        await_settled_leaders(cluster, "t", RunPlan(), pytest.fail)
    assert brokers.metadata_asked == asked
