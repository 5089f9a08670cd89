"""Any program under test."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kipctl.experiments.arms.arm import UNHINTED, Arm
from kipctl.load.clients.command import CommandClient
from kipctl.transport.access import Access


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandArm(Arm):
    """`NAME=COMMAND` (`kipctl.load.clients.command`)."""

    words: tuple[str, ...]

    @property
    def follows_hints(self) -> bool:
        """It gets them: what it makes of them is what is asked."""
        return True

    def reference(self, alike: Sequence[Arm]) -> Arm | None:
        """Its own without hints: two arms may be of the same command."""
        return next((other for other in alike if other.name == self.name + UNHINTED), None)

    def fetched(self, access: Access | None, message: Callable[[str], None]) -> CommandClient:
        """It is there."""
        return CommandClient(self.words)
