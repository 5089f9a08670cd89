"""Runs that last until they have met what is done to a cluster. Used by tests."""

from dataclasses import replace
from typing import Any

from kipctl.load.execute import PlannedActions
from kipctl.probe.schedule import Schedule
from kipctl.trace.clock import now_us
from kipctl.trace.columns import BATCH, REDIRECT

_LOOK_US = 20_000
_USUAL = 2
MANY = 100_000
"""Records of such a run: more than it sends before its end."""


class UntilMet(PlannedActions):
    """As often as the plan says, or twice: each is met by the producer before the next begins, and
    the last one ends the load. A machine that stands still meanwhile makes it longer.
    """

    def carry_out(self, load: Any, schedule: Schedule) -> bool:
        """See Actions; the load is one of kipctl's own, whose rows can be read."""
        wanted = self.plan.count or _USUAL
        self.plan = replace(self.plan, count=0)

        def are_met() -> bool:
            if self.performed:
                self.await_met(load)
            return len(self.performed) == wanted

        self._enough = are_met
        return super().carry_out(load, schedule)

    def await_met(self, load: Any) -> None:
        """Wait until a batch that an old leader refused since the last one began has come to the
        new one."""
        await_row(load, "redirects", REDIRECT["error_us"], self.performed[-1].called_us)


class UntilOver(UntilMet):
    """The same for restarts: of a broker that is gone a client may hear by its connection alone."""

    def await_met(self, load: Any) -> None:
        """Wait until a batch has come to its leader since the last one was over."""
        await_row(load, "batches", BATCH["acked_us"], now_us())


def await_row(load: Any, dataset: str, column: int, from_us: int) -> None:
    """Wait for a row of the producer of that moment or later."""
    while not (load.new_rows(dataset)[:, column] >= from_us).any():
        assert not load.is_done_by(now_us() + _LOOK_US), f"no such row of {dataset}"
