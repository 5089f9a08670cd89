"""What is asked of a lab becomes the files of its nodes: decided without Kafka."""

from pathlib import Path

import pytest
from test_lab_commands import recorded_lab

from kipctl.errors import UsageError
from kipctl.experiments.arms.stand import Place
from kipctl.lab.cluster import Lab
from kipctl.lab.properties import (
    KAFKAS_SESSION,
    LabSpec,
    NodeSpec,
    Role,
    kafka_uuid,
    log4j_config,
    meta_properties,
    node_specs,
    server_properties,
    suits_c1,
)
from kipctl.lab.security import Security
from kipctl.process import Process

FOLDER = Path("/lab/broker-1")
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@pytest.mark.parametrize(("cores", "suits"), [(2, True), (3, True), (4, False), (None, True)])
def test_c1_alone_is_for_machines_with_fewer_cores_than_nodes(
    cores: int | None, suits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert suits_c1(4) is suits
    assert Place().lab.c1_only is suits


def properties(node_id: int, version: str = "4.3.1", **spec: object) -> dict[str, str]:
    asked = LabSpec(**spec)
    nodes = node_specs(asked, 20000)
    node = next(n for n in nodes if n.id == node_id)
    return server_properties(node, nodes, FOLDER, version, asked.config)


@pytest.mark.parametrize(
    ("spec", "racks"),
    [
        ({}, ["rack-1", "rack-2", "rack-3"]),
        ({"brokers": 1, "racks": 0}, [None]),
        ({"brokers": 3, "racks": 2, "controllers": 2}, ["rack-1", "rack-2", "rack-1"]),
    ],
)
def test_nodes_racks_and_ports(spec: dict[str, int], racks: list[str | None]) -> None:
    nodes = node_specs(LabSpec(**spec), 20000)
    brokers, controllers = nodes[: len(racks)], nodes[len(racks) :]
    assert [(n.id, n.role, n.rack) for n in brokers] == [
        (number, Role.BROKER, rack) for number, rack in enumerate(racks, 1)
    ]
    assert [(n.id, n.role, n.rack) for n in controllers] == [
        (101 + number, Role.CONTROLLER, None) for number in range(spec.get("controllers", 1))
    ]
    assert [n.port for n in nodes] == [*range(20000, 20000 + len(nodes))]


@pytest.mark.parametrize(
    ("spec", "ports", "metrics"),
    [
        ({"metrics": True}, [(20000, 20003), (20001, 20004), (20002,)], (20003, 20004)),
        ({"security": Security.SSL}, [(20000, 20003), (20001, 20004), (20002,)], ()),
        (
            {"security": Security.SSL, "metrics": True},
            [(20000, 20003, 20005), (20001, 20004, 20006), (20002,)],
            (20005, 20006),
        ),
    ],
)
def test_brokers_with_metrics_or_security_have_a_port_more_for_each(
    spec: dict[str, object], ports: list[tuple[int, ...]], metrics: tuple[int, ...]
) -> None:
    asked = LabSpec(brokers=2, **spec)
    nodes = node_specs(asked, 20000)
    assert [node.ports for node in nodes] == ports
    assert asked.ports == sum(map(len, ports))
    urls = [f"http://127.0.0.1:{port}/metrics" for port in metrics]
    assert [node.metrics_url for node in nodes if node.metrics_url] == urls
    plaintext = [20003, 20004] if "security" in spec else [20000, 20001]
    assert [node.plaintext_port for node in nodes] == [*plaintext, 20002]


@pytest.mark.parametrize(
    ("node_id", "spec", "key", "value"),
    [
        (1, {}, "process.roles", "broker"),
        (101, {}, "process.roles", "controller"),
        (2, {}, "listeners", "PLAINTEXT://127.0.0.1:20001"),
        (2, {}, "advertised.listeners", "PLAINTEXT://127.0.0.1:20001"),
        (101, {}, "listeners", "CONTROLLER://127.0.0.1:20003"),
        (101, {}, "advertised.listeners", None),
        (
            1,
            {"controllers": 2},
            "controller.quorum.voters",
            "101@127.0.0.1:20003,102@127.0.0.1:20004",
        ),
        (3, {}, "broker.rack", "rack-3"),
        (3, {"racks": 0}, "broker.rack", None),
        (101, {}, "broker.rack", None),
        (1, {}, "log.dirs", "/lab/broker-1/data"),
        (1, {}, "offsets.topic.replication.factor", "3"),
        (1, {"brokers": 1}, "offsets.topic.replication.factor", "1"),
        (1, {"brokers": 5}, "offsets.topic.replication.factor", "3"),
        (1, {"brokers": 1}, "transaction.state.log.min.isr", "1"),
        (1, {}, "broker.session.timeout.ms", "3000"),
        (101, {}, "broker.session.timeout.ms", "3000"),
        (1, {"config": KAFKAS_SESSION}, "broker.session.timeout.ms", "9000"),
        (1, {"config": KAFKAS_SESSION}, "broker.heartbeat.interval.ms", "2000"),
        (1, {"config": (("log.segment.bytes", "1048576"),)}, "log.segment.bytes", "1048576"),
        (101, {"config": (("num.io.threads", "2"),)}, "num.io.threads", "2"),
        (1, {}, "replica.selector.class", SELECTOR),
    ],
)
def test_server_properties(
    node_id: int, spec: dict[str, object], key: str, value: str | None
) -> None:
    assert properties(node_id, **spec).get(key) == value


def test_a_lab_for_an_experiment_has_kafkas_own_sessions() -> None:
    assert set(KAFKAS_SESSION) <= set(Place().lab.config)


def test_kafka_3_gets_no_property_of_the_share_coordinator() -> None:
    assert [k for k in properties(1, "3.6.2") if k.startswith("share.")] == []
    assert [k for k in properties(1, "4.3.1") if k.startswith("share.")] != []


@pytest.mark.parametrize(
    ("host", "listeners"),
    [
        ("127.0.0.1", "PLAINTEXT://127.0.0.1:20001"),
        ("::1", "CLIENTS://[::1]:20001,INTERNAL://127.0.0.1:20004"),
        ("localhost", "CLIENTS://localhost:20001,INTERNAL://127.0.0.1:20004"),
    ],
)
def test_clients_find_brokers_where_they_were_asked_to_be(host: str, listeners: str) -> None:
    given = properties(2, brokers=2, host=host)
    assert given["listeners"] == given["advertised.listeners"] == listeners


def test_a_node_with_both_roles_listens_for_clients_and_for_controllers() -> None:
    node = NodeSpec(1, Role.BOTH, None, 20000)
    listed = server_properties(node, (node,), FOLDER, "4.3.1")
    assert listed["listeners"] == "PLAINTEXT://127.0.0.1:20000,CONTROLLER://127.0.0.1:20001"
    assert listed["controller.quorum.voters"] == "1@127.0.0.1:20001"


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"name": "a/b"}, "'a/b' is no name for a lab"),
        ({"name": ""}, "'' is no name for a lab"),
        ({"name": ".."}, "'..' is no name for a lab"),
        ({"brokers": 0}, "1 to 100 brokers, not 0"),
        ({"brokers": 101}, "1 to 100 brokers, not 101"),
        ({"controllers": 0}, "1 to 9 controllers, not 0"),
        ({"racks": -1}, "cannot have -1 racks"),
        ({"kafka_version": "latest"}, "'latest' is no Kafka version"),
        ({"kafka_version": "../4.3.1"}, "'../4.3.1' is no Kafka version"),
        ({"kafka_version": "2.7.2"}, "Kafka 2.7.2 has no KRaft, and a lab no ZooKeeper"),
        ({"kafka_version": "0.11.0"}, "Kafka 0.11.0 has no KRaft"),
        ({"kafka_version": "2.8.2"}, "Kafka 2.8.2 has a KRaft whose brokers cannot read"),
        ({"host": "0.0.0.0"}, "not at '0.0.0.0'"),
        ({"port": 0}, "From port 0 on there is no room for 4 ports"),
        ({"port": 65533}, "From port 65533 on there is no room for 4 ports"),
        ({"port": 65530, "metrics": True}, "From port 65530 on there is no room for 7 ports"),
        ({"config": (("node.id", "7"),)}, "--config node.id cannot be set"),
    ],
)
def test_what_cannot_be_built_is_refused(spec: dict[str, object], told: str) -> None:
    with pytest.raises(UsageError) as refused:
        LabSpec(**spec)
    assert told in refused.value.what


def test_meta_properties_has_a_directory_id_of_its_own() -> None:
    first, second = meta_properties("cluster", 1), meta_properties("cluster", 1)
    assert {**first, "directory.id": ""} == {
        "version": "1",
        "cluster.id": "cluster",
        "node.id": "1",
        "directory.id": "",
    }
    assert first["directory.id"] != second["directory.id"]


def test_ids_are_as_kafka_takes_them() -> None:
    ids = {kafka_uuid() for _ in range(500)}
    assert len(ids) == 500
    assert {len(text) for text in ids} == {22}
    assert [text for text in ids if text.startswith("-")] == []


@pytest.mark.parametrize(
    ("version", "name", "option"),
    [
        ("4.3.1", "log4j2.properties", "-Dlog4j2.configurationFile="),
        ("3.6.2", "log4j.properties", "-Dlog4j.configuration=file:"),
    ],
)
def test_logging_follows_the_kafka_version(version: str, name: str, option: str) -> None:
    file_name, text, jvm_option = log4j_config(version, FOLDER)
    assert (file_name, jvm_option) == (name, f"{option}/lab/broker-1/{name}")
    assert "/lab/broker-1/server.log" in text
    assert "/lab/broker-1/request.log" in text


@pytest.mark.parametrize("version", ["4.3.1", "3.6.2"])
@pytest.mark.parametrize(
    ("asked", "level", "size", "old_files"),
    [(False, "WARN", "10MB", 1), (True, "DEBUG", "64MB", 3)],
)
def test_a_request_log_that_is_asked_for_is_on_and_has_more_room(
    version: str, asked: bool, level: str, size: str, old_files: int
) -> None:
    _, text, _ = log4j_config(version, FOLDER, asked)
    lines = text.replace(" = ", "=").removeprefix("log4j.").replace("\nlog4j.", "\n").splitlines()
    set_to = dict(line.split("=", 1) for line in lines)
    if version == "4.3.1":
        assert set_to["logger.request.level"] == level
        assert set_to["appender.request.policy.size"] == size
        assert set_to["appender.request.strategy.max"] == str(old_files)
        assert set_to["appender.server.policy.size"] == "10MB"
    else:
        assert set_to["logger.kafka.request.logger"] == f"{level}, request"
        assert set_to["appender.request.MaxFileSize"] == size
        assert set_to["appender.request.MaxBackupIndex"] == str(old_files)
        assert set_to["appender.server.MaxFileSize"] == "10MB"


@pytest.mark.parametrize("owner", [["\ud800", "5"], ["1", "5"], [1, 5], [1], {"pid": 1}, 1])
def test_an_owner_that_is_no_process_is_no_labs(tmp_path: Path, owner: object) -> None:
    recorded_lab(tmp_path / "right", [1, "5"])
    assert Lab(tmp_path / "right").owner == Process(1, "5")
    recorded_lab(tmp_path / "wrong", owner)
    with pytest.raises(ValueError, match=r"Expected `[\w| ]+`|surrogates"):
        Lab(tmp_path / "wrong")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "7", "[" * 100_000, '{"jars": "x", "seed": "y"}', '{"jars": {}, "seed": {}}'],
)
def test_a_folder_whose_record_is_damaged_is_no_lab(tmp_path: Path, text: str) -> None:
    (tmp_path / "lab.json").write_text(text)
    with pytest.raises(ValueError, match=r"is not a lab's|Expecting|too deeply"):
        Lab(tmp_path)
