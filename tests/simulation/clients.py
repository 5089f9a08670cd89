"""The clients whose stories are played, what these have to reach, and the old faults they find.

The seeds were chosen as `python tests/simulation --choose` does it, of fewer: those whose stories
together reach all in little time (2849 reaches what few do; in 102352 a new leader is asked, and
refuses, while the partition is not to be read again yet), and for each fault, of the first 300,
one whose story finds it. They are chosen anew when what a story is drawn from
has changed, and they do not do it any more.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from random import Random

import old_faults
import play
import play_consumer
import pytest
import story
import story_of_reading
from campaigns import chance
from stage import Broken, Seen, named

from kipctl.trace.codes import PHASES, Decision, MetadataCause, RangeCase, RangeHandling

Fault = Callable[[pytest.MonkeyPatch], None]


def _all(*kinds: type[IntEnum]) -> set[str]:
    return {named(member) for kind in kinds for member in kind}


@dataclass(frozen=True)
class Client:
    """One of the probe's, and its stories."""

    play: Callable[[Random], Seen]
    """Draw a story and play it. Raises Broken."""
    reaches: set[str]
    """What there is to be reached."""
    reaching: tuple[int, ...]
    """Seeds of stories that reach all of it."""
    faults: Mapping[Fault, int]
    """Each with the seed of a story that finds it."""

    def play_all(self, seeds: Iterable[int]) -> Seen:
        """What their stories reached. Raises Broken, with the seed."""
        seen = Seen()
        for seed in seeds:
            try:
                seen.update(self.play(Random(seed)))
            except Broken as broken:
                raise Broken(f"seed {seed}: {broken}") from None
        return seen


def fresh(name: str, count: int) -> list[int]:
    """So many seeds that are others in each session."""
    choose = chance(name)
    return [choose.randrange(1 << 32) for _ in range(count)]


DECISIONS = {named(decision) for decision in Decision if decision <= Decision.DRAFT}
"""Those after it are the tap's, or of brokers at fault, which these are not: test_leadership.py."""
CLIENTS = {
    "produce": Client(
        lambda choose: play.play(story.draw(choose)),
        DECISIONS
        # Those after it are of clients that others have written.
        | {named(cause) for cause in MetadataCause if cause <= MetadataCause.ERROR_RETRY}
        | {*PHASES, "refused of a topic made anew"},
        reaching=(1, 4, 7, 30, 343, 352, 359, 371, 567),
        faults={
            old_faults.metadata_after_batches: 3,
            old_faults.leader_is_back_unnoticed: 87,
            old_faults.new_sequences_after_every_failure: 137,
            old_faults.older_epochs_of_a_new_topic: 118,
            old_faults.throttle_times_ignored: 31,
            old_faults.metadata_is_wanted_twice: 4,
            old_faults.connections_are_cut_for_another_name: 53,
            old_faults.topic_errors_are_no_answers: 92,
            old_faults.ids_are_sent_that_nobody_told: 4,
        },
    ),
    "consume": Client(
        lambda choose: play_consumer.play(story_of_reading.draw(choose)),
        DECISIONS
        | _all(RangeCase, RangeHandling)
        | {
            # The other causes are of the start, and of topics that come into use.
            named(MetadataCause.LEADER_CHANGE),
            named(MetadataCause.MAX_AGE),
            named(MetadataCause.ERROR_RETRY),
        },
        reaching=(38, 84, 127, 149, 175, 333, 507, 583, 592, 2849, 102352),
        faults={
            old_faults.leaders_change_without_validation: 2,
            old_faults.sessions_outlive_connections: 32,
            old_faults.sessions_know_partitions_by_name: 120,
            old_faults.throttle_times_ignored: 31,
            old_faults.hints_of_overtaken_fetches_are_dropped: 225,
            old_faults.metadata_is_wanted_twice: 2,
            old_faults.connections_are_cut_for_another_name: 177,
            old_faults.questions_wait_for_the_old_leader: 47,
            old_faults.evicted_sessions_pause: 54,
            old_faults.topic_errors_are_no_answers: 92,
            old_faults.ids_are_sent_that_nobody_told: 13,
            old_faults.replicas_behind_are_left: 74,
            old_faults.sessions_are_left_behind: 0,
            old_faults.old_metadata_s_epochs_are_believed: 30,
        },
    ),
}
