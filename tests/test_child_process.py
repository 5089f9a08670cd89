"""A child process: what it sends, how it ends, and Ctrl-C before it can take care of that."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from contextlib import closing
from multiprocessing.connection import Connection

import pytest

from kipctl.child_process import ChildDiedError, ChildProcess
from kipctl.errors import UsageError
from kipctl.signals import ENDING

HIT_BY_SIGNALS = "A process that is hit by signals while it imports"

if multiprocessing.current_process().name == HIT_BY_SIGNALS:
    for each in ENDING:
        signal.raise_signal(each)


def answer(pipe: Connection) -> str:
    pipe.send("begun")
    return "done"


def refuse(pipe: Connection) -> None:
    pipe.send("begun")
    raise UsageError("No.", "Ask for less.")


def fail(pipe: Connection) -> None:
    raise ZeroDivisionError("a fault")


def kill_itself(pipe: Connection) -> None:
    pipe.send("begun")
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for_word(pipe: Connection) -> object:
    pipe.send("begun")
    return pipe.recv()


def started(work: Callable[[Connection], object], name: str = "The child") -> ChildProcess:
    return ChildProcess(name, work, start_timeout_s=60)


@pytest.mark.parametrize("name", ["The child", HIT_BY_SIGNALS])
def test_its_start_and_its_answer_are_received(name: str) -> None:
    with closing(started(answer, name)) as child:
        assert child.started == "begun"
        assert child.receive() == "done"
        # Signals that were held back at its start arrive here again.
        assert not signal.pthread_sigmask(signal.SIG_BLOCK, []) & set(ENDING)
    assert multiprocessing.active_children() == []


def test_it_is_asked_to_stop() -> None:
    with closing(started(wait_for_word)) as child:
        assert not child.has_sent(0)
        with pytest.raises(ChildDiedError, match="within 0 s"):  # it is not waited for
            child.receive(0)
        child.stop()
        assert child.receive() == "stop"


def test_its_errors_are_raised_here() -> None:
    with closing(started(refuse)) as child, pytest.raises(UsageError) as refused:
        child.receive()
    assert refused.value.next_step == "Ask for less."


def test_a_fault_in_it_is_raised_with_its_traceback() -> None:
    with pytest.raises(ChildDiedError, match=r"(?s)The child failed:\nTrace.*a fault"):
        started(fail)
    assert multiprocessing.active_children() == []


def test_one_that_is_killed_has_no_answer() -> None:
    with closing(started(kill_itself)) as child:
        with pytest.raises(ChildDiedError, match=r"ended early \(exit code -9\)"):
            child.receive()
        child.stop()
