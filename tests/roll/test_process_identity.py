"""Whether a node's process is another one than before: by table."""

import pytest

from kipctl.roll.process_identity import Life, Mark, judge

NOTHING = Mark()
NEW, SAME, NOT_KNOWN = Life.NEW, Life.SAME, Life.NOT_KNOWN


@pytest.mark.parametrize(
    ("before", "now", "was_away", "is_watched", "life"),
    [
        # The start that its metrics tell decides, whatever else there is.
        (Mark(5, 100.0), Mark(6, 160.0), False, True, NEW),
        (Mark(5, 100.0), Mark(2000, 100.3), True, True, SAME),
        (Mark(5, 100.0), Mark(6), False, True, SAME),  # told no more: ids decide
        # Ids of one block are of one process, also when it seemed to be gone.
        (Mark(5), Mark(6), True, True, SAME),
        (Mark(1000), Mark(1999), False, False, SAME),
        (Mark(999), Mark(1000), True, True, NEW),
        # Another block may only be that the old one was used up.
        (Mark(5), Mark(3000), False, True, NOT_KNOWN),
        (Mark(5), Mark(3000), False, False, NEW),
        # Without either what was seen of it has to do.
        (NOTHING, Mark(5), True, True, NEW),
        (Mark(5), NOTHING, True, False, NEW),
        (NOTHING, NOTHING, True, True, NEW),
        (NOTHING, NOTHING, False, True, NOT_KNOWN),
        (NOTHING, NOTHING, False, False, NOT_KNOWN),
        # Who leads the controllers in the same epoch is the same process.
        (Mark(led_epoch=4), Mark(led_epoch=4), True, True, SAME),
        (Mark(led_epoch=4), Mark(led_epoch=4), False, False, SAME),
        (Mark(led_epoch=4), Mark(led_epoch=6), True, True, NEW),
        (Mark(led_epoch=4), NOTHING, True, True, NEW),
        (Mark(led_epoch=4), NOTHING, False, True, NOT_KNOWN),  # an election was lost, that is all
        (Mark(led_epoch=4), NOTHING, False, False, NEW),
        (NOTHING, Mark(led_epoch=5), False, True, NOT_KNOWN),
        (Mark(None, 100.0, 4), Mark(None, 160.0), False, False, NEW),
    ],
)
def test_whether_a_process_is_a_new_one(
    before: Mark, now: Mark, was_away: bool, is_watched: bool, life: Life
) -> None:
    judged = judge(before, now, was_away=was_away, is_watched=is_watched)
    assert judged.life is life
    assert judged.why
