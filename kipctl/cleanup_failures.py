"""What a command could not clear away: it is told after the result, and never in its place."""

from typing import ClassVar

from kipctl.errors import KipctlError


class CleanupFailures:
    """What is left since a command began, each with what is to be done about it."""

    errors: ClassVar[list[KipctlError]] = []

    @classmethod
    def note(cls, error: KipctlError) -> None:
        """Keep it until the command's result, or its own error, is told."""
        cls.errors.append(error)
