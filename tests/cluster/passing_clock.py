"""A clock that goes on when somebody sleeps: no test waits, and none depends on the machine."""

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
def passing_clock() -> Iterator[PassingClock]:
    """In the block it is the clock of this process. Threads wait for one another as ever."""
    from kipctl.changes.execution import batch_execution, plan_execution

    clock = PassingClock()

    def execution(*given: Any, **more: Any) -> batch_execution.Execution:
        return batch_execution.Execution(*given, began=clock.monotonic(), **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.monotonic", clock.monotonic)
        patch.setattr("time.sleep", clock.sleep)
        # These two have taken the other clock as a default already.
        patch.setattr(plan_execution, "Execution", execution)
        tracker = partial(batch_execution.CopyTracker, clock=clock.monotonic)
        patch.setattr(batch_execution, "CopyTracker", tracker)
        yield clock
