"""Stories in which the consumer once broke something, each in its shortest form."""

from dataclasses import replace
from typing import Any

import pytest
from play_consumer import play
from stage import Seen, named
from story import MS, Fault
from story_of_reading import ReadingStory

from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.trace.codes import RangeCase

CALM = ReadingStory(
    seed=1,
    brokers=1,
    partitions=1,
    metadata_version=13,
    fetch_version=18,
    list_offsets_version=11,
    leader_epoch_version=4,
    hints=True,
    endpoints=True,
    proxied=False,
    delay_us=1_000,
    lag_us=0,
    discovery=LeaderDiscovery.KIP951,
    config=ConsumerConfig(
        auto_offset_reset="earliest",
        fetch_max_wait_ms=20,
        request_timeout_ms=300,
        retry_backoff_ms=20,
        socket_connection_setup_timeout_ms=200,
        socket_connection_setup_timeout_max_ms=2_000,
    ),
    offset=0,
    batches=0,
    append_every_us=10 * MS,
    replica_lag_us=0,
    all_hold_all=True,
    names_replicas=False,
    faults=(),
)


def fault(kind: str, at_ms: int, for_ms: int = 1, broker: int = 1, number: int = 0) -> Fault:
    return Fault(kind, at_ms * MS, for_ms * MS, broker, number)


def happens(*faults: Fault, seeds: int = 5, **changes: Any) -> None:
    """Play it with several seeds of what is left to chance."""
    for seed in range(seeds):
        play(replace(CALM, seed=seed, faults=faults, **changes))


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_session_forgets_the_topic_that_was_made_anew(partitions: int) -> None:
    """By its old id. The new one is to be told, though it is wanted from the same offset."""
    later = fault("stand still", 1_000)
    happens(fault("recreate", 100, 20), later, partitions=partitions, append_every_us=300 * MS)


def test_a_topic_that_an_old_view_brings_back_is_not_told_and_forgotten_at_once() -> None:
    """Brokers that have not heard yet show the old id again, between two Fetches."""
    faults = [fault("recreate", at_ms, 20) for at_ms in range(50, 1000, 150)]
    config = replace(CALM.config, metadata_max_age_ms=20)
    happens(
        *faults, config=config, brokers=3, partitions=5, append_every_us=300 * MS, lag_us=300_000
    )


def test_how_long_offsets_are_throttled_is_obeyed() -> None:
    """ListOffsets is among the requests whose throttle times clients obey (KIP-219)."""
    happens(fault("throttle", 0, 300, number=4), offset=-1)


def test_what_was_asked_of_a_topic_that_is_gone_says_nothing_of_the_new_one() -> None:
    """Where it begins was asked by its name, before it was known to be another."""
    happens(fault("recreate", 0, 20), offset=-1, partitions=2, batches=20, delay_us=100)


def test_what_a_leader_read_before_it_was_deposed_is_not_taken_after_it() -> None:
    """The new leader has lost it, and its log grows while both are asked."""
    config = replace(
        CALM.config, fetch_min_bytes=100_000, fetch_max_wait_ms=200, metadata_max_age_ms=50
    )
    happens(
        fault("deaf", 0, 1_000),
        fault("lose", 10, broker=2, number=7),
        config=config,
        brokers=2,
        partitions=5,
        batches=1,
        hints=False,
    )


def test_nobody_is_asked_where_an_epoch_ends_when_leaders_are_known_without_epochs() -> None:
    """One that an old view leads back to does not know the epoch, and would not say that it is
    deposed: the position would be reset.
    """
    happens(
        fault("lead unheard", 50, 2_500, broker=2),
        fault("lead unheard", 400, 300, broker=3),
        config=replace(CALM.config, auto_offset_reset="latest", metadata_max_age_ms=50),
        brokers=3,
        partitions=5,
        batches=3,
        metadata_version=4,
        fetch_version=8,
        lag_us=5_000,
        replica_lag_us=30_000,
        seeds=10,
    )


@pytest.mark.parametrize(
    ("kind", "at_ms", "case"),
    [
        ("fall behind", 300, RangeCase.UNAVAILABLE),
        ("begin later", 0, RangeCase.FOLLOWER_BEGINS_LATER),
    ],
)
def test_what_a_follower_has_not_yet_is_told_from_what_it_has_no_more(
    kind: str, at_ms: int, case: RangeCase
) -> None:
    """Cases 2 and 3 of KIP-392: the leader has the position, and named the follower."""
    rack = {"client_rack": "rack-0"}  # of broker 2
    seen = Seen()
    for seed in range(20):
        story = replace(
            CALM,
            seed=seed,
            brokers=2,
            batches=20,
            offset=0,
            names_replicas=True,
            config=replace(CALM.config, **rack),
            faults=(fault(kind, at_ms, 500, broker=2, number=7),),
        )
        seen.update(play(story))
    both = {named(RangeCase.UNAVAILABLE), named(RangeCase.FOLLOWER_BEGINS_LATER)}
    assert both & set(+seen) == {named(case)}
