"""Any program under test."""

from collections.abc import Callable
from dataclasses import dataclass

from kipctl.experiments.arms.arm import Arm
from kipctl.load.clients.command import CommandClient
from kipctl.transport.access import Access


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandArm(Arm):
    """`NAME=COMMAND` (`kipctl.load.clients.command`)."""

    only_produces = True
    sets_own_rate = True

    words: tuple[str, ...]

    def fetched(self, access: Access | None, message: Callable[[str], None]) -> CommandClient:
        """It is there."""
        return CommandClient(self.words)
