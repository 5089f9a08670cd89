"""Whoever can write to the folder that workers share, or to a run's, gets hold of no reader."""

import pickle
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kipctl.errors import RefusedError
from kipctl.measure.worker import SharedFolder, WorkOrder, finished_result
from kipctl.probe.produce.run import ProduceSpec
from kipctl.protocol.error_codes import ErrorCode
from kipctl.tap.export import left_in
from kipctl.tap.observer import Observer
from kipctl.tap.spec import TapSpec
from kipctl.trace.run_start import RunStart
from kipctl.transport.access import Access

MIB = 1 << 20
NEVER_WANTED = "kipctl.generate.__main__"


@dataclass(frozen=True)
class Calls:
    """Pickled as a call."""

    what: Any
    arguments: tuple[Any, ...]

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.what, self.arguments


def text(value: str) -> bytes:
    return b"X" + len(value).to_bytes(4, "little") + value.encode()


def setting(whose: bytes, name: str, value: bytes) -> bytes:
    """A pickle that sets an attribute of whom another one names."""
    return b"\x80\x02" + whose + b"N}" + text(name) + value + b"s\x86b."


ACCESS = b"ckipctl.transport.access\nAccess\n"
NOT_LEADER = b"ckipctl.protocol.error_codes\nErrorCode\nK\x06\x85R"
ATTACKS = {
    "another bootstrap server": setting(ACCESS, "bootstrap", b"]" + text("evil:1") + b"a"),
    "no protection": setting(ACCESS, "is_protected", b"\x89"),
    "another meaning of an error": setting(NOT_LEADER, "retriable", b"\x89"),
    "a module": f"\x80\x02c{NEVER_WANTED}\nmain\n.".encode("latin-1"),
    "two gigabytes": b"\x80\x02cbuiltins\nbytearray\n\x8a\x05\x00\x00\x00\x80\x00\x85R.",
}


@pytest.fixture(params=["a worker's outcome", "a tap's outcome"])
def read(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[bytes], object]:
    """Reads what somebody has put into the place of an outcome."""
    shared = SharedFolder.prepare(tmp_path, 1)
    directory = shared.join(0)
    RunStart("h", 5000, 9).write(directory)
    order = WorkOrder.of([ProduceSpec(Access("h:1"), "t", 1)], shared, None)

    def of(content: bytes) -> object:
        (directory / "outcome").write_bytes(content)
        if request.param == "a tap's outcome":
            return left_in(directory, "It was killed.")
        return finished_result(order, 0)

    return of


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """What an attack has set does not outlive its test."""
    kept = [(target, name, vars(target)[name]) for target, name in SET_BY_ATTACKS]
    yield
    for target, name, value in kept:
        setattr(target, name, value)


SET_BY_ATTACKS = (
    (Access, "bootstrap"),
    (Access, "is_protected"),
    (ErrorCode.NOT_LEADER_OR_FOLLOWER, "retriable"),
)


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_outcome_changes_nothing_in_its_reader(
    read: Callable[[bytes], object], monkeypatch: pytest.MonkeyPatch, attack: str
) -> None:
    monkeypatch.delitem(sys.modules, NEVER_WANTED, raising=False)
    tracemalloc.start()
    try:
        assert read(ATTACKS[attack])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 * MIB
    assert Access("good:1").bootstrap == [("good", 1)]
    with pytest.raises(RefusedError, match="is protected"):
        Access("good:1", name="prod", is_protected_name=True).require_consent("It")
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert NEVER_WANTED not in sys.modules


def test_an_outcome_opens_no_file(read: Callable[[bytes], object], tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "batches.i64").write_bytes(b"13 bytes long")
    spec = TapSpec(access=Access("b:1"))
    assert read(pickle.dumps(Calls(Observer, (spec, victim, None, 0))))
    assert (victim / "batches.i64").read_bytes() == b"13 bytes long"
