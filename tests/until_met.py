"""Runs that last until they have met what is done to a cluster. Used by tests."""

from dataclasses import replace
from typing import Any

from kipctl.load.execute import PlannedActions
from kipctl.probe.schedule import Schedule
from kipctl.trace.clock import now_us
from kipctl.trace.columns import REDIRECT

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
                await_met(load, self.performed[-1].called_us)
            return len(self.performed) == wanted

        self._enough = are_met
        return super().carry_out(load, schedule)


def await_met(load: Any, called_us: int) -> None:
    """Wait until a batch that an old leader refused after that moment has come to the new one."""
    while not (load.new_rows("redirects")[:, REDIRECT["error_us"]] >= called_us).any():
        assert not load.is_done_by(now_us() + _LOOK_US), "no move was met"
