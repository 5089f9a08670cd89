"""What a command could not clean up: it is printed after the result, and never in its place."""

from typing import ClassVar

from kipctl.errors import KipctlError


class CleanupFailures:
    """What could not be removed since the command began, each with what to do about it."""

    errors: ClassVar[list[KipctlError]] = []

    @classmethod
    def note(cls, error: KipctlError) -> None:
        """Keep it until the command's result, or its own error, is printed."""
        cls.errors.append(error)
