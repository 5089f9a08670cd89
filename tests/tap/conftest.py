"""Connections through a tap without sockets."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from one_connection import Wire


@pytest.fixture
def make_wire(tmp_path: Path) -> Iterator[Callable[..., Wire]]:
    """Make a tap with these options; its files are closed afterwards."""
    made = []

    def make(**spec) -> Wire:
        made.append(Wire(tmp_path, **spec))
        return made[-1]

    yield make
    for wire in made:
        wire.observer.close()


@pytest.fixture
def wire(make_wire: Callable[..., Wire]) -> Wire:
    """A tap that only looks on."""
    return make_wire()
