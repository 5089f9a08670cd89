"""What a roll is carried out with: as every change, and which nodes, and how they are restarted."""

import sys
from collections.abc import Collection
from dataclasses import dataclass, field, fields
from typing import Any, TextIO

from kipctl.changes.context import ChangeContext
from kipctl.changes.ui import ChangeUi
from kipctl.guard.conditions import Guard
from kipctl.roll.plan import RollPlan
from kipctl.roll.record import RollOptions, RollRecord


class RollUi(ChangeUi):
    """Says nothing and agrees to everything; a terminal's is `kipctl.cli.commands.roll_ui`."""

    def roll_planned(self, plan: RollPlan, guard: Guard) -> None:
        """The result of a dry run, with what the guard sees now."""

    def roll_left(self, record: RollRecord) -> None:
        """The result of a dry run of a roll that is gone on with."""

    def roll_question(self, plan: RollPlan) -> None:
        """What is about to be confirmed."""

    def rolled(self, record: RollRecord, guard: Guard) -> None:
        """The roll has ended, or was stopped, as its record says; and what the guard saw."""

    def abandoned(self, record: RollRecord, has_moved: bool) -> None:
        """It was given up; `has_moved` says whether leaders that it moved are not back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollContext(ChangeContext):
    """Of one roll: the brokers (() for all, None for none), whether controllers follow, and how.

    Of a roll that is gone on with only what is `given` in `how`, by the names of its fields and its
    guard's, takes the place of what it was begun with. `was_restarted` is what the operator says of
    a restart that cannot be seen. On `stdin` the operator says that a restart is done.
    """

    ui: RollUi = field(default_factory=RollUi)
    how: RollOptions
    brokers: tuple[int, ...] | None = ()
    controllers: bool = False
    given: Collection[str] = ()
    was_restarted: bool | None = None
    stdin: TextIO = field(default_factory=lambda: sys.stdin)


def roll_context(context: ChangeContext, ui: RollUi, how: RollOptions, **extra: Any) -> RollContext:
    """The context of a change as that of a roll; `extra` are further fields."""
    shared = {attribute.name: getattr(context, attribute.name) for attribute in fields(context)}
    return RollContext(**shared | {"ui": ui, "how": how} | extra)
