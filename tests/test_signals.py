"""Signals to end, noted: nothing is cut off, and afterwards they do what they did before."""

import os
import signal
from collections.abc import Iterator

import pytest

from kipctl.signals import Received, as_keyboard_interrupts, cut_in_order, noted_signals

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_noted_and_told_of_each_time(number: signal.Signals) -> None:
    before = [signal.getsignal(signum) for signum in SIGNALS]
    with noted_signals() as has_come:
        assert not has_come(0)
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
        assert has_come(60)
        assert has_come(0)
    assert [signal.getsignal(signum) for signum in SIGNALS] == before


def test_one_that_comes_before_it_is_waited_for_is_not_lost() -> None:
    with noted_signals() as has_come:
        for _ in range(100_000):  # more than the pipe holds
            signal.raise_signal(signal.SIGTERM)
        assert has_come(0)


def test_the_second_one_raises_if_it_is_to() -> None:
    with noted_signals(then_raises=True) as has_come:
        signal.raise_signal(signal.SIGTERM)
        assert has_come(0)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.fixture
def ignored() -> Iterator[signal.Signals]:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield signal.SIGHUP
    signal.signal(signal.SIGHUP, before)


def test_what_is_ignored_stays_ignored(ignored: signal.Signals) -> None:
    with noted_signals() as has_come:
        os.kill(os.getpid(), ignored)
        assert not has_come(0)
    with as_keyboard_interrupts():
        signal.raise_signal(ignored)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_to_end_is_as_ctrl_c_and_which_it_was_is_known(number: signal.Signals) -> None:
    Received.first = None
    with pytest.raises(KeyboardInterrupt), as_keyboard_interrupts():
        signal.raise_signal(number)
    assert Received.first == number


def signals_at(moments: str) -> str:
    """What a signal does at each moment: it raises (r) or is noted (n); `|`: the load has ended."""
    did = ""
    with cut_in_order() as cut:
        for moment in moments:
            if moment == "|":
                cut.put_off()
                continue
            noted_before = cut.again
            try:
                signal.raise_signal(signal.SIGTERM)
                did += "n" if cut.again and not noted_before else "-"
            except KeyboardInterrupt:
                did += "r"
    return did


@pytest.mark.parametrize(
    ("moments", "did"),
    [
        ("s", "r"),  # the load is cut off
        ("ss", "rn"),  # what is under way is not waited for
        ("sss", "rnr"),  # nor is the record written
        ("s|s", "rn"),
        ("ss|s", "rnr"),
        ("|s", "n"),  # it had ended by itself: the record is written first
        ("|ss", "nr"),
    ],
)
def test_the_first_cuts_a_load_off_and_the_next_is_noted(moments: str, did: str) -> None:
    before = [signal.getsignal(signum) for signum in SIGNALS]
    assert signals_at(moments) == did
    assert [signal.getsignal(signum) for signum in SIGNALS] == before
