"""What consumers do with named replicas, by table: one line of answers each.

`1>3@0` leader 1 names replica 3 at 0 s; `3:5-9@1` broker 3 answers offsets 5 to 8; `3!6@2` with
error 6. Each was asked a moment before, or (`~`) before the answer that came last, or (`^`) at once
after it.
"""

import re

import pytest

from kipctl.client_behaviour.facts import Event
from kipctl.client_behaviour.replica_reads import Answer, ReplicaReads

WORD = re.compile(
    r"(?P<broker>\d)(?:>(?P<named>\d)|!(?P<error>\d+)|:(?P<at>\d+)-(?P<next>\d+))@(?P<s>[\d.]+)(?P<asked>[~^]?)"
)
FLIP, KEPT = Event.REPLICA_FLIP, Event.REPLICA_KEPT
IGNORED, TWICE = Event.REPLICA_IGNORED, Event.READ_TWICE


def played(script: str) -> list[Event]:
    reads, last_us, events = ReplicaReads(), 0, []
    for word in script.split():
        match = WORD.fullmatch(word)
        assert match, word
        at_us = round(float(match["s"]) * 1e6)
        sent_us = {"~": last_us - 1000, "^": last_us + 1000}.get(match["asked"], at_us - 10)
        offset, next_offset = int(match["at"] or 0), int(match["next"] or 0)
        named, error = int(match["named"] or -1), int(match["error"] or 0)
        answer = Answer(int(match["broker"]), sent_us, at_us, named, error, offset, next_offset)
        events += reads.answered("orders-0", answer)
        last_us = at_us
    return events


def every(seconds: int, *words: str, times: int = 5) -> str:
    return " ".join(
        f"{word}@{seconds * number + place / 10}"
        for number in range(times)
        for place, word in enumerate(words)
    )


@pytest.mark.parametrize(
    ("script", "events"),
    [
        ("1:0-5@0 1:5-9@1", []),
        ("1>3@0 3:0-5@0.1 3:5-9@0.2 3:9-12@0.3", []),
        (every(10, "1>3", "3:0-0"), [FLIP]),
        # Sent back by an error: it is not to stay.
        (every(10, "1>3", "3:0-0", "3!9"), []),
        (every(10, "1>3", "3!9", "3:0-0"), []),
        # Once in metadata.max.age.ms.
        (every(300, "1>3", "3:0-0"), []),
        # As fast as it can ask; by long polls, too.
        ("1>3@0 1>3@1^ 1>3@2^ 1>3@3^ 1>3@4^", [IGNORED]),
        ("1>3@0 1>3@1^ 1>3@2^ 1>3@3^", []),
        ("1>3@0 1>3@1^ 1>3@2~ 1>3@3^ 1>3@4^ 1>3@5^", [IGNORED]),
        # It could not connect to the replica, and asks the leader again after each backoff.
        (every(1, "1>3", times=20), []),
        ("1>3@0 1>3@1^ 1>3@2 1>3@3^ 1>3@4^ 1>3@5^", []),
        # It went there, and asks the leader because of the error.
        (
            "1>3@0 3!9@.001 1>3@.002 3!9@.003 1>3@.004 3!9@.005 1>3@.006 3!9@.007 1>3@.008",
            [],
        ),
        # They were under way.
        ("1>3@0 1>3@0.1~ 1>3@0.2~ 1>3@0.3~ 1>3@0.4~ 1>3@0.5~", []),
        # Another one is named each time.
        ("1>3@0 1>2@1 1>3@2 1>2@3 1>3@4 1>2@5", []),
        ("1>3@0 3!6@1 3!6@2 3!6@3 3!6@4 3!6@5", [KEPT]),
        ("1>3@0 3!6@1 3!6@2 3!6@3 3!6@4", []),
        # It asks the leader in between, which names it again.
        ("1>3@0 " + every(1, "3!6", "1:0-0", times=8), []),
        ("1>3@0 3!1@1 3!1@2 3!1@3 3!1@4 3!1@5", []),
        ("1>3@0 3:0-9@1 1:5-12@2", [TWICE]),
        ("1>3@0 3:0-9@1 1:9-12@2", []),
        # It was reset, or has begun anew, on the same broker, or much later.
        ("1>3@0 3:0-9@1 3:0-9@2", []),
        ("1>3@0 3:0-9@1 1:5-12@60", []),
    ],
)
def test_what_a_consumer_does_with_replicas(script: str, events: list[Event]) -> None:
    assert played(script) == events


def test_partitions_of_which_none_was_named_are_not_kept() -> None:
    reads = ReplicaReads()
    assert list(reads.answered("orders-0", Answer(1, 0, 1, -1, 0, 0, 5))) == []
    assert not reads
