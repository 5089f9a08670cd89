"""Tests ask one process for command after command, and each gets the answer to its own."""

from pathlib import Path

from one_process import one_process


def test_what_a_test_did_not_wait_for_is_no_answer_to_the_next(tmp_path: Path) -> None:
    with one_process(tmp_path) as kipctl:
        kipctl.begin("no-such-command")
        said = kipctl("explain", works_in=tmp_path)
        assert (said.status, said.err) == (0, "")
