"""How often a broker has started, by its log."""

from pathlib import Path
from types import SimpleNamespace

from roll_faults import STARTED, started, starts

from kipctl.lab.node import Node
from kipctl.lab.properties import LabSpec, node_specs


def test_a_start_is_counted_also_when_the_log_was_rolled_over_meanwhile(tmp_path: Path) -> None:
    nodes = {spec.id: Node(spec, tmp_path / spec.label) for spec in node_specs(LabSpec(), 20000)}
    lab = SimpleNamespace(nodes=nodes.values(), node=nodes.__getitem__)
    log = nodes[2].log_path
    for node in nodes.values():
        node.folder.mkdir()
        node.log_path.write_text(f"[08:00] INFO {STARTED}\n")
    with log.open("a") as appended:
        appended.write(f"[09:00] INFO {STARTED}\nanother line\n")
    before = starts(lab)
    assert len(before) == 4  # those of controllers are not counted
    log.rename(f"{log}.1")
    log.write_text(f"[10:00] INFO {STARTED}\n")
    assert started(lab, before) == {2: 1}
