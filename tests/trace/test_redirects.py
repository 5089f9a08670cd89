"""Where the time of a redirect went: each step by table, and always the whole latency."""

import pytest
from campaigns import as_many, campaign, chance

from kipctl.trace.codes import PHASES, Decision
from kipctl.trace.redirect_phases import FailedAttempt, Phases, Wait, phases, split_wait


@pytest.mark.parametrize(
    ("resent", "allowed", "leader", "connected", "turn", "wait"),
    [
        # A hint was followed at once; the client's own time is charged to backoff.
        (1000, 1000, 1000, 0, 0, Wait()),
        (1040, 1000, 1000, 900, 900, Wait(backoff=40)),
        # Only the backoff was waited for, the rest was ready before.
        (1100, 1100, 0, 0, 0, Wait(backoff=100)),
        (1103, 1100, 1050, 1060, 1070, Wait(backoff=103)),
        # Metadata named the leader; what follows it is charged to it.
        (1030, 1000, 1030, 0, 0, Wait(metadata=30)),
        (1033, 1000, 1030, 0, 0, Wait(metadata=33)),
        # First the backoff, then the rest of the wait for Metadata.
        (1150, 1100, 1150, 0, 0, Wait(backoff=100, metadata=50)),
        # Then a connection, then the turn.
        (1060, 1000, 1000, 1060, 0, Wait(connect=60)),
        (1100, 1000, 1000, 0, 1100, Wait(queued=100)),
        (1104, 1010, 1030, 1060, 1100, Wait(queued=40, backoff=10, metadata=24, connect=30)),
        # Nothing that is said to come after the retry counts beyond it.
        (1050, 1000, 9999, 9999, 9999, Wait(metadata=50)),
        (1050, 9999, 9999, 9999, 9999, Wait(backoff=50)),
    ],
)
def test_a_wait_is_split_by_what_it_waited_for_one_after_the_other(
    resent: int, allowed: int, leader: int, connected: int, turn: int, wait: Wait
) -> None:
    assert split_wait(1000, resent, allowed, leader, connected, turn) == wait


@pytest.mark.parametrize(
    ("resent", "throttled", "turn", "wait"),
    [
        (1100, 1100, 0, Wait(backoff=10, throttled=90)),
        # A quota that let it go before the backoff was over cost nothing.
        (1010, 1005, 0, Wait(backoff=10)),
        # Then the turn.
        (1130, 1100, 1130, Wait(backoff=10, throttled=90, queued=30)),
    ],
)
def test_what_a_quota_made_it_wait_is_a_phase_of_its_own(
    resent: int, throttled: int, turn: int, wait: Wait
) -> None:
    assert split_wait(1000, resent, 1010, 0, 0, turn, throttled) == wait


@campaign
def test_the_parts_of_any_wait_add_up_to_it() -> None:
    choose = chance("waits")
    for _ in range(as_many(500, 200_000)):
        error = choose.randrange(1000)
        resent = error + choose.randrange(1000)
        wait = split_wait(error, resent, *(choose.randrange(3000) for _ in range(5)))
        assert sum(wait) == resent - error
        assert min(wait) >= 0


def failed(
    sent_us: int,
    error_us: int,
    wait: Wait | None = None,
    is_leader_error: bool = True,
    epoch: int = 5,
    hint_epoch: int = -1,
    to_epoch: int = -1,
    error: int = 6,
) -> FailedAttempt:
    """An attempt that failed; it was tried again when there is a `wait` or a `to_epoch`."""
    attempt = FailedAttempt(
        attempt=1,
        sent_us=sent_us,
        error_us=error_us,
        error=error,
        is_leader_error=is_leader_error,
        broker=1,
        epoch=epoch,
        hint_epoch=hint_epoch,
        base_offset=-1,
        decision=Decision.ABSENT,
    )
    if wait is not None or to_epoch >= 0:
        attempt.wait = wait or Wait()
        attempt.to_broker, attempt.to_epoch = 2, to_epoch
    return attempt


def test_the_first_row_has_the_time_before_and_the_last_the_time_after() -> None:
    rows = phases(
        [
            failed(sent_us=100, error_us=130, wait=Wait(backoff=1)),
            failed(sent_us=131, error_us=150, wait=Wait(queued=5, backoff=70, connect=5), epoch=6),
            failed(sent_us=230, error_us=250, wait=Wait(metadata=50), is_leader_error=False),
        ],
        intended_us=60,
        last_sent_us=300,
        done_us=400,
    )
    assert Phases._fields == PHASES
    assert rows == [
        Phases(40, 30, 1, 0, 0, 0, 0, 0),
        # A second leader error: the new leader did not know yet.
        Phases(5, 0, 70, 0, 5, 0, 19, 0),
        # A disconnect is no word about leaders.
        Phases(0, 20, 0, 50, 0, 0, 0, 100),
    ]
    assert sum(map(sum, rows)) == 400 - 60


@pytest.mark.parametrize(
    ("attempts", "not_ready"),
    [
        ([failed(0, 10)], [0]),
        ([failed(0, 10), failed(10, 30, epoch=6)], [0, 20]),
        # Sent to the old leader again, because nobody knew better: it refuses again.
        ([failed(0, 10), failed(10, 30)], [0, 0]),
        ([failed(0, 10, is_leader_error=False), failed(10, 30, epoch=6)], [0, 0]),
        # Metadata had named the new leader, which answers with the old one.
        ([failed(0, 10, epoch=6, hint_epoch=5)], [10]),
        ([failed(0, 10, epoch=5, hint_epoch=6)], [0]),
        # Metadata had named the new leader, which named nobody, and took it in the end.
        ([failed(0, 10, epoch=6, to_epoch=6), failed(10, 30, epoch=6, to_epoch=6)], [10, 20]),
        # The old leader, asked again until a newer one was known; or nobody was ever asked again.
        ([failed(0, 10, to_epoch=5), failed(10, 30, to_epoch=6)], [0, 0]),
        ([failed(0, 10, epoch=6, to_epoch=6), failed(10, 30, epoch=6)], [0, 0]),
        # The leader that the client had followed a hint to leads no more: its own hint is newer.
        ([failed(0, 10), failed(10, 30, epoch=6, hint_epoch=7)], [0, 0]),
        ([failed(0, 10), failed(10, 30, epoch=6, error=74)], [0, 0]),
        # The leader was moved away and back, and the client never learnt of it.
        ([failed(0, 10, epoch=5, hint_epoch=6, to_epoch=5)], [0]),
        # No epoch is known, before or after.
        ([failed(0, 10, epoch=-1, wait=Wait())], [0]),
        # The broker says so itself: UNKNOWN_LEADER_EPOCH.
        ([failed(0, 10, error=75, is_leader_error=False, epoch=6)], [10]),
    ],
)
def test_not_ready_is_a_leader_that_did_not_know_yet(
    attempts: list[FailedAttempt], not_ready: list[int]
) -> None:
    assert [row.not_ready for row in phases(attempts, 0, 0, 40)] == not_ready


def test_a_batch_that_is_given_up_by_its_error_acknowledges_nothing() -> None:
    (row,) = phases([failed(100, 130)], intended_us=90, last_sent_us=100, done_us=130)
    assert row == Phases(10, 30, 0, 0, 0, 0, 0, 0)


def test_a_batch_that_is_given_up_while_it_waits_ends_in_that_wait() -> None:
    attempt = failed(100, 130)
    attempt.wait = Wait(backoff=100, metadata=20)
    (row,) = phases([attempt], intended_us=90, last_sent_us=100, done_us=250)
    assert row == Phases(10, 30, 100, 20, 0, 0, 0, 0)


@campaign
def test_the_phases_of_random_histories_are_exactly_the_latency() -> None:
    """Any mix of errors, waits and ends: the sum is `done - intended`, nothing is negative."""
    choose = chance("histories")
    for _ in range(as_many(200, 50_000)):
        now = intended = choose.randrange(10**6)
        failures = []
        for _ in range(choose.randint(1, 6)):
            sent = now = now + choose.randrange(1000)
            if failures:
                marks = (sent - choose.randrange(-500, 2000) for _ in range(4))
                failures[-1].wait = split_wait(failures[-1].error_us, sent, *marks)
                failures[-1].to_broker = 2
            now += choose.randrange(1000)
            failures.append(failed(sent, now, is_leader_error=choose.random() < 0.7))
        last_sent = failures[-1].sent_us
        end = choose.choice(["acknowledged", "given up at once", "given up later"])
        if end != "given up at once":
            before, now = now, now + choose.randrange(1000)
            marks = (choose.randrange(2 * 10**6) for _ in range(4))
            failures[-1].wait = split_wait(before, now, *marks)
        if end == "acknowledged":
            failures[-1].to_broker = 2
            last_sent, now = now, now + choose.randrange(1000)
        rows = phases(failures, intended, last_sent, now)
        assert sum(map(sum, rows)) == now - intended
        assert min(map(min, rows)) >= 0
        assert len(rows) == len(failures)
