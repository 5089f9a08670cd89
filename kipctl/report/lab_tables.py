"""Tables of `kipctl lab`: nodes, and how they are reached."""

from collections import Counter
from typing import TYPE_CHECKING

from kipctl.next_step import Command, NextStep
from kipctl.report.tables import Paragraph, Report, Table, Tone, paragraphs

if TYPE_CHECKING:
    from kipctl.lab.cluster import Lab
    from kipctl.lab.ready import NodeStatus


def lab_report(command: str, labs: "list[Lab]") -> Report:
    """A table per lab; as JSON, `labs` with the same in it."""
    seen = [(lab, lab.status()) for lab in labs]
    return Report(
        f"lab {command}",
        {"labs": [_document(lab, nodes) for lab, nodes in seen]},
        tuple(_table(lab, nodes) for lab, nodes in seen),
        opening=tuple(_answer(lab, nodes) for lab, nodes in seen)
        or paragraphs("There is no lab. Start one: " + Command("lab up")),
    )


def _answer(lab: "Lab", nodes: "tuple[NodeStatus, ...]") -> Paragraph:
    from kipctl.lab.cluster import LabState

    states = Counter(node.state.value for node in nodes)
    counted = ", ".join(f"{count} {state}" for state, count in states.items())
    return Paragraph(
        f"Lab {lab.name} is {lab.state.value}, with Kafka {lab.kafka_version}; nodes: {counted}.",
        tone=Tone.GOOD if lab.state is LabState.RUNNING and len(states) == 1 else Tone.WARNING,
    )


def _document(lab: "Lab", nodes: "tuple[NodeStatus, ...]") -> dict[str, object]:
    return {
        "name": lab.name,
        "state": lab.state.value,
        "kafka_version": lab.kafka_version,
        "bootstrap_server": lab.bootstrap_server,
        "folder": str(lab.folder),
        "request_log": lab.request_log,
        "security": lab.security.value,
        "acl": lab.acl,
        "client_properties": None if (path := lab.client_properties) is None else str(path),
        "krb5_config": None if lab.kdc is None else str(lab.kdc.configuration),
        "client_files": {name: str(path) for name, path in lab.client_files.items()},
        "nodes": [
            {
                "node": node.id,
                "role": node.role.value,
                "rack": node.rack,
                "port": node.port,
                "pid": node.pid,
                "state": node.state.value,
                "leader_count": node.leaders,
                "kafka_version": lab.kafka_version_of(node.id),
                "request_log_file": str(lab.node(node.id).request_log_path),
                "metrics_url": lab.node(node.id).spec.metrics_url,
            }
            for node in nodes
        ],
    }


def _table(lab: "Lab", nodes: "tuple[NodeStatus, ...]") -> Table:
    from kipctl.lab.cluster import LabState

    notes = [f"Bootstrap server: {lab.bootstrap_server}"]
    if (properties := lab.client_properties) is not None:
        notes.append(
            f"Security: {lab.security.protocol}{' with ACLs' if lab.acl else ''}. "
            f"Files for clients: {properties.parent}/*.properties"
        )
        notes.append(
            "For instance: "
            + Command(
                "inspect leaders", bootstrap_server=lab.bootstrap_server, command_config=properties
            )
        )
    if lab.kdc is not None:
        notes.append(f"For Kerberos: export KRB5_CONFIG={lab.kdc.configuration}")
    if lab.request_log:
        notes.append(f"Request logs: {lab.folder}/broker-*/request.log*")
    if urls := lab.metrics_urls:
        notes.append(f"Metrics: {' '.join(urls)}")
    if lab.state is LabState.LEFT_BEHIND:
        notes = [
            NextStep(
                "A crash, or a start that failed, left it behind. Remove it: ",
                *(Command("lab down", name=lab.name), ", or make it anew: "),
                Command("lab up", name=lab.name),
            )
        ]
    versions = {node.id: lab.kafka_version_of(node.id) for node in nodes}
    if others := {
        node: version for node, version in versions.items() if version != lab.kafka_version
    }:
        listed = ", ".join(f"node {node} Kafka {version}" for node, version in others.items())
        notes.append(f"Upgraded: {listed}")
    return Table(
        f"Lab {lab.name}",
        ("Node", "Role", "Rack", "Port", "PID", "State", "Leaders"),
        tuple(
            (
                node.id,
                node.role.value,
                node.rack,
                str(node.port),  # as text: numbers are shown with thousands separators
                None if node.pid is None else str(node.pid),
                node.state.value,
                node.leaders,
            )
            for node in nodes
        ),
        tuple(notes),
        "nodes",
    )
