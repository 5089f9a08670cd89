"""Topics to try things with: where their replicas are."""

import pytest

from kipctl.cluster.sample_topics import in_turn


@pytest.mark.parametrize(
    ("brokers", "racks", "factor", "replicas"),
    [
        ([1, 2, 3], 3, 2, [[1, 2], [2, 3], [3, 1], [1, 2]]),
        ([1, 2, 3], 0, 1, [[1], [2], [3], [1]]),
        ([1, 2, 3], 3, 4, []),  # the controller refuses it
        ([1, 2, 3, 4], 3, 3, []),  # in turn, 3, 4 and 1 would be in two racks
    ],
)
def test_replicas_are_in_turn_where_racks_are_too(
    brokers: list[int], racks: int, factor: int, replicas: list[list[int]]
) -> None:
    assert in_turn(brokers, racks, 4, factor) == replicas
