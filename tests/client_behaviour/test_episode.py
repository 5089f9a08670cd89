"""What a client did after it was refused, by table: one line of attempts and answers each.

A script is a list of words. `r1@0` broker 1 refuses at 0 ms; with `:2.6` it names leader 2 at epoch
6, `:1.6!` with a fault (the refuser). `s2@3` the client sends to broker 2 at 3 ms, `s2@3*` to the
one that leads, `m` Metadata is answered, and what is sent after `named` Metadata has named.
"""

import re

import pytest

from kipctl.client_behaviour.episode import Episode, Hint, HintFault, Outcome

WORD = re.compile(r"([rs])(\d)@(\d+)(?::(\d)\.(\d+)([!~]?))?(\*?)")
FAULTS = {"!": HintFault.REFUSER, "~": HintFault.SAME_EPOCH}


def played(script: str) -> Episode:
    """Connections are one to a broker."""
    episode, is_named = None, False
    for word in script.split():
        if word in ("m", "named"):
            assert episode is not None
            is_named = is_named or word == "named"
            episode.metadata_answered()
            continue
        match = WORD.fullmatch(word)
        assert match, word
        kind, broker, ms, leader, epoch, fault, leads = match.groups()
        now_us = int(ms) * 1000
        if kind == "s":
            assert episode is not None
            episode.sent(int(broker), broker, now_us, is_named=is_named, leads=bool(leads))
            continue
        hint = Hint(int(leader), int(epoch), FAULTS.get(fault)) if leader else None
        if episode is None:
            episode = Episode.begin(int(broker), broker, now_us, hint)
        else:
            episode.refused(int(broker), broker, now_us, hint)
    assert episode is not None
    return episode


IN_FLIGHT = " ".join(f"r1@{ms}:2.6" for ms in range(5))
LOOP = " ".join(f"s1@{ms} r1@{ms + 5}:1.5!" for ms in range(5, 200, 10))
IN_A_ROW = " ".join(f"r1@{ms}" for ms in range(0, 105, 15))
SLOW = " ".join(f"s1@{ms} r1@{ms + 5}:1.5!" for ms in range(100, 2000, 100))


@pytest.mark.parametrize(
    ("script", "outcome", "reaction_ms", "wait_ms"),
    [
        ("r1@0:2.6 s2@3*", Outcome.FOLLOWED, 3, 3),
        ("r1@0:2.6 s2@103*", Outcome.FOLLOWED, 103, 103),
        # A busy broker reads late what was under way.
        ("r1@0:2.6 s1@37 r1@38:2.6 s2@41*", Outcome.FOLLOWED, 3, 41),
        (f"{IN_FLIGHT} s2@6*", Outcome.FOLLOWED, 2, 6),
        # Left before the client has read the refusal.
        ("r1@0:2.6 s1@1 s2@2* r1@3:2.6", Outcome.FOLLOWED, 2, 2),
        ("r1@0:2.6 named s2@103*", Outcome.BY_METADATA, 103, 103),
        ("r1@0:2.6 s1@250 r1@251:2.6 named s2@500*", Outcome.SENT_BACK, 249, 500),
        # It stalled, sent on, and then read both refusals.
        ("r1@0:2.6 s1@60 r1@61:2.6 s2@64*", Outcome.FOLLOWED, 3, 64),
        ("r1@0:2.6 s1@60 r1@61:2.6 named s2@64*", Outcome.SENT_BACK, 3, 64),
        ("r1@0:2.6 s3@1 r3@2:2.6 s2@4*", Outcome.ELSEWHERE, 1, 4),
        ("r1@0:2.6", Outcome.UNSEEN, None, None),
        ("r1@0 named s2@120*", Outcome.NOT_HINTED, 120, 120),
        ("r1@0:1.5! named s2@120*", Outcome.NOT_HINTED, 120, 120),
        # The first had none; the second, of another batch, has.
        ("r1@0 r1@1:2.6 s2@2*", Outcome.FOLLOWED, 1, 2),
        # The hinted leader moved on itself: the wait is for one that led.
        ("r1@0:2.6 s2@1 r2@2:3.7 s3@3*", Outcome.FOLLOWED, 1, 3),
        # The new leader is not ready, and names itself: once, and after a backoff still.
        ("r1@0:2.6 s2@1* r2@2:2.6! s2@103", Outcome.FOLLOWED, 1, 1),
        ("r1@0:2.6 s2@1* r2@2:2.6! s2@103 r2@104:2.6! s2@300", Outcome.NOT_HINTED, 1, 1),
    ],
)
def test_what_became_of_the_hint_and_how_long_it_took(
    script: str, outcome: Outcome, reaction_ms: int | None, wait_ms: int | None
) -> None:
    episode = played(script)
    assert episode.outcome is outcome
    assert episode.reaction_us == (None if reaction_ms is None else 1000 * reaction_ms)
    assert episode.wait_us == (None if wait_ms is None else 1000 * wait_ms)
    assert not episode.is_loop


@pytest.mark.parametrize(
    ("script", "is_loop"),
    [
        (f"r1@0:1.5! {LOOP}", True),
        # Between its attempts it looks at Metadata, or it backs off.
        (f"r1@0:1.5! {LOOP.replace('r1', 'm r1')}", False),
        (f"r1@0:1.5! {SLOW}", False),
        # A new leader that is not ready is asked without a pause.
        ("r1@0:2.6 " + " ".join(f"s2@{ms}* r2@{ms + 1}" for ms in range(1, 150, 2)), True),
        # So many were under way together, and are answered at once.
        (" ".join(f"r1@{ms}:2.6" for ms in range(20)) + " s2@21*", False),
        # Metadata was looked at in between: what was in a row before is over.
        (f"{IN_A_ROW} m {' '.join(f'r1@{ms}' for ms in range(105, 115))}", False),
        (f"{IN_A_ROW} m {' '.join(f'r1@{ms}' for ms in range(105, 215, 10))}", True),
    ],
)
def test_a_loop_is_many_refusals_in_a_row_without_a_pause(script: str, is_loop: bool) -> None:
    episode = played(script)
    assert episode.is_loop is is_loop
    assert episode.refusals == script.count("r")


@pytest.mark.parametrize(
    ("script", "strayed"),
    [
        ("r1@0:2.5~ s2@1", HintFault.SAME_EPOCH),
        ("r1@0:2.5~ s3@1", None),
        ("r1@0:2.5~ named s2@1", None),
        # A hint that is news sends it there as well, before or after.
        ("r1@0:2.5~ r1@1:2.6 s2@2", None),
        ("r1@0:2.6 r1@1:2.5~ s2@2", None),
        # It had read the first of many answers that came together: the newest is not the last.
        ("r1@0:2.6 r1@1:3.7 r1@2:2.6~ s2@3", None),
    ],
)
def test_who_goes_where_only_a_hint_that_is_no_news_says_strays(
    script: str, strayed: HintFault | None
) -> None:
    assert played(script).strayed is strayed


def test_what_is_wrong_with_hints_is_kept_once_and_a_usable_one_counts() -> None:
    episode = played("r1@0:1.5! r1@1:1.5! r1@2:2.6 s2@3*")
    assert episode.faults == (HintFault.REFUSER,)
    assert (episode.hint, episode.outcome) == (Hint(2, 6), Outcome.FOLLOWED)
    disowned = played("r1@0:2.6 s2@1 r2@2:2.6! s2@103 r2@104:2.6!")
    assert disowned.faults == (HintFault.REFUSER,)
    looping = played(f"r1@0:2.6 s2@1 r2@2:2.6! {LOOP.replace('1@', '2@').replace('1.5', '2.6')}")
    assert (looping.is_loop, looping.faults) == (True, (HintFault.REFUSER,))
