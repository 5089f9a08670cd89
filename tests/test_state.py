"""What kipctl keeps is for its user alone."""

import os
from pathlib import Path

import pytest

from kipctl.errors import UsageError
from kipctl.state import make_private, state_folder


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("was", [None, 0o755, 0o700])
def test_the_state_folder_is_its_owners_alone(was: int | None, tmp_path: Path) -> None:
    variables = {"XDG_STATE_HOME": str(tmp_path / "state")}
    state = state_folder(variables)
    if was is not None:
        state.mkdir(parents=True)
        state.chmod(was)
    make_private(state / "runs" / "noon", variables)
    assert mode(state) == 0o700
    assert {mode(state / "runs"), mode(state / "runs" / "noon")} == {0o700}


def test_other_folders_are_made_as_everybody_makes_them(tmp_path: Path) -> None:
    folder = tmp_path / "shared" / "runs"
    make_private(folder, {"XDG_STATE_HOME": str(tmp_path / "state")})
    before = os.umask(0)
    os.umask(before)
    assert mode(folder) == 0o777 & ~before
    assert not (tmp_path / "state").exists()


def test_a_state_folder_of_somebody_else_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who owns it can change what kipctl writes and reads there."""
    variables = {"XDG_STATE_HOME": str(tmp_path / "state")}
    make_private(state_folder(variables), variables)
    stranger = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: stranger)
    for folder in (state_folder(variables), state_folder(variables) / "runs" / "noon"):
        with pytest.raises(UsageError, match="belongs to another user"):
            make_private(folder, variables)
    assert list(state_folder(variables).iterdir()) == []
    make_private(tmp_path / "elsewhere", variables)
