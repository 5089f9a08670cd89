"""Any program under test."""

from collections.abc import Callable
from dataclasses import dataclass

from kipctl.errors import UsageError
from kipctl.experiments.arms.arm import UNHINTED, Arm
from kipctl.load.clients.command import CommandClient, runnable
from kipctl.transport.access import Access


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandArm(Arm):
    """`NAME=COMMAND` (`kipctl.load.clients.command`)."""

    only_produces = True
    sets_own_rate = True

    words: tuple[str, ...]

    def fetched(self, access: Access | None, message: Callable[[str], None]) -> CommandClient:
        """It is there. Raises UsageError for a program that cannot be run, or is not told where."""
        option = f"--arms {self.name.removesuffix(UNHINTED)}"
        for needed in ("{bootstrap}", "{topic}"):
            if not any(needed in word for word in self.words):
                raise UsageError(
                    f"{option}: the command has no {needed}, which differs in each run.",
                    f"Such as {option}='COMMAND {{bootstrap}} {{topic}}'.",
                )
        return CommandClient(runnable(self.words, option))
