"""What a run that failed ends with."""

import pytest

from kipctl.cli.commands.perf_results import status_of_failed
from kipctl.errors import ExitStatus
from kipctl.report.e2e_tables import what_failed

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


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (1200, "of 5,000 records 7 failed, 1,200 were acknowledged and not delivered."),
        (0, "of 5,000 records 7 failed, 0 were acknowledged and not delivered."),
        (
            None,  # the run broke off before it could be awaited
            "of 5,000 records 7 failed, and whether any that was acknowledged was not delivered is"
            " not known.",
        ),
    ],
)
def test_records_that_failed_from_end_to_end(missing: int | None, said: str) -> None:
    assert what_failed({"sent": 5000, "failed": 7, "missing": missing}, acks=-1) == said


def test_what_acks_1_loses_is_explained() -> None:
    lost = what_failed({"sent": 5000, "failed": 0, "missing": 3}, acks=1)
    assert lost.endswith("acks=all keeps it.")
    assert "acks=all" not in what_failed({"sent": 5000, "failed": 1, "missing": 0}, acks=1)
