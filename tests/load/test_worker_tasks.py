"""What a worker's Spark task answers, on an executor that has kipctl and on one that has not."""

import sys
from typing import Any

import pyspark
import pytest

from kipctl.errors import PipelineError
from kipctl.load.workers import _task
from kipctl.measure import worker as worker_module
from kipctl.measure.worker import Answer
from kipctl.typed_json import decoded, encoded


class OnePartition:
    """Spark's context of a task."""

    said: str = ""

    @classmethod
    def get(cls) -> Any:
        return cls()

    def partitionId(self) -> int:  # noqa: N802
        return 3

    def allGather(self, word: str) -> list[str]:  # noqa: N802
        OnePartition.said = word
        return [word]


@pytest.fixture(autouse=True)
def in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "BarrierTaskContext", OnePartition)
    monkeypatch.setattr(OnePartition, "said", "")


@pytest.mark.parametrize("lacking", ["kipctl.measure.worker", "msgspec"])
def test_a_module_that_is_missing_there_is_told(
    monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    monkeypatch.setitem(sys.modules, lacking, None)
    for importing in ("kipctl.measure.worker", "kipctl.typed_json"):
        if importing != lacking:
            monkeypatch.delitem(sys.modules, importing, raising=False)
    (answer,) = _task(b"an order")([])
    error = decoded(answer, Answer, "It").error
    assert isinstance(error, PipelineError)
    assert f"{sys.executable} on " in error.what
    assert f"has no module '{lacking}'" in error.what
    assert "PYSPARK_PYTHON" in error.next_step
    assert OnePartition.said == "failed"  # the others do not wait for it


def test_the_order_is_carried_out_by_the_number_of_the_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def work(order: bytes, worker: int, gather: Any) -> bytes:
        assert gather("ready") == ["ready"]
        return encoded([order.decode(), worker])

    monkeypatch.setattr(worker_module, "work", work)
    assert [*_task(b"an order")([])] == [b'["an order",3]']
