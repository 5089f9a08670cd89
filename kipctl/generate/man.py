"""The man pages, in roff: one for each command and each group of commands."""

from collections.abc import Iterator

from kipctl.errors import ExitStatus
from kipctl.generate.commands import Command, Parameter
from kipctl.http_exchange import NO_PROXY, PROXY
from kipctl.transport.target import BOOTSTRAP, CLUSTER, CONFIG

VARIABLES = {
    BOOTSTRAP: "The brokers to ask first, when nothing else names them.",
    CLUSTER: "The cluster of clusters.toml that is meant, when no option names one.",
    CONFIG: "A file of Java's properties that says how to connect, when no option and no named"
    " cluster does.",
    "JAVA_HOME": "The Java, 17 or newer, that a lab's brokers run on. Default: java on the PATH.",
    PROXY: "The proxy, as http://proxy:3128, through which metrics and token endpoints of other"
    " machines are asked. Default: none, whatever HTTP_PROXY says.",
    NO_PROXY: "Hosts and domains, separated by commas, that are asked without that proxy.",
    "KIPCTL_LOCK_FOLDER": "Where all users of this machine lock the cluster that they change."
    " Default: /run/lock, or /tmp where that is not for all.",
    "KIPCTL_RUNS": "Where recorded runs are kept by name. Default: the folder kipctl/runs in"
    " XDG_STATE_HOME.",
    "NO_COLOR": "When set and not empty, tables and progress have no colors.",
    "XDG_CACHE_HOME": "Kafka's jars, and an archive of Spark's classes for a quick start, are"
    " kept in its folder kipctl. Default: ~/.cache.",
    "XDG_CONFIG_HOME": "clusters.toml is in its folder kipctl. Default: ~/.config.",
    "XDG_STATE_HOME": "Labs, recorded runs, and the assignments that `kipctl undo` goes back to,"
    " are kept in its folder kipctl. Default: ~/.local/state.",
}
"""What kipctl reads from the environment, beside the variables that options declare."""


def pages(root: Command) -> dict[str, str]:
    """Return every page: its file name, "kipctl-lab-up.1", and its text."""
    parents = {held.path: command for command in root.walk() for held in command.commands}
    return {
        f"{_page_name(command)}.1": "\n".join(_page(command, parents.get(command.path))) + "\n"
        for command in root.walk()
    }


def _page(command: Command, parent: Command | None) -> Iterator[str]:
    name = _page_name(command)
    yield '.\\" Generated from the commands by `make generate`; do not edit.'
    yield f'.TH "{_escape(name.upper())}" 1 "" "kipctl" "kipctl manual"'
    yield ".SH NAME"
    yield f"{_escape(name)} \\- {_escape(command.summary)}"
    yield ".SH SYNOPSIS"
    yield " ".join([_bold(command.name), *_synopsis(command)])
    yield ".SH DESCRIPTION"
    yield from _paragraphs(command.help)
    if command.commands:
        yield ".SH COMMANDS"
        for held in command.commands:
            yield from _item(_bold(held.path[-1]), f"{held.summary}.")
    if command.arguments:
        yield ".SH ARGUMENTS"
        for argument in command.arguments:
            yield from _item(_italic(argument.value), _explanation(argument))
    yield ".SH OPTIONS"
    for option in command.options:
        value = f" {_italic(option.value)}" if option.value else ""
        yield from _item(", ".join(map(_bold, option.names)) + value, _explanation(option))
    if command.examples:
        yield ".SH EXAMPLES"
        for example in command.examples:
            yield from (".PP", ".nf", _escape(example), ".fi")
    yield ".SH ENVIRONMENT"
    for variable, meaning in VARIABLES.items():
        yield from _item(_bold(variable), meaning)
    yield ".SH EXIT STATUS"
    for status in ExitStatus:
        yield from _item(_bold(str(status.value)), status.meaning)
    others = ([parent] if parent else []) + list(command.commands)
    if others:
        yield ".SH SEE ALSO"
        yield ",\n".join(f"{_bold(_page_name(other))}(1)" for other in others)


def _page_name(command: Command) -> str:
    return "-".join(command.path)


def _synopsis(command: Command) -> Iterator[str]:
    for option in command.options:
        if option.required:
            yield f"{_bold(option.names[0])} {_italic(option.value)}"
    yield f"[{_italic('OPTIONS')}]"
    if command.commands:
        yield f"{_italic('COMMAND')} ..."
    for argument in command.arguments:
        shown = _italic(argument.value) + (" ..." if argument.repeatable else "")
        yield shown if argument.required else f"[{shown}]"


def _explanation(parameter: Parameter) -> str:
    sentences = [parameter.help]
    if parameter.choices and parameter.value != "|".join(parameter.choices):
        sentences.append(f"One of {', '.join(parameter.choices)}.")
    if parameter.names and parameter.repeatable and "repeat" not in parameter.help:
        sentences.append("May be repeated.")
    if parameter.default:
        sentences.append(f"Default: {parameter.default}.")
    if parameter.variables:
        sentences.append(f"Environment: {', '.join(parameter.variables)}.")
    return " ".join(filter(None, sentences))


def _item(term: str, text: str) -> Iterator[str]:
    yield ".TP"
    yield term
    yield from _paragraphs(text, ".IP")


def _paragraphs(text: str, separator: str = ".PP") -> Iterator[str]:
    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            yield separator
        yield _escape(" ".join(paragraph.split()))


def _bold(text: str) -> str:
    return f"\\fB{_escape(text)}\\fR"


def _italic(text: str) -> str:
    return f"\\fI{_escape(text)}\\fR"


def _escape(text: str) -> str:
    """Text as roff prints it: hyphens that can be copied, and no line that is a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return f"\\&{text}" if text.startswith((".", "'")) else text
