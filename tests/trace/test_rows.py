"""Files of whole-number rows: written in blocks, read while they grow."""

import subprocess
import sys
from collections.abc import Container
from pathlib import Path

from kipctl.trace.row_writer import RowWriter, file_of
from kipctl.trace.rows import RowReader, chunks, read_rows


def written(path: Path, *rows: tuple[int, ...], last: Container[int] = ()) -> RowWriter:
    """A writer that has these rows, and went on to another file after those that are `last`."""
    writer = RowWriter(path, len(rows[0]))
    for number, row in enumerate(rows):
        writer.append(row)
        if number in last:
            writer.rotate()
    return writer


def test_rows_read_back_as_written_also_negative_and_large_ones(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    written(path, (1, -1, 2**62), (True, 0, -(2**63))).close()
    assert read_rows(path, 3).tolist() == [[1, -1, 2**62], [1, 0, -(2**63)]]


def test_a_reader_sees_each_flushed_row_once(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    reader = RowReader(path, 2)
    assert reader.new_rows().shape == (0, 2)
    writer = RowWriter(path, 2)
    writer.append((1, 2))
    assert reader.new_rows().tolist() == []
    writer.flush()
    writer.append((3, 4))
    assert reader.new_rows().tolist() == [[1, 2]]
    writer.flush()
    writer.flush()
    assert reader.new_rows().tolist() == [[3, 4]]
    assert reader.new_rows().tolist() == []
    writer.close()


def test_a_row_that_is_only_half_in_the_file_is_left_for_later(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    whole = bytes(range(1, 33))
    path.write_bytes(whole[:24])
    reader = RowReader(path, 2)
    assert len(reader.new_rows()) == 1
    path.write_bytes(whole)
    assert reader.new_rows().tobytes() == whole[16:]


def test_chunks_are_all_rows_in_order(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    written(path, *((value,) for value in range(10))).close()
    assert [chunk[:, 0].tolist() for chunk in chunks(path, 1, size=4)] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9],
    ]
    assert list(chunks(tmp_path / "none", 1)) == []


def test_a_row_is_amended_before_and_after_it_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    writer = written(path, (1, 2), (3, 4))
    writer.amend(0, 1, 20)
    writer.flush()
    writer.append((5, 6))
    assert writer.rows == 3
    writer.amend(1, 0, 30)
    writer.amend(2, 1, 60)
    writer.append((7, 8))
    writer.close()
    assert read_rows(path, 2).tolist() == [[1, 20], [30, 4], [5, 60], [7, 8]]


def test_rows_go_on_in_other_files_and_are_read_in_order(tmp_path: Path) -> None:
    path = tmp_path / "rows.i64"
    reader = RowReader(path, 1)
    written(path, *((value,) for value in range(12)), last=(4, 9)).close()
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "rows.1.i64",
        "rows.2.i64",
        "rows.i64",
    ]
    assert [chunk[:, 0].tolist() for chunk in chunks(path, 1)] == [
        [0, 1, 2, 3, 4],
        [5, 6, 7, 8, 9],
        [10, 11],
    ]
    reads = [reader.new_rows()[:, 0].tolist() for _ in range(4)]
    assert reads == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11], []]
    assert reader.number == 2


def test_a_reader_leaves_no_file_before_it_has_read_it_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "rows.i64"
    reader, writer = RowReader(path, 1), RowWriter(path, 1)
    writer.append((1,))
    writer.flush()
    assert reader.new_rows().tolist() == [[1]]
    writer.append((2,))
    writer.rotate()
    writer.append((3,))
    writer.flush()
    assert (reader.new_rows().tolist(), reader.number) == ([[2]], 0)
    assert (reader.new_rows().tolist(), reader.number) == ([[3]], 1)
    writer.close()


def test_what_is_left_is_read_when_the_oldest_files_are_gone(tmp_path: Path) -> None:
    path = tmp_path / "rows.i64"
    written(path, *((value,) for value in range(12)), last=range(12)).close()  # of two digits, too
    path.unlink()
    file_of(path, 1).unlink()
    left = [*range(2, 12)]
    assert [int(rows[0, 0]) for rows in chunks(path, 1)] == left
    reader = RowReader(path, 1)
    assert [int(reader.new_rows()[0, 0]) for _ in left] == left


def test_rows_of_the_last_two_files_are_amended_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "rows.i64"
    writer = written(path, *((value, 0) for value in range(6)), last=(1, 3))
    for row in range(6):
        writer.amend(row, 1, 10 + row)
    writer.close()
    amended = [row for rows in chunks(path, 2) for row in rows.tolist()]
    assert amended == [[0, 0], [1, 0], [2, 12], [3, 13], [4, 14], [5, 15]]


ON_A_FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from kipctl.trace.row_writer import RowWriter
from kipctl.trace.rows import read_rows

path = Path(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
writer = RowWriter(path, 3)
rows = [[n, -n, n * n] for n in range(100)]
for row in rows[:10]:
    writer.append(row)
writer.flush()
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # 41 rows, and two thirds of one
for row in rows[10:]:
    writer.append(row)
for _ in range(2):
    try:
        writer.flush()
    except OSError:
        print(path.stat().st_size)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
writer.close()
print(read_rows(path, 3).tolist() == rows)
"""


def test_a_full_disk_is_told_and_no_row_is_torn(tmp_path: Path) -> None:
    """What does not fit is written once there is room: no later row is shifted."""
    done = subprocess.run(
        [sys.executable, "-c", ON_A_FULL_DISK, str(tmp_path / "rows")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["984", "984", "True"]
