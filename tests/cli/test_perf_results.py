"""What a run that failed ends with."""

import pytest

from kipctl.cli.perf_results import status_of_failed
from kipctl.errors import ExitStatus

DENIED = "TOPIC_AUTHORIZATION_FAILED"


@pytest.mark.parametrize(
    ("errors", "done", "acted", "status"),
    [
        ({DENIED: 3}, 0, False, ExitStatus.REFUSED),
        ({DENIED: 3}, 1, False, ExitStatus.PARTLY_DONE),
        ({DENIED: 3}, 0, True, ExitStatus.PARTLY_DONE),  # leaders have moved
        ({DENIED: 3, "MESSAGE_TOO_LARGE": 1}, 0, False, ExitStatus.PARTLY_DONE),
        ({"MESSAGE_TOO_LARGE": 1}, 0, False, ExitStatus.PARTLY_DONE),
    ],
)
def test_a_run_of_which_nothing_was_allowed_is_refused(
    errors: dict[str, int], done: int, acted: bool, status: ExitStatus
) -> None:
    assert status_of_failed(errors, done, acted) == status
