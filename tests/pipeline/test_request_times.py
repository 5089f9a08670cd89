"""How long requests took: percentiles are those of a plain sort, rounded as declared."""

import random
from collections import defaultdict
from collections.abc import Iterator
from math import ceil
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kipctl.pipeline.request_lines.times import (
    BY_KEYS,
    QUANTILES,
    TIMES,
    TOOK_COLUMNS,
    codes_of,
    counted,
    packed,
    percentiles,
    us_of,
)

Key = tuple[Any, ...]


def rounded(us: int) -> int:
    """To ten significant bits."""
    shift = max(0, us.bit_length() - 10)
    return us >> shift << shift


def test_times_are_rounded_by_less_than_two_thousandths_and_keep_their_order() -> None:
    choose = random.Random(7)
    us = sorted(
        {*range(5000), *(choose.randrange(1 << choose.randrange(1, 43)) for _ in range(9999))}
    )
    codes = codes_of(np.array(us))
    assert codes.dtype == np.uint16
    assert us_of(codes).tolist() == [rounded(value) for value in us]
    assert (np.diff(codes.astype(int)) >= 0).all()
    assert all(0 <= value - rounded(value) <= value / 512 for value in us)


def test_what_no_request_takes_is_nothing() -> None:
    times = [-1.0, 1e300, float("nan"), float("inf"), 0.0004, 0.0006, 1.5]
    assert us_of(np.frombuffer(packed(times), np.uint16)).tolist() == [0, 0, 0, 0, 0, 1, 1500]


@pytest.mark.parametrize("seed", range(3))
def test_percentiles_are_nearest_ranks(seed: int) -> None:
    choose = random.Random(seed)
    plain: dict[Key, list[tuple[float, ...]]] = defaultdict(list)
    places = {
        (f"{cluster}.log", f"{broker}:9092"): (cluster, broker)
        for cluster in ("c", None)
        for broker in (1, 2, None)
    }
    rows = []
    for _ in range(60):
        cluster, broker = choose.choice(("c", None)), choose.choice((1, 2, None))
        client = choose.choice(("a", "b", None, "broker-1-fetcher-0"))
        api = choose.choice((0, 1))
        requests = [
            tuple(round(choose.expovariate(0.1), 3) for _ in TIMES)
            for _ in range(choose.randrange(1, 40))
        ]
        is_reader = api == 1 and client == "broker-1-fetcher-0"
        plain["by_api", cluster, None, None, api, is_reader] += requests
        plain["by_broker", cluster, broker, None, api, is_reader] += requests
        if not is_reader:
            plain["by_client", cluster, None, client, api, False] += requests
        told = packed([time for times in requests for time in times])
        rows.append(
            dict(
                zip(
                    TOOK_COLUMNS,
                    (f"{cluster}.log", f"{broker}:9092", client, api, told),
                    strict=True,
                )
            )
        )

    def tasks() -> Iterator[pa.RecordBatch]:
        """As Spark shares them out: some rows to each task, in batches."""
        for start in range(0, len(rows), 20):
            halves = (rows[start : start + 12], rows[start + 12 : start + 20])
            yield from counted(places, map(pa.RecordBatch.from_pylist, halves))

    by_key = {}
    for batch in percentiles(tasks()):
        for row in batch.to_pylist():
            by_key[tuple(row[name] for name in BY_KEYS)] = (row["requests"], row["us"])

    def told_of(requests: list[tuple[float, ...]]) -> tuple[int, list[int]]:
        us = []
        for times in zip(*requests, strict=True):
            in_order = sorted(round(1000 * ms) for ms in times)
            ranks = (ceil(round(q * len(in_order), 6)) for q in QUANTILES.values())
            us += [rounded(in_order[rank - 1]) for rank in ranks]
        return len(requests), us

    assert by_key == {key: told_of(requests) for key, requests in plain.items()}
