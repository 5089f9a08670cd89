"""Stories of the producer that chance alone would seldom tell."""

from dataclasses import replace

import pytest
from play import play
from stage import named
from story import Story

from kipctl.probe.leadership import LeaderDiscovery
from kipctl.probe.produce.config import ProducerConfig
from kipctl.trace.codes import MetadataCause

SLOW = Story(
    seed=1,
    brokers=2,
    partitions=2,
    produce_version=13,
    metadata_version=13,
    hints=True,
    endpoints=True,
    proxied=False,
    delay_us=1_000,
    lag_us=0,
    discovery=LeaderDiscovery.KIP951,
    config=ProducerConfig(
        acks=-1,
        enable_idempotence=True,
        partitioner="round-robin",
        request_timeout_ms=300,
        metadata_max_age_ms=150,
    ),
    topics=1,
    num_records=5,
    throughput=1,
    faults=(),
)


@pytest.mark.parametrize(("max_idle_ms", "evicted"), [(200, 4), (1_100, 0), (300_000, 0)])
def test_a_topic_that_gets_no_record_for_long_is_forgotten_until_one_comes(
    max_idle_ms: int, evicted: int
) -> None:
    """A record a second: the first four are each followed by more than 200 ms without any, and
    the renewal after that drops the topic. A record that comes then asks for it alone, at once."""
    story = replace(SLOW, config=replace(SLOW.config, metadata_max_idle_ms=max_idle_ms))
    seen = play(story)
    assert seen[named(MetadataCause.IDLE_EVICTION)] == evicted
    assert seen[named(MetadataCause.LEADER_CHANGE)] == 0
    assert seen[named(MetadataCause.MAX_AGE)] > 20
    assert seen["failed"] == 0
