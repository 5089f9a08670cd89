"""kipctl's own producer and consumer, until they are ended."""

import os
import signal
import stat
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from kipctl.load.presets import PRODUCER, own_topics
from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.consume.run import ConsumeSpec
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.run import ProduceSpec
from kipctl.protocol.address import Address
from kipctl.protocol.metadata import metadata_request
from kipctl.protocol.produce_frames import Topic
from kipctl.trace.clock import now_us
from kipctl.transport.access import Access
from kipctl.transport.request import Cluster
from kipctl.transport.sockets import SystemSockets

_TIMEOUT_S = 30.0
_MOST_S = 600
_RECORD_SIZE = 10


def main(
    role: str,
    bootstrap: str,
    topic: str,
    partitions: str,
    rate: str,
    acks: str,
    client_id: str,
    rack: str,
    metadata_ms: str,
) -> None:
    """Send or read for as long as nobody ends it, ten minutes at most."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    access, records = Access(bootstrap), int(rate) * _MOST_S
    is_told = stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode)
    with tempfile.TemporaryDirectory(prefix="kipctl-conform-own-") as name:
        folder = Path(name)
        if role == PRODUCER and is_told:
            _send_to_topics(access, topic, int(metadata_ms), folder, lambda: bool(stopped))
            return
        spec = own_spec(role, access, topic, records, int(rate), rack, int(metadata_ms))
        spec.run(folder, lambda schedule: None, lambda: bool(stopped))


def own_spec(
    role: str, access: Access, topic: str, records: int, rate: int, rack: str, metadata_ms: int
) -> ProduceSpec | ConsumeSpec:
    """What it sends to one topic, or reads of it, from the earliest offset on."""
    if role == PRODUCER:
        config = ProducerConfig(
            partitioner="round-robin",
            metadata_max_age_ms=metadata_ms,
            metadata_recovery_rebootstrap_trigger_ms=metadata_ms,
        )
        return ProduceSpec(access, topic, records, rate, _RECORD_SIZE, config=config)
    reading = ConsumerConfig(
        auto_offset_reset="earliest",
        client_rack=rack,
        metadata_max_age_ms=metadata_ms,
        metadata_recovery_rebootstrap_trigger_ms=metadata_ms,
    )
    return ConsumeSpec(access, topic, records, config=reading)


def _send_to_topics(
    access: Access, topic: str, metadata_ms: int, folder: Path, is_over: Callable[[], bool]
) -> None:
    """To the topic that standard input named last."""
    told = [topic]
    reading = threading.Thread(target=lambda: told.extend(map(str.strip, sys.stdin)), daemon=True)
    with Cluster(access, "kipctl", _TIMEOUT_S) as cluster:
        shown = cluster.any_broker().request(metadata_request(None)).topics
        node = next(iter(cluster.nodes.values()))
        sockets = SystemSockets(now_us, cluster.access)
    reading.start()
    own_topics.send(
        Address(node.host, node.port),
        [Topic(t.name or "", t.topic_id) for t in shown],
        len(shown[0].partitions),
        metadata_ms,
        lambda: told[-1],
        is_over,
        sockets,
        folder,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
