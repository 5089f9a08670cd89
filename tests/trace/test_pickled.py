"""What another process has left is read without running anything of it."""

import os
import pickle
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.consume.run import ConsumeSpec
from kipctl.process import Launch
from kipctl.trace.codes import MetadataCause
from kipctl.trace.safe_pickle import load_values
from kipctl.transport.access import Access


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, 2.5, None, b"x", (True,)]},
        Counter(a=2),
        {MetadataCause.START, MetadataCause.MAX_AGE},
        ConsumeSpec(Access("b:1"), "t", 10, config=ConsumerConfig(client_rack="a")),
    ],
)
def test_values_are_read_as_they_were(value: Any) -> None:
    assert load_values(pickle.dumps(value)) == value


@dataclass(frozen=True)
class Calls:
    """Pickled as a call."""

    what: Any
    arguments: tuple[Any, ...]

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.what, self.arguments


@pytest.mark.parametrize(
    "call",
    [
        Calls(os.system, ("true",)),
        Calls(eval, ("1",)),
        Calls(getattr, ("text", "upper")),
        Calls(Launch, (["true"], None, None)),  # a class of kipctl's that starts a process
        Calls(pickle.loads, (b"",)),
    ],
)
def test_a_call_is_refused(call: Calls) -> None:
    with pytest.raises(pickle.UnpicklingError, match="no value of kipctl's"):
        load_values(pickle.dumps(call))
