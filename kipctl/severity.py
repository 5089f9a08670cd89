"""How much a finding matters."""

from enum import StrEnum


class Severity(StrEnum):
    """PROBLEM hurts clients now; WARNING will when a broker stops or leaders move; NOTE may."""

    PROBLEM = "problem"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return list(Severity).index(self)
