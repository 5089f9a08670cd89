"""What a run that failed ends with."""

import pytest

from kipctl.cli.perf_results import status_of_failed
from kipctl.errors import ExitStatus

DENIED = "TOPIC_AUTHORIZATION_FAILED"
ROTATED = [{"action": "rotate", "error": None}]


@pytest.mark.parametrize(
    ("errors", "done", "actions", "status"),
    [
        ({DENIED: 3}, 0, [], ExitStatus.REFUSED),
        ({DENIED: 3}, 1, [], ExitStatus.PARTLY_DONE),
        ({DENIED: 3}, 0, ROTATED, ExitStatus.PARTLY_DONE),  # leaders have moved
        ({DENIED: 3, "MESSAGE_TOO_LARGE": 1}, 0, [], ExitStatus.PARTLY_DONE),
        ({"MESSAGE_TOO_LARGE": 1}, 0, [], ExitStatus.PARTLY_DONE),
    ],
)
def test_a_run_of_which_nothing_was_allowed_is_refused(
    errors: dict[str, int], done: int, actions: list[dict[str, object]], status: ExitStatus
) -> None:
    assert status_of_failed(errors, done, {"actions": actions}) == status
