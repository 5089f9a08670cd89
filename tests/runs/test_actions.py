"""What the user may ask to be done during a run."""

import pytest

from kipctl.errors import UsageError
from kipctl.runs.actions import Action, ActionKind, parse_action


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("rotate", Action(ActionKind.ROTATE)),
        ("elect", Action(ActionKind.ELECT)),
        ("reassign", Action(ActionKind.REASSIGN)),
        ("restart:2", Action(ActionKind.RESTART, 2)),
    ],
)
def test_actions_are_named_as_they_are_shown(text: str, action: Action) -> None:
    assert parse_action(text) == action
    assert str(action) == text


@pytest.mark.parametrize("text", ["", "rotat", "rotate:1", "restart", "restart:", "restart:a"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no action"):
        parse_action(text)
