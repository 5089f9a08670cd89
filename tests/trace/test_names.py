"""What numbers in rows stand for is written before them: whoever is killed leaves no riddle."""

from array import array
from collections.abc import Mapping
from pathlib import Path

import pytest

from kipctl.probe.tracing import Tracing
from kipctl.tap.recorder import COLUMNS, Recorder
from kipctl.trace.columns import RpcRow
from kipctl.trace.names import names_in
from kipctl.trace.row_writer import RowWriter


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, object]]:
    """The names that were on the disk when rows were written, each time."""
    known: list[Mapping[str, object]] = []
    write = RowWriter.write

    def look_and_write(writer: RowWriter, values: "array[int]") -> None:
        if values:
            known.append(names_in(tmp_path))
        write(writer, values)

    monkeypatch.setattr(RowWriter, "write", look_and_write)
    return known


@pytest.mark.parametrize("ends", [False, True])
def test_a_taps(tmp_path: Path, known: list[Mapping[str, object]], ends: bool) -> None:
    recorder = Recorder(tmp_path)
    recorder.clients.number("mine")
    recorder.rpc([0] * len(COLUMNS["rpcs"]))
    if not ends:
        recorder.write(recorder.drain())
    recorder.close()
    (names,) = known
    assert names["client"] == ("mine",)


def test_a_probes(tmp_path: Path, known: list[Mapping[str, object]]) -> None:
    tracing = Tracing(tmp_path, ["rpcs"])
    tracing.names["broker_rack"] = {"a": 0}
    tracing.rows["rpcs"]([0] * len(RpcRow._fields))
    tracing.flush()
    tracing.close()
    assert known == [{"broker_rack": ("a",)}]
