"""What the network of a client does by itself: connecting, and how late its loop is."""

import socket
from collections.abc import Callable

import pytest

from kipctl.probe.broker_link import BrokerLink
from kipctl.probe.config import ClientConfig
from kipctl.probe.leadership import Node
from kipctl.probe.metadata_refresh import NEVER_US
from kipctl.probe.network import Network
from kipctl.probe.produce.config import ProducerConfig
from kipctl.protocol.api import ApiKey
from kipctl.transport.loop_connection import ConnectionLostError, InFlight, LoopConnection

_AGES_S = 1e6
START_US = 50_000_000_000
"""Of a clock that runs since the machine was started."""


class Unreachable:
    """Sockets with a clock that goes on as far as polls wait, and no way to any host."""

    def __init__(self) -> None:
        self.now = START_US
        self.tried: list[int] = []
        self.handle: Callable[[], None] = lambda: None

    def now_us(self) -> int:
        return self.now

    def connect(
        self, host: str, port: int, number: int, address: int = 0, receive_buffer_bytes: int = -1
    ) -> LoopConnection | None:
        self.tried.append(address)
        raise ConnectionLostError("no route")

    def watch(self, connection: LoopConnection, events: int) -> None:
        """There is none."""

    def poll(self, timeout_s: float) -> list[tuple[int, int]]:
        if timeout_s < _AGES_S:
            self.now += round(timeout_s * 1e6)
            self.handle()
        return []

    def close(self) -> None:
        """Nothing is open."""


def made() -> tuple[Unreachable, Network[BrokerLink]]:
    sockets = Unreachable()
    config: ClientConfig = ProducerConfig()
    lost: list[BrokerLink] = []
    network: Network[BrokerLink] = Network(
        sockets,
        lambda node: BrokerLink(node, config, sockets),
        lambda *_: None,
        lambda link, *_: lost.append(link),
    )
    return sockets, network


def test_each_attempt_goes_to_the_next_address_later_and_later_also_if_it_fails_at_once() -> None:
    sockets, network = made()
    link = network.link(Node(1, "host", 9092))
    tried_us = []
    while len(tried_us) < 6:
        network.update_timers(sockets.now)
        before = len(sockets.tried)
        network.ensure_connected(link)
        if len(sockets.tried) > before:
            tried_us.append(sockets.now)
        network.poll(min(sockets.now + 1_000, network.wake_us))
    assert sockets.tried == [0, 1, 2, 3, 4, 5]
    assert link.has_failed
    assert network.are_unreachable([link.node])
    assert not network.are_unreachable([link.node, network.link(Node(2, "host", 9093)).node])
    assert tried_us[5] - tried_us[4] > 4 * (tried_us[1] - tried_us[0])


@pytest.mark.parametrize(
    ("until_us", "handled_us", "lags"),
    [
        (START_US + 1_000, 0, [0]),  # woken when it was to be
        (START_US + 1_000, 700, [700]),  # what came took so long
        (START_US - 5_000, 30, [30]),  # that moment had passed before: it was promised to nobody
        (0, 30, [30]),  # at once
        (NEVER_US, 0, []),
    ],
)
def test_the_loop_is_late_by_what_it_does_after_the_moment_it_waited_for(
    until_us: int, handled_us: int, lags: list[int]
) -> None:
    sockets, network = made()

    def handle() -> None:
        sockets.now += handled_us

    sockets.handle = handle
    network.begin_run()
    network.poll(until_us)
    network.update_timers(sockets.now)
    assert list(network.lags_us) == lags


def test_how_late_it_was_before_the_run_does_not_count() -> None:
    sockets, network = made()
    network.poll(START_US + 100)
    sockets.now += 3_000_000
    network.update_timers(sockets.now)
    network.poll(sockets.now + 100)
    sockets.now += 3_000_000
    network.begin_run()
    network.update_timers(sockets.now)
    assert not network.lags_us


@pytest.mark.parametrize(
    ("api", "since"),
    [(ApiKey.PRODUCE, 6), (ApiKey.FETCH, 8), (ApiKey.LIST_OFFSETS, 3), (ApiKey.METADATA, 6)],
)
def test_a_broker_is_left_alone_from_the_version_on_whose_answers_come_at_once(
    api: ApiKey, since: int
) -> None:
    """KIP-219; Java's `AbstractResponse.shouldClientThrottle`. Before it the broker has waited."""
    for version, waits in ((since - 1, False), (since, True)):
        sockets, network = made()
        link = network.link(Node(1, "host", 9092))
        network.throttle(link, InFlight(1, api, version, 0, 0, 0, None), 50, sockets.now)
        assert link.is_throttled is waits
        assert (network.throttle_ms, network.wake_us < NEVER_US) == (50 * waits, waits)


class Renewing(LoopConnection):
    """A connection whose session is to be renewed; a login lasts until the test ends it."""

    is_logging_in = False

    def __init__(self, connected: socket.socket, has_time: bool) -> None:
        super().__init__(connected, 1)
        self.connected, self._has_time = True, has_time

    def keep_authenticated(self, now_us: int, others_log_in: bool = False) -> None:
        self.is_logging_in = self.is_logging_in or not (others_log_in and self._has_time)


@pytest.mark.parametrize(
    ("has_time", "rounds"),
    [
        # Which of them log in, round by round: those of the round before are done then.
        ((True, True, True), [{0}, {1}, {2}]),
        ((True, False, True), [{0, 1}, {2}]),
        ((False, False, False), [{0, 1, 2}]),
    ],
)
def test_connections_log_in_one_after_the_other_if_there_is_time(
    has_time: tuple[bool, ...], rounds: list[set[int]]
) -> None:
    _, network = made()
    renewing: dict[int, Renewing] = {}
    for id, one_has_time in enumerate(has_time):
        ours, theirs = socket.socketpair()
        theirs.close()
        link = network.link(Node(id, "host", 9092))
        link.connection = renewing[id] = Renewing(ours, one_has_time)
        link.ready = True
    for expected in rounds:
        network.keep_authenticated()
        assert {id for id, connection in renewing.items() if connection.is_logging_in} == expected
        for id in expected:  # it is done: its session lasts
            network.link(Node(id, "host", 9092)).disconnect()
            del renewing[id]
    network.close()


def test_how_late_it_was_is_kept_to_three_digits_so_that_days_take_no_memory() -> None:
    sockets, network = made()
    network.begin_run()
    for late_us in (999, 1000, 1009, 1010, 123_456, 123_999):
        network.poll(sockets.now + 10)
        sockets.now += late_us
        network.update_timers(sockets.now)
    assert network.lags_us == {999: 1, 1000: 2, 1010: 1, 123_000: 2}
