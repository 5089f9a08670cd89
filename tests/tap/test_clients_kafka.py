"""Stock clients through the tap while leaders rotate: no error of its making, no byte changed.

Each works for 8 s; KIPCTL_TAP_SECONDS=60 makes it the full minute (ten minutes in all).
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from stock_clients import (
    CODECS,
    IN_FLIGHT,
    MEGABYTES_10,
    ROOM,
    Done,
    Reader,
    Writer,
    confluent_consumer,
    confluent_producer,
    console_consumers,
    console_producer,
    digest,
    in_threads,
    kafka_python_codecs,
    kafka_python_consumer,
    kafka_python_producer,
    log_of,
    paced,
    rotating,
    seconds_of_test,
    values,
)

from kipctl.clients.java import JavaClient
from kipctl.clients.load import ConsumerLoad, ProducerLoad
from kipctl.lab.cluster import Lab
from kipctl.lab.jars import KafkaJars, fetched_jars
from kipctl.lab.java import find_java
from kipctl.tap.export import record_batches
from kipctl.tap.process import TapOutcome, running_tap
from kipctl.tap.spec import TapSpec
from kipctl.transport.access import Access

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600 + 8 * seconds_of_test())]
VERSIONS = ("3.6.0", "4.3.1")
PARTITIONS = 6
SECONDS = seconds_of_test()
PER_SECOND = 200
LARGE_PER_SECOND = 0.5


@pytest.fixture(scope="module", autouse=True)
def releases(fetched_kafka: Callable[[str], KafkaJars]) -> None:
    """The clients under test are of these releases."""
    for version in VERSIONS:
        fetched_kafka(version)


@dataclass(frozen=True, slots=True)
class Place:
    """A topic of 6 partitions on 3 brokers, and a folder."""

    lab: Lab
    topic: str
    folder: Path


@pytest.fixture
def place(lab: Lab, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    name = re.sub(r"\W+", "-", request.node.name).strip("-")
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server})
    # A lab keeps no more than 32 MiB of a partition, unless the topic says otherwise.
    config = {"max.message.bytes": str(12 * 1024 * 1024), "retention.bytes": "-1"}
    admin.create_topics([NewTopic(name, PARTITIONS, 3, config=config)])[name].result()
    yield Place(lab, name, tmp_path)
    admin.delete_topics([name])[name].result()


def written_through(outcome: TapOutcome, directory: Path) -> int:
    """Records that came into the log through the tap, by its own rows: those acknowledged, and
    those of an answer that names both an error and an offset (appended before the leader moved).

    The latter are never sent again by librdkafka if it is idempotent and a later batch of the
    partition was acknowledged: that tells it that they are in the log.
    """
    records = 0
    for rows in record_batches(outcome, directory, "batches"):
        columns = rows.select(["records", "error", "base_offset"]).to_pydict()
        records += sum(
            count
            for count, error, offset in zip(*columns.values(), strict=True)
            if not error or (offset is not None and offset >= 0)
        )
    return records


def through_the_tap(place: Place, work: Callable[[str, str, Path], Done]) -> Done:
    """Work for some seconds through a tap while leaders rotate, and check what it came to.

    `work` gets a bootstrap server, the topic and a folder. When it tells of an error, it is done
    once more without the tap: the same kinds of error have to come up there.
    """
    trace = place.folder / "trace"
    trace.mkdir()
    here = place.lab.bootstrap_server
    with (
        running_tap(TapSpec(access=Access(here)), trace) as tap,
        rotating(here, place.topic) as rotations,
    ):
        done = work(tap.bootstrap_server, place.topic, place.folder / "through")
        through = log_of(tap.bootstrap_server, place.topic, PARTITIONS)
        outcome = tap.stop()
    assert rotations.count(None) == len(rotations) >= SECONDS / 5, done.errors
    direct = log_of(here, place.topic, PARTITIONS)

    # Content: the log is the same through the tap and without it, and holds what was written, once.
    assert digest(value for *_, value in through) == digest(value for *_, value in direct)
    assert [at[:2] for at in through] == [at[:2] for at in direct]
    in_log = sorted(value for *_, value in direct)
    if done.written:
        assert digest(in_log) == digest(sorted(done.written))
    assert digest(sorted(set(done.read))) == digest(in_log)

    # Nobody walked around the tap, and it had nothing to complain of.
    assert written_through(outcome, trace) == len(in_log)
    counts = [seen.counts for seen in outcome.clients]
    assert outcome.messages == ()
    assert sum(one.not_decoded for one in counts) == 0
    assert sum(one.leader_errors for one in counts) > 0
    told = Counter({"records": len(in_log), "rotations": len(rotations)})
    for one in counts:
        told.update(requests=sum(one.requests.values()), leader_errors=one.leader_errors)
        told.update(hints=one.hints, redirects=one.redirects)
    print(place.topic, dict(told), "errors:", done.errors)
    if done.errors:
        met: set[str] = set()
        for attempt in range(3):  # what leaders that move do to a client differs from run to run
            with rotating(here, place.topic):
                without = work(here, place.topic, place.folder / f"without-{attempt}")
            met |= kinds(without.errors)
            if kinds(done.errors) <= met:
                break
        assert kinds(done.errors) <= met, done.errors
    return done


def kinds(errors: list[str]) -> set[str]:
    """Errors without what is different each time: numbers."""
    return {re.sub(r"\d+", "#", error) for error in errors}


@pytest.mark.parametrize(
    ("version", "protocol"), [("3.6.0", "classic"), ("4.3.1", "classic"), ("4.3.1", "consumer")]
)
def test_java_producers_of_every_codec_and_a_group_of_two(
    place: Place, version: str, protocol: str
) -> None:
    def work(server: str, topic: str, folder: Path) -> Done:
        properties = ["session.timeout.ms=30000"] if protocol == "classic" else []
        properties += ["group.protocol=consumer"] if protocol == "consumer" else []
        with console_consumers(version, server, topic, 2, properties, folder) as done:
            for codec in CODECS:
                lines = paced(values(SECONDS / len(CODECS), PER_SECOND, 500, codec))
                written = console_producer(version, server, topic, codec, lines, folder / codec)
                done.written += written.written
                done.errors += written.errors
        return done

    through_the_tap(place, work)


@pytest.mark.parametrize("version", VERSIONS)
def test_java_transactions(place: Place, version: str) -> None:
    num_records = int(SECONDS * PER_SECOND)
    load = ProducerLoad(
        topic=place.topic,
        num_records=num_records,
        throughput=PER_SECOND,
        record_size=500,
        properties={
            "transactional.id": place.topic,
            "compression.type": "lz4",
            IN_FLIGHT: "1",
        },
        transaction_ms=250,
    )
    done = perf_through_the_tap(place, version, load)
    assert len(done.read) == num_records


@pytest.mark.parametrize("version", VERSIONS)
def test_java_messages_of_10_mb(place: Place, version: str) -> None:
    load = ProducerLoad(
        topic=place.topic,
        num_records=max(4, int(SECONDS * LARGE_PER_SECOND)),
        throughput=1,
        record_size=MEGABYTES_10,
        properties={**ROOM, "acks": "all", IN_FLIGHT: "1"},
    )
    done = perf_through_the_tap(place, version, load)
    assert all(value.startswith(b"10485760 bytes") for value in done.read)
    assert len(done.read) == load.num_records


def perf_through_the_tap(place: Place, version: str, load: ProducerLoad) -> Done:
    """Java's performance tools, producer and consumer at the same time, with a tap between."""
    java = find_java()
    jars = fetched_jars(version, java, lambda text: None)
    client = JavaClient(version, java.path, jars.paths, heap_mb=512)

    def work(server: str, topic: str, folder: Path) -> Done:
        wanted = ConsumerLoad(
            topic=topic,
            num_records=load.num_records,
            group=f"{topic}-{folder.name}",
            properties={
                "isolation.level": "read_committed",
                "max.partition.fetch.bytes": str(12 * 1024 * 1024),
            },
            timeout_s=30,
        )
        with (
            client.consumer(wanted, Access(server)) as consumer,
            client.producer(load, Access(server)) as producer,
        ):
            produced, consumed = producer.outcome(), consumer.outcome()
        assert (produced.version, consumed.version) == (version, version)
        assert produced.records + produced.failed == load.num_records
        assert consumed.records is not None
        assert consumed.records >= produced.records
        errors = [error for error in (produced.error, consumed.error) if error]
        # The tools keep no values: what the log holds through the tap is what is read.
        read = [value for *_, value in log_of(server, topic, PARTITIONS)]
        return Done(read=read, errors=errors)

    return through_the_tap(place, work)


def incompressible(seconds: float, per_second: float) -> Iterator[tuple[float, bytes]]:
    """Values of 10 MB."""
    for number in range(max(3, int(seconds * per_second))):
        yield number / per_second, random.Random(number).randbytes(MEGABYTES_10)


@pytest.mark.parametrize(
    ("write", "read", "codecs"),
    [
        pytest.param(confluent_producer, confluent_consumer, CODECS, id="confluent-kafka"),
        pytest.param(
            kafka_python_producer, kafka_python_consumer, kafka_python_codecs(), id="kafka-python"
        ),
    ],
)
def test_python_producers_of_every_codec_and_a_group_of_two(
    place: Place, write: Writer, read: Reader, codecs: list[str]
) -> None:
    def work(server: str, topic: str, folder: Path) -> Done:
        loads = {
            codec: [paced(values(SECONDS, PER_SECOND // len(codecs), 500, codec))]
            for codec in codecs
        }
        loads["none"].append(paced(incompressible(SECONDS, LARGE_PER_SECOND)))
        return in_threads(server, topic, write, read, loads, members=2)

    through_the_tap(place, work)
