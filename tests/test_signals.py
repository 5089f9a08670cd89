"""Signals to end, noted: nothing is cut off, and afterwards they do what they did before."""

import os
import signal

import pytest

from kipctl.signals import Received, as_keyboard_interrupts, first_put_off, noted_signals

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_noted_and_told_of_each_time(number: signal.Signals) -> None:
    before = [signal.getsignal(one) for one in SIGNALS]
    with noted_signals() as has_come:
        assert not has_come(0)
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
        assert has_come(60)
        assert has_come(0)
    assert [signal.getsignal(one) for one in SIGNALS] == before


def test_one_that_comes_before_it_is_waited_for_is_not_lost() -> None:
    with noted_signals() as has_come:
        for _ in range(100_000):  # more than the pipe holds
            signal.raise_signal(signal.SIGTERM)
        assert has_come(0)


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with noted_signals() as has_come:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not has_come(0)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_to_end_is_as_ctrl_c_and_which_it_was_is_known(number: signal.Signals) -> None:
    Received.first = None
    with pytest.raises(KeyboardInterrupt), as_keyboard_interrupts():
        signal.raise_signal(number)
    assert Received.first == number


def test_the_first_is_put_off_and_the_second_is_as_ctrl_c() -> None:
    before = [signal.getsignal(one) for one in SIGNALS]
    with first_put_off():
        signal.raise_signal(signal.SIGTERM)
    with first_put_off():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGHUP)
    assert [signal.getsignal(one) for one in SIGNALS] == before


def test_one_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with as_keyboard_interrupts():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
