"""Commands that texts name are objects: what they are typed as, and what keeps them."""

import json
import pickle

import pytest

from kipctl import typed_json
from kipctl.errors import RefusedError, UsageError
from kipctl.next_step import Command, NextStep, joined

UNDO = Command("undo", "20261126T2107")
SEE = "See: " + Command("inspect leaders", topic="orders") + ", or undo: " + UNDO + "."
ELSEWHERE = ("--cluster", "east", "--map", "b 1:9092=c:9092")


@pytest.mark.parametrize(
    ("command", "typed"),
    [
        (Command("changes list"), "kipctl changes list"),
        (Command("reassign --list"), "kipctl reassign --list"),
        (Command("undo", "/a folder/entry.json"), "kipctl undo '/a folder/entry.json'"),
        (Command("request-log off", broker=[1, 2]), "kipctl request-log off --broker 1 --broker 2"),
        (
            Command("reassign --drain 3", all_topics=True, throttle=None, topic=[], force=False),
            "kipctl reassign --drain 3 --all-topics",
        ),
        (Command("runs show", "-x", "$(id)"), "kipctl runs show -x '$(id)'"),
    ],
)
def test_a_command_is_typed_as_a_shell_reads_it(command: Command, typed: str) -> None:
    assert str(command) == f"{command}" == typed


def test_what_names_the_cluster_stands_behind_the_commands_name() -> None:
    command = Command("elect preferred --all", between="10s")
    assert command.line(("--cluster", "east")) == (
        *("kipctl", "elect", "preferred", "--cluster", "east"),
        *("--all", "--between", "10s"),
    )


def test_a_text_with_commands_is_a_text() -> None:
    plain = "See: kipctl inspect leaders --topic orders, or undo: kipctl undo 20261126T2107."
    assert plain == SEE
    assert str(RefusedError("No.", SEE)) == f"No.\n{plain}"
    assert json.loads(json.dumps(SEE)) == plain
    assert typed_json.decoded(typed_json.encoded([SEE]), list[str], "it") == [plain]


@pytest.mark.parametrize(
    "text",
    [
        SEE,
        "Well. " + SEE,
        SEE + " Well.",
        NextStep("Well. ", SEE, UNDO),
        joined("\n", ["Well.", SEE, UNDO + "."]),
        pickle.loads(pickle.dumps(SEE)),
        pickle.loads(pickle.dumps(UsageError("No.", SEE))).next_step,
    ],
)
def test_commands_stay_commands_in_a_longer_text(text: NextStep) -> None:
    assert text.commands[:2] == SEE.commands
    spelled = text.spelled(lambda command: command.line(ELSEWHERE))
    assert "kipctl undo --cluster east --map 'b 1:9092=c:9092' 20261126T2107" in spelled
    assert text.spelled(Command.line) == text


def test_joined_is_as_join() -> None:
    assert joined(", ", ["a", "b" + UNDO, "c"]) == ", ".join(["a", f"b{UNDO}", "c"])
    assert joined(", ", []) == ""
