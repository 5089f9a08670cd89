"""What a producer's run comes to, counted while it runs."""

from dataclasses import dataclass, field

from kipctl.protocol.error_codes import error_name


@dataclass(slots=True)
class Totals:
    """What the run came to, in records."""

    acknowledged: int = 0
    failed: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    """Records failed, by the error's name."""

    def settled(self, records: int, error: int) -> None:
        """A batch of so many was acknowledged (error 0), or given up."""
        if not error:
            self.acknowledged += records
            return
        self.failed += records
        name = error_name(error)
        self.errors[name] = self.errors.get(name, 0) + records
