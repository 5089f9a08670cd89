"""Columns of tables that follow from how what they show is declared."""

from kipctl.documents.measures import STATISTIC, heading, measure_of
from kipctl.report.tables import Column


def measured(
    *sources: str, title: str | None = None, digits: int | None = None, detail: bool = False
) -> dict[Column | str, str]:
    """Columns of what is at these places, headed and rounded as it is declared
    (`kipctl.documents.measures`), unless it is said otherwise here."""

    def column(source: str) -> Column:
        key = source.split(".")[-2 if STATISTIC.fullmatch(source.rpartition(".")[2]) else -1]
        decimals = measure_of(key).digits if digits is None else digits
        return Column(heading(source, title), decimals, right=True, detail=detail)

    return {column(source): source for source in sources}
