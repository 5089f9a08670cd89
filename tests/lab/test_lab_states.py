"""What a node's state is, and when nodes are ready, whatever changes while it is looked at."""

from pathlib import Path

import pytest
from scripted_broker import Asked, ScriptedBroker

from kipctl import process
from kipctl.lab.node import Node, NodeState
from kipctl.lab.properties import LabSpec, NodeSpec, Role, node_specs
from kipctl.lab.ready import wait_until_ready
from kipctl.protocol.api_versions import ApiVersionsRequest
from kipctl.protocol.metadata import MetadataResponse, MetadataResponseBroker


def test_a_node_that_ends_as_it_was_told_while_it_is_looked_at_did_not_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(node_specs(LabSpec(brokers=1), 20000)[0], tmp_path)
    this = process.current_process()
    process.write_record(tmp_path / "process", this)
    assert node.state is NodeState.RUNNING

    def told_and_gone(_: process.Process) -> bool:
        process.write_record(tmp_path / "told-to-stop", this)
        return False

    monkeypatch.setattr(process, "is_alive", told_and_gone)
    assert node.state is NodeState.STOPPED


def test_brokers_are_ready_when_one_look_finds_them_all_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broker 1 lists broker 2 from before its restart, then does not, then does again."""
    looks: dict[int, list[set[int]]] = {1: [{1, 2}, {1}, {1, 2}], 2: [{2}, {1, 2}, {1, 2}]}
    this = process.current_process()

    def listing(broker: int) -> ScriptedBroker:
        def answers(asked: Asked) -> MetadataResponse | None:
            if isinstance(asked.request, ApiVersionsRequest):
                return None
            listed = looks[broker].pop(0) if looks[broker][1:] else looks[broker][0]
            return MetadataResponse(brokers=tuple(map(MetadataResponseBroker, sorted(listed))))

        return ScriptedBroker(answers)

    with listing(1) as one, listing(2) as two:
        first, second = (
            next(spec for spec in node_specs(LabSpec(brokers=2), port) if spec.id == number)
            for number, port in ((1, one.port), (2, two.port - 1))
        )
        assert (first.port, second.port) == (one.port, two.port)
        nodes = []
        for spec in (first, second):
            folder = tmp_path / spec.label
            folder.mkdir()
            process.write_record(folder / "process", this)
            nodes.append(Node(spec, folder))
        wait_until_ready(nodes, 60)
    assert looks == {1: [{1, 2}], 2: [{1, 2}]}


def test_a_controller_is_ready_once_it_answers_whatever_apis_it_has(tmp_path: Path) -> None:
    """In Kafka 2.8 a controller has Metadata too, and lists controllers."""

    def listing(node_id: int) -> ScriptedBroker:
        def answers(asked: Asked) -> MetadataResponse | None:
            if isinstance(asked.request, ApiVersionsRequest):
                return None
            return MetadataResponse(brokers=(MetadataResponseBroker(node_id),))

        return ScriptedBroker(answers)

    with listing(1) as broker, listing(101) as controller:
        specs = (
            NodeSpec(1, Role.BROKER, None, broker.port),
            NodeSpec(101, Role.CONTROLLER, None, controller.port),
        )
        wait_until_ready([Node(spec, tmp_path / spec.label) for spec in specs], 0)
