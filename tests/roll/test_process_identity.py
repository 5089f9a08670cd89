"""Whether a node's process is another one than before: by table."""

import pytest

from kipctl.roll.process_identity import ProcessLife, ProcessMark, judge_restart

NOTHING = ProcessMark()
NEW, SAME, NOT_KNOWN = ProcessLife.NEW, ProcessLife.SAME, ProcessLife.NOT_KNOWN


@pytest.mark.parametrize(
    ("before", "now", "was_away", "is_watched", "life"),
    [
        # The start that its metrics tell decides, whatever else there is.
        (ProcessMark(5, 100.0), ProcessMark(6, 160.0), False, True, NEW),
        (ProcessMark(5, 100.0), ProcessMark(2000, 100.3), True, True, SAME),
        (ProcessMark(5, 100.0), ProcessMark(6), False, True, SAME),  # told no more: ids decide
        # Ids of one block are of one process, also when it seemed to be gone.
        (ProcessMark(5), ProcessMark(6), True, True, SAME),
        (ProcessMark(1000), ProcessMark(1999), False, False, SAME),
        (ProcessMark(999), ProcessMark(1000), True, True, NEW),
        # Another block may only be that the old one was used up.
        (ProcessMark(5), ProcessMark(3000), False, True, NOT_KNOWN),
        (ProcessMark(5), ProcessMark(3000), False, False, NEW),
        # Without either what was seen of it has to do.
        (NOTHING, ProcessMark(5), True, True, NEW),
        (ProcessMark(5), NOTHING, True, False, NEW),
        (NOTHING, NOTHING, True, True, NEW),
        (NOTHING, NOTHING, False, True, NOT_KNOWN),
        (NOTHING, NOTHING, False, False, NOT_KNOWN),
        # Who leads the controllers in the same epoch is the same process.
        (ProcessMark(led_epoch=4), ProcessMark(led_epoch=4), True, True, SAME),
        (ProcessMark(led_epoch=4), ProcessMark(led_epoch=4), False, False, SAME),
        (ProcessMark(led_epoch=4), ProcessMark(led_epoch=6), True, True, NEW),
        (ProcessMark(led_epoch=4), NOTHING, True, True, NEW),
        (
            ProcessMark(led_epoch=4),
            NOTHING,
            False,
            True,
            NOT_KNOWN,
        ),  # an election was lost, that is all
        (ProcessMark(led_epoch=4), NOTHING, False, False, NEW),
        (NOTHING, ProcessMark(led_epoch=5), False, True, NOT_KNOWN),
        (ProcessMark(None, 100.0, 4), ProcessMark(None, 160.0), False, False, NEW),
    ],
)
def test_whether_a_process_is_a_new_one(
    before: ProcessMark, now: ProcessMark, was_away: bool, is_watched: bool, life: ProcessLife
) -> None:
    judged = judge_restart(before, now, was_away=was_away, is_watched=is_watched)
    assert judged.life is life
    assert judged.why
