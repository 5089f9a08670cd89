"""Faults of a client that its developers know: a file with a rule's id a line."""

from collections.abc import Collection, Iterable
from pathlib import Path

from kipctl.conform.verdict import Status, Verdict
from kipctl.errors import UsageError, did_you_mean


def read_expected(file: Path, rules: Collection[str]) -> frozenset[str]:
    """The rules that are known to fail; what follows a `#` is a comment. Raises UsageError."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{file} cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}.",
            "Give a file with the id of a rule on each line.",
        ) from None
    ids = [id for line in lines if (id := line.partition("#")[0].strip())]
    for id in ids:
        if id not in rules:
            raise UsageError(f"{file}: there is no rule {id!r}.{did_you_mean(id, rules)}")
    return frozenset(ids)


def surprises(verdicts: Iterable[Verdict], expected: Collection[str]) -> tuple[str, ...]:
    """The rules that fail and are not known to."""
    return tuple(v.rule for v in verdicts if v.status is Status.FAIL and v.rule not in expected)


def outdated(verdicts: Iterable[Verdict], expected: Collection[str]) -> tuple[str, ...]:
    """The rules that are known to fail and do not."""
    well = (Status.PASS, Status.SLOW)
    return tuple(v.rule for v in verdicts if v.status in well and v.rule in expected)
