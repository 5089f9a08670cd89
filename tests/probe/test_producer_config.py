"""Kafka's producer properties: each is understood or refused, none is silently without effect."""

from dataclasses import asdict

import pytest

from kipctl.errors import UsageError
from kipctl.probe.config import parse_pairs
from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.produce.config import ProducerConfig, parse_properties, producer_properties

ACCEPTED = [
    ("acks", "all", -1),
    ("acks", "-1", -1),
    ("acks", "0", 0),
    ("acks", "1", 1),
    ("batch.size", "0", 0),
    ("receive.buffer.bytes", "2097152", 2097152),
    ("batch.size", "65536", 65536),
    ("buffer.memory", "33554432", 33554432),
    ("client.id", "my client", "my client"),
    ("compression.type", "none", "none"),
    ("compression.type", "gzip", "gzip"),
    ("compression.type", "snappy", "snappy"),
    ("compression.type", "lz4", "lz4"),
    ("compression.type", "zstd", "zstd"),
    ("delivery.timeout.ms", "30000", 30000),
    ("enable.idempotence", "true", True),
    ("enable.idempotence", "False", False),
    ("linger.ms", "0", 0),
    ("linger.ms", "0.5", 0.5),
    ("max.in.flight.requests.per.connection", "1", 1),
    ("max.request.size", "1", 1),
    ("metadata.max.age.ms", "1000", 1000),
    ("metadata.max.idle.ms", "5000", 5000),
    ("partitioner", "sticky", "sticky"),
    ("partitioner", "round-robin", "round-robin"),
    ("reconnect.backoff.ms", "0", 0),
    ("request.timeout.ms", "1", 1),
    ("retries", "1", 1),
    ("retry.backoff.max.ms", "0", 0),
    ("retry.backoff.ms", "0", 0),
    ("metadata.recovery.rebootstrap.trigger.ms", "0", 0),
    ("reconnect.backoff.max.ms", "0", 0),
    ("socket.connection.setup.timeout.ms", "1", 1),
    ("socket.connection.setup.timeout.max.ms", "1", 1),
]


@pytest.mark.parametrize(("name", "text", "value"), ACCEPTED)
def test_a_property_sets_its_field_and_nothing_else(name: str, text: str, value: object) -> None:
    config = parse_properties({name: text})
    assert getattr(config, name.replace(".", "_")) == value
    given = {name, "enable.idempotence"} if name == "acks" else {name}
    default = producer_properties(parse_properties({}))
    changed = {key for key, shown in producer_properties(config).items() if shown != default[key]}
    assert changed <= given


def test_every_property_is_in_that_table() -> None:
    assert {name for name, _, _ in ACCEPTED} == set(producer_properties(ProducerConfig()))


OF_BOTH_CLIENTS = {
    "metadata_max_age_ms": 300_000,
    "metadata_recovery_rebootstrap_trigger_ms": 300_000,
    "reconnect_backoff_ms": 50,
    "reconnect_backoff_max_ms": 1000,
    "request_timeout_ms": 30_000,
    "retry_backoff_ms": 100,
    "retry_backoff_max_ms": 1000,
    "socket_connection_setup_timeout_ms": 10_000,
    "socket_connection_setup_timeout_max_ms": 30_000,
}


@pytest.mark.parametrize(
    ("config", "of_java"),
    [
        (
            ProducerConfig(),
            {
                "acks": -1,
                "batch_size": 16_384,
                "buffer_memory": 33_554_432,
                "compression_type": "none",
                "delivery_timeout_ms": 120_000,
                "enable_idempotence": True,
                "max_in_flight_requests_per_connection": 5,
                "max_request_size": 1_048_576,
                "metadata_max_idle_ms": 300_000,
                "retries": 2_147_483_647,
            },
        ),
        (
            ConsumerConfig(),
            {
                "auto_offset_reset": "latest",
                "check_crcs": True,
                "client_rack": "",
                "fetch_max_bytes": 52_428_800,
                "fetch_max_wait_ms": 500,
                "fetch_min_bytes": 1,
                "isolation_level": "read_uncommitted",
                "max_partition_fetch_bytes": 1_048_576,
            },
        ),
    ],
    ids=["producer", "consumer"],
)
def test_what_is_not_given_is_as_in_java_but_for_a_few(
    config: ProducerConfig | ConsumerConfig, of_java: dict[str, object]
) -> None:
    """Kafka 4.3's `ProducerConfig` and `ConsumerConfig`."""
    others = {"client_id", "receive_buffer_bytes", "linger_ms", "partitioner"}
    assert {n: v for n, v in asdict(config).items() if n not in others} == OF_BOTH_CLIENTS | of_java


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("acks", "2"),
        ("acks", "most"),
        ("batch.size", "-1"),
        ("batch.size", "16k"),
        ("batch.size", ""),
        ("buffer.memory", "-5"),
        ("compression.type", "lzma"),
        ("compression.type", "GZIP"),
        ("enable.idempotence", "yes"),
        ("linger.ms", "-0.1"),
        ("linger.ms", "nan"),
        ("linger.ms", "soon"),
        ("metadata.max.idle.ms", "4999"),
        ("max.in.flight.requests.per.connection", "0"),
        ("max.request.size", "0"),
        ("partitioner", "murmur"),
        ("request.timeout.ms", "0"),
        # It goes to the broker as 32 bits.
        ("request.timeout.ms", "2147483648"),
        ("retries", "-1"),
        ("retries", "1.5"),
        ("retry.backoff.ms", "-1"),
    ],
)
def test_a_wrong_value_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_properties({name: text, "delivery.timeout.ms": "9999999999"})
    assert f"Property {name}={text!r} has a wrong value" in refused.value.what


@pytest.mark.parametrize(
    "name", ["ack", "linger_ms", "batch_size", "enable.idempotency", "transactional.id", ""]
)
def test_an_unknown_property_is_refused_and_the_known_ones_are_named(name: str) -> None:
    with pytest.raises(UsageError, match="is not one that kipctl's producer has") as refused:
        parse_properties({name: "1"})
    assert "retry.backoff.ms" in refused.value.next_step


def test_what_kafkas_tools_are_given_and_has_no_meaning_here_is_accepted() -> None:
    config = parse_properties(
        {
            "bootstrap.servers": "localhost:9092",
            "key.serializer": "org.apache.kafka.common.serialization.ByteArraySerializer",
            "value.serializer": "org.apache.kafka.common.serialization.ByteArraySerializer",
            "partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner",
        }
    )
    assert config == parse_properties({"partitioner": "round-robin"})
    with pytest.raises(UsageError, match="no such partitioner"):
        parse_properties({"partitioner.class": "com.example.Mine"})


@pytest.mark.parametrize(
    ("name", "done", "not_done"),
    [
        ("client.dns.lookup", "use_all_dns_ips", "default"),
        ("partitioner.adaptive.partitioning.enable", "false", "true"),
        ("partitioner.availability.timeout.ms", "0", "100"),
    ],
)
def test_what_there_is_no_choice_of_is_accepted_if_it_is_done(
    name: str, done: str, not_done: str
) -> None:
    assert parse_properties({name: done}) == parse_properties({})
    with pytest.raises(UsageError, match=f"{name}={not_done} says .* does not do") as refused:
        parse_properties({name: not_done})
    assert f"{name}={done}" in refused.value.next_step


@pytest.mark.parametrize(
    ("properties", "idempotent"),
    [
        ({}, True),
        ({"acks": "all"}, True),
        # Not asked for, it gives way to what is (Java's postProcessAndValidateIdempotenceConfigs).
        ({"acks": "1"}, False),
        ({"acks": "0"}, False),
        ({"max.in.flight.requests.per.connection": "6"}, False),
        ({"max.in.flight.requests.per.connection": "5"}, True),
        ({"retries": "0"}, False),
        ({"enable.idempotence": "false"}, False),
        ({"enable.idempotence": "false", "max.in.flight.requests.per.connection": "6"}, False),
        ({"enable.idempotence": "true", "acks": "-1"}, True),
    ],
)
def test_idempotence_follows_the_other_settings_unless_it_is_asked_for(
    properties: dict[str, str], idempotent: bool
) -> None:
    assert parse_properties(properties).enable_idempotence is idempotent


@pytest.mark.parametrize(
    ("properties", "what"),
    [
        ({"acks": "1"}, "acks=all"),
        ({"acks": "0"}, "acks=all"),
        ({"max.in.flight.requests.per.connection": "6"}, "at most 5"),
        ({"retries": "0"}, "retries"),
    ],
)
def test_idempotence_that_is_asked_for_demands_its_conditions(
    properties: dict[str, str], what: str
) -> None:
    with pytest.raises(UsageError, match=r"enable\.idempotence") as refused:
        parse_properties({"enable.idempotence": "true", **properties})
    assert what in refused.value.what


@pytest.mark.parametrize(
    ("properties", "accepted"),
    [
        ({"delivery.timeout.ms": "30000"}, True),
        ({"delivery.timeout.ms": "29999"}, False),
        ({"delivery.timeout.ms": "30000", "linger.ms": "1"}, False),
        ({"delivery.timeout.ms": "500", "request.timeout.ms": "400", "linger.ms": "100"}, True),
        ({"linger.ms": "inf"}, False),
    ],
)
def test_the_delivery_timeout_has_room_for_lingering_and_one_request(
    properties: dict[str, str], accepted: bool
) -> None:
    if accepted:
        parse_properties(properties)
        return
    with pytest.raises(UsageError, match=r"delivery\.timeout\.ms must be at least"):
        parse_properties(properties)


def test_a_configuration_is_shown_as_properties_that_make_it_again() -> None:
    for config in (
        ProducerConfig(),
        parse_properties({"acks": "1", "linger.ms": "2.5", "compression.type": "zstd"}),
        parse_properties({"acks": "0", "partitioner": "round-robin", "client.id": "c"}),
    ):
        shown = producer_properties(config)
        assert set(shown) == set(producer_properties(ProducerConfig()))
        assert parse_properties(shown) == config
    assert producer_properties(ProducerConfig())["acks"] == "all"
    assert producer_properties(ProducerConfig())["enable.idempotence"] == "true"


def test_pairs_of_the_command_line() -> None:
    assert parse_pairs(["acks=1", "client.id=a=b", "client.id="]) == {"acks": "1", "client.id": ""}
    for wrong in ("acks", "=1", ""):
        with pytest.raises(UsageError, match="is not name=value"):
            parse_pairs([wrong])
