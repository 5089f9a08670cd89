"""What a tap has left in its folder is read strictly; where it is damaged, its rows tell."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from kipctl.client_behaviour.behaviour import Seen, Waits
from kipctl.client_behaviour.doubt import Doubt
from kipctl.client_behaviour.episode import HintFault, Outcome
from kipctl.load.tap import described
from kipctl.tap.clients import Counts, Identity
from kipctl.tap.export import left_in
from kipctl.tap.process import OUTCOME_FILE, ClientSeen, TapOutcome, _Shown
from kipctl.trace.codes import Decision
from kipctl.trace.run_start import RunStart
from kipctl.typed_json import DamagedError, encoded

COUNTS = Counts(
    connections=2,
    requests=Counter({0: 5, 1: 3}),
    produce_errors=Counter({6: 2}),
    metadata=Counter({"start": 1}),
    decisions=Counter({Decision.FOLLOWED: 2}),
)
SEEN = Seen(
    leader_errors=2,
    hints=2,
    outcomes={Outcome.FOLLOWED: 2},
    faults={HintFault.OLDER: 1},
    reaction_p50_us=700,
    waits=Waits(2, 800, 900, 900),
    doubts=(Doubt.BUSY,),
)
CLIENT = ClientSeen(Identity("c", "java", "4.3", "h"), COUNTS, 1, SEEN, 2, 0, (5, 1, 2, 3))
WHOLE = TapOutcome(
    start_us=1000,
    now_us=9000,
    wall_start_us=5,
    cluster_id="id",
    clients=(CLIENT,),
    ports={"b:1": 9192},
    messages=("é",),
    dropped=1,
    cpu_s=0.5,
    peak_memory_bytes=1 << 30,
    names={"client": ("c",)},
    leading={1: 3},
    busy=0.5,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a tap that had begun."""
    RunStart("h", 1000, 5).write(tmp_path)
    return tmp_path


def test_what_was_left_is_read_as_it_was(folder: Path) -> None:
    (folder / OUTCOME_FILE).write_bytes(encoded(WHOLE))
    outcome = left_in(folder, "")
    assert outcome == WHOLE
    assert described(outcome, {}) == described(WHOLE, {})


def test_clients_that_are_shown_are_read_as_they_were() -> None:
    assert _Shown(WHOLE, (encoded((CLIENT,)), encoded(()))).whole() == WHOLE


def changed(name: str, value: object) -> Callable[[bytes], bytes]:
    return lambda content: json.dumps(json.loads(content) | {name: value}).encode()


@pytest.mark.parametrize(
    "tampered",
    [
        lambda content: b"\x80\x04ckipctl.tap.observer\nObserver\n)\x81.",
        lambda content: content[: len(content) // 2],  # by a power cut
        lambda content: b"",
        lambda content: content.replace(b'"decisions":{"1":2}', b'"decisions":{"77":2}'),
        lambda content: content.replace(b'"doubts":["', b'"doubts":["no '),
        changed("start_us", 10**400),
        changed("clients", [1]),
        changed("leading", {"one": 1}),
        changed("names", ["client"]),
    ],
)
def test_a_damaged_one_is_said_and_what_was_shown_stands(
    folder: Path, tampered: Callable[[bytes], bytes]
) -> None:
    left = folder / OUTCOME_FILE
    whole = encoded(WHOLE)
    assert tampered(whole) != whole
    left.write_bytes(tampered(whole))
    outcome = left_in(folder, "It was killed.", WHOLE)
    assert outcome
    assert outcome.clients == WHOLE.clients
    assert outcome.failure.startswith(f"It was killed. {left} is damaged, or is not kipctl's: ")
    nothing_shown = left_in(folder, "It was killed.")
    assert nothing_shown
    assert nothing_shown.clients == ()


@pytest.mark.parametrize(
    ("name", "content"), [("begun", b"{}"), ("begun", b"\x80\x04N."), ("names.json", b'{"c": 1}')]
)
def test_a_damaged_beginning_or_names_are_an_error(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(DamagedError, match=f"{folder / name} is damaged"):
        left_in(folder, "It was killed.")
