"""`kipctl lab` as a user types it: what it prints, and how it ends."""

import json
from pathlib import Path

import pytest
from lab_tools import kipctl_lab


@pytest.fixture
def no_labs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "kipctl" / "labs"


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["down"], 0, "There is no lab named 'default': nothing to do.\n"),
        (["down", "--name", "../x"], 0, "There is no lab named '../x': nothing to do.\n"),
        (
            ["stop", "1", "--name", "x"],
            2,
            "kipctl: There is no lab named 'x'; there is: none.\n"
            "Start one: kipctl lab up --name x\n",
        ),
        (
            ["up", "--config", "num.io.threads"],
            2,
            "kipctl: --config 'num.io.threads' is not KEY=VALUE.\n"
            "For instance: --config num.io.threads=4\n",
        ),
        (
            ["up", "--config", "node.id=7"],
            2,
            "kipctl: --config node.id cannot be set: the lab decides it for each node.\n"
            "Choose with --brokers, --controllers, --racks, --port and --security instead.\n",
        ),
        (["up", "--brokers", "0"], 2, "kipctl: A lab has 1 to 100 brokers, not 0.\n"),
    ],
)
def test_without_a_lab(no_labs: Path, arguments: list[str], status: int, told: str) -> None:
    assert kipctl_lab(*arguments) == (status, "", told)


def test_status_of_no_lab_is_an_answer_and_json_too(no_labs: Path) -> None:
    assert kipctl_lab("status") == (0, "There is no lab. Start one: kipctl lab up\n", "")
    status, out, _ = kipctl_lab("status", "--output", "json")
    assert (status, json.loads(out)["labs"]) == (0, [])


def test_what_a_start_left_without_a_record_is_told_and_removed(no_labs: Path) -> None:
    (no_labs / "half" / "broker-1").mkdir(parents=True)
    _, _, told = kipctl_lab("status")
    assert told.startswith("A start that was cut off left 'half' behind")
    assert kipctl_lab("down", "--name", "half") == (
        0,
        "",
        "Lab 'half' is down; nothing of it is left.\n",
    )
    assert not (no_labs / "half").exists()
