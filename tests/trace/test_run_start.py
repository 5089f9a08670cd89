"""What is left beside rows, in folders that others may write to."""

from pathlib import Path

from kipctl.trace.run_start import write_whole


def test_a_file_that_is_written_whole_goes_through_no_link(tmp_path: Path) -> None:
    victim, file = tmp_path / "victim", tmp_path / "begun"
    victim.write_text("theirs")
    (tmp_path / "begun.part").symlink_to(victim)
    for content in (b"ours", b"ours again"):
        write_whole(file, content)
        assert (victim.read_text(), file.read_bytes()) == ("theirs", content)
    assert not file.is_symlink()
