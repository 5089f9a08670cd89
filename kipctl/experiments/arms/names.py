"""Arms by their names, as `--arms` has them."""

import re

from kipctl.errors import UsageError, did_you_mean
from kipctl.experiments.arms.arm import UNHINTED, Arm
from kipctl.experiments.arms.command_arm import CommandArm
from kipctl.experiments.arms.java_arm import JavaArm
from kipctl.experiments.arms.librdkafka_arm import LibrdkafkaArm
from kipctl.experiments.arms.preset_arm import PresetArm
from kipctl.experiments.arms.probe_arm import ProbeArm
from kipctl.load.clients.command import parse_command
from kipctl.load.presets import PRESETS
from kipctl.next_step import Command

_KINDS = (ProbeArm, JavaArm, LibrdkafkaArm, PresetArm)
ARMS = tuple(name for kind in _KINDS for name in kind.usual)
"""Those that are measured unless others are asked for."""

_COMMAND = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)=(.+)", re.DOTALL)
_COMMA = re.compile(r""",(?=(?:[^'"]|'[^']*'|"[^"]*")*$)""")
"""Outside of quotes."""


def parse_arm(name: str) -> Arm:
    """The arm of that name. Raises UsageError."""
    for kind in _KINDS:
        if arm := kind.named(name):
            return arm
    further = ", ".join(name for kind in _KINDS for name in kind.further)
    raise UsageError(
        f"{name!r} is no arm.{did_you_mean(name, [*ARMS, *PRESETS])}",
        f"There are {', '.join(ARMS)}, {further}; for producers alone those of `"
        + Command("conform list")
        + "`.",
    )


def parse_arms(text: str, *, takes_producers: bool = False) -> tuple[Arm, ...]:
    """Arms by their names, separated by commas, each once. Raises UsageError.

    Where it `takes_producers`, which cannot read, the clients of `kipctl conform list` are arms
    too, and `NAME=COMMAND` is any program (`kipctl.load.clients.command`) and two arms: as it is,
    and with hints taken out, which it is compared with. A comma in a command is quoted.
    """
    arms: list[Arm] = []
    for part in map(str.strip, _COMMA.split(text)):
        if command := _COMMAND.fullmatch(part):
            name, words = command[1], parse_command(command[2], f"--arms {command[1]}")
            arms += [
                CommandArm(name=name + UNHINTED, words=words, drop_hints=True),
                CommandArm(name=name, words=words),
            ]
        else:
            arms.append(parse_arm(part))
        if arms[-1].only_produces and not takes_producers:
            raise UsageError(
                f"{part!r} only produces: it is no arm here.",
                "It is one of `"
                + Command("experiment redirect")
                + "`, and of a file: `"
                + Command("experiment run FILE")
                + "`.",
            )
    names = [arm.name for arm in arms]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UsageError(f"The arm {min(twice)} is named twice.")
    return tuple(arms)
