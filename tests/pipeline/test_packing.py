"""What of the files that are found is packed again, what a renamed file is, where slices lie."""

from collections.abc import Collection

import pytest

from kipctl.errors import UsageError
from kipctl.pipeline.period import parse_period
from kipctl.pipeline.request_lines.rows import ROWS, SLOT_US
from kipctl.pipeline.request_log.files import LogFile
from kipctl.pipeline.request_log.pack import FORMAT, SLICE_US, PackedFile, slices_of
from kipctl.pipeline.request_log.packing import Plan, batches, replaced, unless_written_meanwhile

UTC = "UTC"


def file(name: str, size: int = 100, at: int = 1) -> LogFile:
    return LogFile(name, size, at)


def packed(
    name: str, size: int = 100, at: int = 1, first: str | None = None, lines: int = 10
) -> PackedFile:
    return PackedFile(name, size, at, UTC, "b", f"as {name}", lines, first or f"first of {name}")


def planned(
    before: list[PackedFile], log_files: list[LogFile], away: Collection[str] = (), zone: str = UTC
) -> tuple[dict[str, str], set[str], list[str]]:
    """The files of the pack, by name under which names their rows are; renamed; to be packed."""
    zones = {log_file.name: zone for log_file in log_files}
    plan = Plan.of(before, log_files, zones, lambda entry: entry.file in away)
    names = {entry.file: entry.packed_as for entry in plan.kept}
    return names, set(plan.renamed), [log_file.name for log_file in plan.to_pack]


A, B = packed("a", 100, 1), packed("b", 200, 2)


@pytest.mark.parametrize(
    ("before", "log_files", "away", "expected"),
    [
        pytest.param([], [file("a")], (), ({}, set(), ["a"]), id="new"),
        pytest.param([A], [file("a")], (), ({"a": "as a"}, set(), []), id="as it was"),
        pytest.param([A], [], ("a",), ({"a": "as a"}, set(), []), id="gone"),
        pytest.param([A], [file("a", 150, 2)], (), ({"a": "as a"}, set(), ["a"]), id="grown"),
        pytest.param(
            [A], [file("a.1")], ("a",), ({"a.1": "as a"}, {"a.1"}, []), id="renamed, and gone"
        ),
        pytest.param(
            [A], [file("a.1")], (), ({"a": "as a"}, set(), ["a.1"]), id="copied from elsewhere"
        ),
        pytest.param(
            [A],
            [file("a"), file("a.1")],
            (),
            ({"a": "as a"}, set(), ["a.1"]),
            id="copied",
        ),
        pytest.param(
            [A, B],
            [file("a", 7, 3), file("b", 100, 1), file("c", 200, 2)],
            (),
            ({"b": "as a", "c": "as b"}, {"b", "c"}, ["a"]),
            id="all numbered anew",
        ),
        pytest.param(
            [A, B],
            [file("b", 100, 1)],
            ("a",),
            ({"b": "as a", "b#b": "as b"}, {"b"}, []),
            id="renamed to what another was called",
        ),
        pytest.param(
            [],
            [file("c", 1, 3), file("a", 1, 1), file("b", 1, 2)],
            (),
            ({}, set(), ["a", "b", "c"]),
            id="the oldest first",
        ),
    ],
)
def test_what_is_packed(
    before: list[PackedFile],
    log_files: list[LogFile],
    away: Collection[str],
    expected: tuple[dict[str, str], set[str], list[str]],
) -> None:
    assert planned(before, log_files, away) == expected


def test_in_another_zone_a_file_is_packed_again() -> None:
    assert planned([A], [file("a")], zone="Europe/Berlin") == ({"a": "as a"}, set(), ["a"])


GREW = packed("a.1", 300, 5, "first of a", lines=30)


@pytest.mark.parametrize(
    ("now", "log_files", "away", "left"),
    [
        pytest.param(packed("a", 150, 2, lines=5), [], (), {"a", "b"}, id="packed again"),
        pytest.param(GREW, [file("a.1", 300, 5)], ("a",), {"a.1", "b"}, id="renamed as it grew"),
        pytest.param(
            GREW,
            [file("a", 1, 6), file("a.1", 300, 5)],
            (),
            {"a.1", "b"},
            id="and another one has its name",
        ),
        pytest.param(
            GREW, [file("a"), file("a.1", 300, 5)], (), {"a", "a.1", "b"}, id="a copy beside it"
        ),
        pytest.param(
            packed("a.1", 300, 5, "first of a", lines=3),
            [file("a.1", 300, 5)],
            ("a",),
            {"a", "a.1", "b"},
            id="less than what is gone",
        ),
        pytest.param(packed("c"), [file("c")], ("a", "b"), {"a", "b", "c"}, id="another one"),
        pytest.param(
            packed("a", first="another one"), [file("a", 7)], (), {"a", "a#b", "b"}, id="its name"
        ),
    ],
)
def test_what_is_replaced(
    now: PackedFile, log_files: list[LogFile], away: Collection[str], left: set[str]
) -> None:
    files = replaced([A, B], [now], log_files, lambda entry: entry.file in away)
    assert {entry.file for entry in files} == left
    assert len(files) == len(left)


def test_batches() -> None:
    files = [file(str(n), size) for n, size in enumerate([3, 3, 3, 20, 1, 9])]
    sizes = [[log_file.bytes for log_file in batch] for batch in batches(files, 10)]
    assert sizes == [[3, 3, 3], [20], [1, 9]]
    assert not list(batches([], 10))


@pytest.mark.parametrize(
    ("since", "before", "expected"),
    [
        (None, None, (None, None)),
        ("1970-01-01T00:00:10", None, (2, None)),
        ("1970-01-01T00:00:05", "1970-01-01T00:01:00", (1, 12)),
    ],
)
def test_the_slices_of_a_period(
    since: str | None, before: str | None, expected: tuple[int | None, int | None]
) -> None:
    assert slices_of(parse_period(since, before)) == expected


def test_a_period_between_slices_is_refused_with_the_nearest_times() -> None:
    with pytest.raises(UsageError) as refused:
        slices_of(parse_period(None, "2026-01-31T12:00:03.250"))
    assert refused.value.what == (
        "--before 2026-01-31T12:00:03.250+00:00 lies between two times that packs tell apart."
    )
    assert str(refused.value.next_step) == (
        "They count in slices of 5 s: give 2026-01-31T12:00:00+00:00 or 2026-01-31T12:00:05+00:00."
    )


def test_slots_by_which_clients_are_followed_are_whole_slices() -> None:
    assert SLOT_US % SLICE_US == 0


def test_other_rows_are_another_format() -> None:
    """Where this fails, raise FORMAT: packs of before lack what is read now."""
    assert (FORMAT, ROWS.names) == (1, ROWS_OF_FORMAT_1.split())


ROWS_OF_FORMAT_1 = """
    kind file envelope api_key api api_version client connection is_forwarded address host rack
    is_deprecated principal listener security_protocol software answers metadata single requests
    first_us last_us record_bytes node topic cluster block id last_id text slot packed slice slices
"""


def test_a_file_that_was_rotated_while_it_was_read_is_packed_again() -> None:
    """log4j numbers files anew: a name may be another file by the time that its lines are read."""
    listed, rotated = [file("log.1", 10, 1)], [file("log.1", 20, 2), file("log.2", 10, 1)]
    read = unless_written_meanwhile([packed("log.1", 10, 1)], rotated)
    assert planned(read, rotated) == ({"log.1": "as log.1"}, set(), ["log.2", "log.1"])
    kept = unless_written_meanwhile([packed("log.1", 10, 1)], listed)
    assert planned(kept, listed) == ({"log.1": "as log.1"}, set(), [])
    assert planned(unless_written_meanwhile(kept, ()), listed)[2] == ["log.1"]
