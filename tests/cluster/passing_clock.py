"""A clock that goes on when somebody sleeps: no test waits, and none depends on the machine."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest


@dataclass
class PassingClock:
    """Stands for `time.monotonic` and `time.sleep`."""

    now_s: float = field(default_factory=time.monotonic)
    meanwhile: list[tuple[Callable[[], bool], Callable[[], object]]] = field(default_factory=list)
    """What else happens while somebody sleeps, once it is time for it."""

    def monotonic(self) -> float:
        self.now_s += 1e-6  # who only looks at it sees it go on too
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        for event in [event for event in self.meanwhile if event[0]()]:
            self.meanwhile.remove(event)
            event[1]()


@contextmanager
def replaced_time(**functions: Callable[..., Any]) -> Iterator[None]:
    """In the block these stand for the functions of `time` with their names, for this thread and
    those started meanwhile.

    Threads that were there before keep the machine's time. One of them sleeps for a second again
    and again as long as a test of the same process has a Spark session (py4j's FinalizerWorker),
    and would let the test's clock run away.
    """
    others = frozenset(threading.enumerate()) - {threading.current_thread()}

    def for_this_test(ours: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            return (real if threading.current_thread() in others else ours)(*given)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name, function in functions.items():
            patch.setattr(time, name, for_this_test(function, getattr(time, name)))
        yield


@contextmanager
def passing_clock() -> Iterator[PassingClock]:
    """In the block it is the test's clock. Threads wait for one another as ever."""
    from kipctl.changes.execution import batch_execution, plan_execution

    clock = PassingClock()

    def execution(*given: Any, **more: Any) -> batch_execution.Execution:
        return batch_execution.Execution(*given, began=clock.monotonic(), **more)

    with (
        replaced_time(monotonic=clock.monotonic, sleep=clock.sleep),
        pytest.MonkeyPatch.context() as patch,
    ):
        # These two have taken the other clock as a default already.
        patch.setattr(plan_execution, "Execution", execution)
        tracker = partial(batch_execution.CopyTracker, clock=clock.monotonic)
        patch.setattr(batch_execution, "CopyTracker", tracker)
        yield clock
