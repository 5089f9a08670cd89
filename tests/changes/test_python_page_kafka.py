"""The program of docs/python.md, as it stands there but for the address and the topic."""

import re
from pathlib import Path

import pytest
from on_lab import MakeTopic

from kipctl.changes.context import ChangeContext
from kipctl.changes.planned import carry_out_planned, rotate
from kipctl.changes.plans.planners.options import drain_option
from kipctl.changes.ui import ChangeUi, PlanShown
from kipctl.changes.undo import undo
from kipctl.cluster.snapshot import take_snapshot
from kipctl.errors import RefusedError
from kipctl.lab.cluster import Lab
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka
PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_program_of_the_page(
    lab: Lab,
    cluster: Cluster,
    make_topic: MakeTopic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = make_topic("python-page", [[1, 2], [2, 3], [3, 1]])
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    before = take_snapshot(cluster, [topic]).assignment
    program, _ = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    program = program.replace("localhost:9092", lab.bootstrap_server).replace("orders", topic)
    exec(compile(program, str(PAGE), "exec"), {})
    assert capsys.readouterr().out == "done 3\n"
    assert take_snapshot(cluster, [topic]).assignment == before


class Asked(ChangeUi):
    """Keeps what it is told, and agrees to no question."""

    def __init__(self) -> None:
        self.plans: list[PlanShown] = []
        self.questions: list[str] = []

    def plan(self, shown: PlanShown) -> None:
        self.plans.append(shown)

    def confirm(self, question: str, typed: str = "") -> None:
        self.questions.append(question)
        raise RefusedError("No.")


def test_a_program_is_told_and_asked(
    cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic("python-asked", [[1, 2], [2, 3]])
    variables = {"XDG_STATE_HOME": str(tmp_path)}
    ui = Asked()
    looks = ChangeContext(cluster=cluster, ui=ui, topics=[topic], variables=variables, dry_run=True)
    carry_out_planned(looks, drain_option(["3"]))
    (move,) = ui.plans[0].plan.moves
    assert (move.before, move.after) == ((2, 3), (2, 1))
    asks = ChangeContext(cluster=cluster, ui=ui, topics=[topic], variables=variables)
    with pytest.raises(RefusedError, match=r"No\."):
        rotate(asks)
    assert ui.questions == ["Rotate the leaders of 2 partitions?"]
    assert not list(asks.journal().entries())
    with pytest.raises(RefusedError, match="nothing to undo"):
        undo(asks)
