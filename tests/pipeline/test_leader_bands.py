"""Who led, as rows of a picture."""

from kipctl.pipeline.leader_bands import MOST_BANDS, Change, bands

SPAN = (0, 1000)


def test_few_partitions_have_a_row_each() -> None:
    before = {("t", 0): 1, ("t", 1): 2}
    changes = [Change(100, "t", 0, 1, 2), Change(300, "t", 1, 2, 1), Change(500, "t", 0, 2, 1)]
    document = bands(before, changes, SPAN)
    assert document == {
        "partitions": 2,
        "rows": [
            {"names": ["t-0"], "count": 1, "leads": [(0, 1), (100, 2), (500, 1)]},
            {"names": ["t-1"], "count": 1, "leads": [(0, 2), (300, 1)]},
        ],
        "rows_left_out": 0,
        "partitions_left_out": 0,
    }


def test_of_more_those_with_the_same_leaders_in_turn_share_a_row() -> None:
    before = {("t", number): number % 2 for number in range(40)}
    changes = [Change(100 + n, "t", n, n % 2, 1 - n % 2) for n in range(0, 40, 2)]
    rows = bands(before, changes, SPAN)["rows"]
    assert [(row["count"], row["leads"]) for row in rows] == [
        (20, [(0, 0), (118, 1)]),  # the median of 100, 102, ... 138
        (20, [(0, 1)]),
    ]
    assert rows[0]["names"] == ["t-0", "t-2", "t-4", "t-6", "t-8", "t-10"]


def test_the_rows_of_fewest_partitions_are_left_out_and_counted() -> None:
    before = {("t", number): number for number in range(MOST_BANDS + 3)} | {("u", 0): 0}
    document = bands(before, [], SPAN)
    assert len(document["rows"]) == MOST_BANDS
    assert document["rows"][0]["count"] == 2
    assert (document["rows_left_out"], document["partitions_left_out"]) == (3, 3)


def test_what_was_not_known_before_and_what_is_no_change() -> None:
    changes = [
        Change(10, "t", 0, None, 1),
        Change(20, "t", 0, 1, 1),  # another epoch of the same leader
        Change(1000, "t", 0, 1, 2),  # after the end
    ]
    [row] = bands({}, changes, SPAN)["rows"]
    assert row["leads"] == [(0, None), (10, 1)]
    [row] = bands({("t", 0): 1}, [Change(-5, "t", 0, 1, 2)], SPAN)["rows"]
    assert row["leads"] == [(0, 1), (0, 2)]
