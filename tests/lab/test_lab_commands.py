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
        (
            ["down"],
            2,
            "kipctl: There is no lab 'default', and no other.\nStart one: kipctl lab up\n",
        ),
        (
            ["down", "--name", "../x"],
            2,
            "kipctl: There is no lab '../x', and no other.\nStart one: kipctl lab up --name ../x\n",
        ),
        (
            ["up", "--topic", "orders:6:0"],
            2,
            "kipctl: 'orders:6:0' is no NAME:PARTITIONS:REPLICAS.\n"
            "As in orders:6:2, or orders alone.\n",
        ),
        (
            ["stop", "1", "--name", "x"],
            2,
            "kipctl: There is no lab 'x', and no other.\nStart one: kipctl lab up --name x\n",
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


def recorded_lab(folder: Path, owner: object = None) -> None:
    """A lab on record that has no node any more."""
    folder.mkdir(parents=True)
    (folder / "ready").touch()
    record = {
        "kafka_version": "4.3.1",
        "jars": {"paths": ["/a.jar"], "folder": "/f"},
        "seed": {"formatted": "/s", "archive": "/a"},
        "cluster_id": "c",
        "java": {"path": "/java", "version": 17},
        "nodes": [],
        "owner": owner,
    }
    (folder / "lab.json").write_text(json.dumps(record))


def test_the_only_lab_there_is_is_meant_but_none_that_a_run_looks_after(no_labs: Path) -> None:
    recorded_lab(no_labs / "ux")
    recorded_lab(no_labs / "of-a-run", [1, "5"])
    assert kipctl_lab("logs") == (0, "", "")
    assert kipctl_lab("stop", "7")[2].startswith("kipctl: Lab 'ux' has no node 7.")
    assert kipctl_lab("down") == (0, "", "Lab 'ux' is down; nothing of it is left.\n")
    assert not (no_labs / "ux").exists()
    assert (no_labs / "of-a-run").exists()


def test_of_several_labs_the_one_called_default_is_meant_or_a_name_is_asked_for(
    no_labs: Path,
) -> None:
    recorded_lab(no_labs / "ux")
    recorded_lab(no_labs / "vx")
    assert kipctl_lab("down") == (
        2,
        "",
        "kipctl: There is no lab 'default'; there is: ux, vx.\nSay which: --name ux\n",
    )
    recorded_lab(no_labs / "default")
    assert kipctl_lab("down") == (0, "", "Lab 'default' is down; nothing of it is left.\n")
    assert sorted(path.name for path in no_labs.iterdir() if path.is_dir()) == ["ux", "vx"]
