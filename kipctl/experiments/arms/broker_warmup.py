"""Brokers at work before anything is measured: a JVM compiles what it does often."""

from collections.abc import Callable

from kipctl.experiments.arms.end_to_end_load import (
    Load,
    await_us,
    finish,
    probe_reader,
    probe_writer,
    recorded_in,
)
from kipctl.experiments.arms.stand import Stand
from kipctl.load.own_topic import own_topic
from kipctl.probe.leadership import LeaderDiscovery


def warm_up(
    load: Load, partitions: int, stand: Stand, seconds: float, message: Callable[[str], None]
) -> None:
    """Produce and read for so long, on a topic of its own that is gone afterwards."""
    if not seconds:
        return
    message(f"Warming up the brokers for {seconds:g} s.")
    with (
        recorded_in(None) as run,
        own_topic(stand.cluster, partitions, 0, lambda _: None),
        probe_reader(load, LeaderDiscovery.KIP951) as reader,
        probe_writer(load, LeaderDiscovery.KIP951) as writer,
    ):
        await_us(writer.start_us + round(seconds * 1e6))
        finish(writer, reader, run)
