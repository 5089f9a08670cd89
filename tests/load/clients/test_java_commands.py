"""How Java's performance tools are called: by table."""

import stat
from pathlib import Path

import pytest

from kipctl.load.clients.client import ConsumerLoad, ProducerLoad
from kipctl.load.clients.java_command import (
    consumer_arguments,
    jvm_arguments,
    producer_arguments,
    system_properties,
    write_files,
)
from kipctl.transport.access import Access

FOLDER = Path("/f")
LOAD = ProducerLoad(topic="t", num_records=1000, throughput=500, record_size=100)


def after(arguments: list[str], option: str) -> str | None:
    return arguments[arguments.index(option) + 1] if option in arguments else None


@pytest.mark.parametrize(
    ("version", "option"),
    [
        ("3.6.0", "--producer.config"),
        ("4.2.0", "--producer.config"),
        ("4.3.1", "--command-config"),
        ("4.10.0", "--command-config"),
        ("5.0.0-SNAPSHOT", "--command-config"),
    ],
)
def test_a_producer_is_called_as_its_version_wants(version: str, option: str) -> None:
    assert producer_arguments(version, LOAD, FOLDER) == [
        "org.apache.kafka.tools.ProducerPerformance",
        "--topic",
        "t",
        "--num-records",
        "1000",
        "--record-size",
        "100",
        "--throughput",
        "500",
        option,
        "/f/client.properties",
    ]


def test_transactions_are_asked_for_by_option_where_the_property_would_be_overridden() -> None:
    load = ProducerLoad(
        topic="t",
        num_records=1,
        throughput=0,
        record_size=1,
        properties={"transactional.id": "mine"},
        transaction_ms=500,
    )
    arguments = producer_arguments("3.6.0", load, FOLDER)
    assert after(arguments, "--transaction-duration-ms") == "500"
    assert after(arguments, "--transactional-id") == "mine"
    assert after(arguments, "--throughput") == "-1"  # full speed


@pytest.mark.parametrize(
    ("version", "properties", "option", "value"),
    [
        ("3.6.0", {}, "--messages", "9"),
        ("4.3.1", {}, "--num-records", "9"),
        ("3.6.0", {}, "--consumer.config", "/f/client.properties"),
        ("4.3.1", {}, "--command-config", "/f/client.properties"),
        ("4.3.1", {}, "--timeout", "2500"),
        # The tool's own defaults are 2 MiB for the socket; Java's consumer has 64 KiB.
        ("4.3.1", {}, "--socket-buffer-size", "65536"),
        ("4.3.1", {"receive.buffer.bytes": "1"}, "--socket-buffer-size", "1"),
        ("4.3.1", {"max.partition.fetch.bytes": "2"}, "--fetch-size", "2"),
    ],
)
def test_a_consumer_gets_its_properties_also_where_the_tool_overrides_them(
    version: str, properties: dict[str, str], option: str, value: str
) -> None:
    load = ConsumerLoad(topic="t", num_records=9, group="g", properties=properties, timeout_s=2.5)
    assert after(consumer_arguments(version, load, Access("b:1"), FOLDER), option) == value


@pytest.mark.parametrize(("reset", "is_given"), [("latest", True), ("earliest", False)])
def test_where_a_consumer_begins(reset: str, is_given: bool) -> None:
    load = ConsumerLoad(
        topic="t", num_records=9, group="g", properties={"auto.offset.reset": reset}
    )
    assert ("--from-latest" in consumer_arguments("3.6.0", load, Access("b:1"), FOLDER)) == is_given


def test_properties_are_for_their_owner_alone_and_not_among_the_arguments(tmp_path: Path) -> None:
    load = ProducerLoad(
        topic="t",
        num_records=1,
        throughput=1,
        record_size=1,
        properties={"ssl.key.password": "secret"},
    )
    write_files(tmp_path, load.properties, Access("b:1"))
    path = tmp_path / "client.properties"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == "bootstrap.servers=b\\:1\nssl.key.password=secret\n"
    assert "secret" not in " ".join(producer_arguments("4.3.1", load, tmp_path))


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("", False),
        ("https://idp.example/token", True),
        ("file:///var/token", True),
        ("https://me:hush@idp.example/token", False),  # a JVM's arguments are seen by all
    ],
)
def test_a_jvm_is_told_which_endpoint_its_clients_may_ask(url: str, told: bool) -> None:
    """Since Kafka 3.9.1 they refuse any other (`ConfigurationUtils`)."""
    access = Access("b:1", properties={"sasl.oauthbearer.token.endpoint.url": url})
    assert [*system_properties(access).values()] == ([url] if told else [])


def test_the_jvm_has_both_compilers_and_a_heap_that_does_not_grow() -> None:
    arguments = jvm_arguments((Path("/j/a.jar"), Path("/j/b.jar")), 256, FOLDER)
    assert {"-Xms256m", "-Xmx256m", "-XX:+UseG1GC"} <= set(arguments)
    assert not [argument for argument in arguments if "Tiered" in argument]
    assert arguments[-2:] == ["-cp", "/j/a.jar:/j/b.jar"]
