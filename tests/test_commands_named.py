"""Over the whole source: texts name commands as objects, and only commands that there are."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest
from own_source import FILES, parsed
from typer.core import TyperArgument, TyperCommand, TyperGroup

from kipctl.cli.app import COMMANDS, root_command
from kipctl.next_step import Command

NAMED = re.compile(rf"(?<!A )\bkipctl ({'|'.join(COMMANDS)})(?![\w-])(?! CA$)")
FOR_HELP = {"help", "epilog", "short_help"}
OF_HELP = {"cli/help.py", "generate/man.py"}
MARK = "<!-- kipctl report -->"
"""Of files that kipctl has written: not to be typed."""


def plain_texts(tree: ast.AST) -> Iterator[ast.Constant]:
    """All literals that are shown, but docstrings, help, and what commands are made of."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.Expr(value=ast.Constant()):  # a docstring, also of an attribute
                continue
            case ast.keyword(arg=name) if name in FOR_HELP:
                continue
            case ast.Call(
                func=ast.Name(id="Command" | "Commands" | "argument" | "option" | "duration_option")
            ):
                continue
            case ast.Call(func=ast.Attribute(attr="Argument" | "Option")):
                continue
            case ast.Assign(targets=[ast.Name(id=name)]) if name.endswith("_HELP"):
                continue
            case ast.Constant(value=str()):
                yield node
        yield from plain_texts(node)


def test_no_plain_text_names_a_command() -> None:
    places = [
        f"{file}:{text.lineno}: {text.value}"
        for file in FILES
        if str(file) not in OF_HELP
        for text in plain_texts(parsed(file))
        if NAMED.search(text.value) and text.value != MARK
    ]
    assert not places, "Command(...) of kipctl.next_step lets who prints it name the cluster."


def named_commands() -> Iterator[tuple[str, Command, int, set[str]]]:
    """Where each command is named, what is written there, how many arguments it is given beside,
    and the options that stand by name. What is decided later is passed over, all but its name."""
    for file in FILES:
        for node in ast.walk(parsed(file)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            if node.func.id != "Command" or not node.args:
                continue
            for typed in literals(node.args[0]):
                options = {f"--{kw.arg.replace('_', '-')}" for kw in node.keywords if kw.arg}
                beside = sum(not isinstance(argument, ast.Starred) for argument in node.args[1:])
                yield f"{file}:{node.lineno}", Command(typed), beside, options


def literals(node: ast.expr) -> list[str]:
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.IfExp():
            return literals(node.body) + literals(node.orelse)
    return []


@cache
def command_of(name: str) -> object:
    command: object = root_command()
    for word in name.split():
        command = command.commands.get(word) if isinstance(command, TyperGroup) else None
    return command


def wrong(named: Command, beside: int, options: set[str]) -> str:
    """What there is not of such a command; empty if it can be typed so."""
    name, arguments = named.name.split(), beside
    command = command_of(named.name)
    while command is None and name:  # arguments that stand before any option
        arguments, command = arguments + 1, command_of(" ".join(name[:-1]))
        name.pop()
    if not isinstance(command, TyperCommand):
        if not named.line()[1:]:  # `kipctl` alone, which shows what goes on
            return ""
        return "no such command" if named.words != ("--help",) or command is None else ""
    known = {opt: param for param in command.params for opt in (*param.opts, *param.secondary_opts)}
    words = iter((*named.words, *sorted(options)))
    for word in words:
        if not word.startswith("-"):
            arguments += 1
        elif word not in known and word not in ("--help", "-h"):
            return f"no option {word}"
        elif word not in options and word in known and not getattr(known[word], "is_flag", True):
            next(words, None)  # its value
    takes = [parameter for parameter in command.params if isinstance(parameter, TyperArgument)]
    many = any(parameter.nargs == -1 for parameter in takes)
    return "too many arguments" if arguments > len(takes) and not many else ""


def test_every_command_that_is_named_is_one_with_these_options() -> None:
    every = list(named_commands())
    assert len(every) > 200
    assert not [
        f"{where}: {named}: {why}"
        for where, named, beside, options in every
        if (why := wrong(named, beside, options))
    ]


@pytest.mark.parametrize(
    ("named", "why"),
    [
        (Command("reassign --undo"), "no option --undo"),
        (Command("reassign history"), "too many arguments"),
        (Command("rollback"), "no such command"),
        (Command("elect"), "no such command"),
        (Command("undo", "a", "b"), "too many arguments"),
        (Command("elect --help"), ""),
        (Command("reassign --plan FILE --dry-run"), ""),
        (Command("explain few-moves"), ""),
        (Command("runs compare A B"), ""),
    ],
)
def test_what_is_no_command_is_found(named: Command, why: str) -> None:
    assert wrong(named, 0, set()) == why
