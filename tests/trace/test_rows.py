"""Files of whole-number rows: written in blocks, read while they grow."""

from pathlib import Path

from kipctl.trace.rows import RowReader, RowWriter, chunks, read_rows


def test_rows_read_back_as_written_also_negative_and_large_ones(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    writer = RowWriter(path, 3)
    writer.append((1, -1, 2**62))
    writer.append((True, 0, -(2**63)))
    writer.close()
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
    writer = RowWriter(path, 1)
    for value in range(10):
        writer.append((value,))
    writer.close()
    assert [chunk[:, 0].tolist() for chunk in chunks(path, 1, size=4)] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9],
    ]
    assert list(chunks(tmp_path / "none", 1)) == []
