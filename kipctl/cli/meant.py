"""What a word of a command line that kipctl does not know is likely to mean."""

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches

from kipctl.next_step import Command, NextStep, joined

Groups = Mapping[str, Collection[str]]
"""By the name of each command its commands, or else its options."""

_NEAR = 0.8
"""How alike names of options have to be, as difflib counts: with its own 0.6 --status is --rotate,
which moves leaders."""
_LEAST_OF_A_BEGINNING = 4
_NEVER_PROPOSED = {"force"}

_OTHER_OPTIONS: Mapping[str, str] = {
    **dict.fromkeys(("every", "interval"), "between"),
    **dict.fromkeys(("check", "preview", "simulate", "what-if"), "dry-run"),
}
"""What people and other tools call an option of kipctl's."""

_FROM_A_PLAN = (Command("reassign --plan FILE"),)
_CANCEL = (Command("changes cancel"),)
_CLEAR = (Command("throttle clear"), Command("changes clear-throttles"))
_DRAIN = (Command("reassign --drain BROKER"),)
_LEADERS_OFF = (Command("reassign --leaders-off BROKER"),)
_MAY_RESTART = (Command("inspect brokers"), Command("roll --dry-run"))
_RESUME = (Command("changes resume"),)
_STOP = (Command("changes pause"), Command("changes cancel"))
_STOP_A_ROLL = (Command("changes pause"), Command("roll --abandon"))
_UNDO = (Command("undo"),)
_WHAT_GOES_ON = (
    Command(""),
    Command("changes list"),
    Command("reassign --list"),
    Command("throttle show"),
)

_MEANT: Mapping[str, tuple[Command, ...]] = {
    **dict.fromkeys(("status", "ps", "progress", "top"), _WHAT_GOES_ON),
    **dict.fromkeys(("stop", "kill", "halt"), _STOP),
    **dict.fromkeys(("revert", "rollback"), _UNDO),
    **dict.fromkeys(("history", "log"), (Command("changes list"),)),
    **dict.fromkeys(("continue", "retry"), _RESUME),
    **dict.fromkeys(
        ("can-restart", "doctor", "health", "preflight", "ready", "safe", "check"), _MAY_RESTART
    ),
    **dict.fromkeys(("evacuate", "decommission"), _DRAIN),
    "abort": _CANCEL,
    "demote": _LEADERS_OFF,
    "restart": (Command("roll"),),
    "entry": (Command("undo ENTRY"),),
    "journal": (Command("undo --journal FILE"),),
    "undo --all": (Command("changes list"),),
    "changes clear": (Command("changes clear-throttles"),),
    "changes undo --all": (Command("changes list"),),
    "elect --all": (Command("elect preferred --all"),),
    "elect --broker": (Command("elect preferred --broker BROKER"),),
    "elect --rotate": (Command("reassign --rotate"),),
    **{
        f"throttle {dashes}{word}": _CLEAR
        for word in ("delete", "off", "remove", "reset", "unset")
        for dashes in ("", "--")
    },
    **{
        f"throttle {dashes}{word}": (Command("throttle show"),)
        for word in ("list", "status")
        for dashes in ("", "--")
    },
    **dict.fromkeys(("roll --abort", "roll --cancel", "roll --stop"), _STOP_A_ROLL),
    "roll --status": (Command("changes list"), Command("changes show")),
    # Kafka's own, of kafka-reassign-partitions and kafka-leader-election
    "execute": _FROM_A_PLAN,
    "reassignment-json-file": _FROM_A_PLAN,
    "generate": (Command("reassign --drain BROKER --dry-run"),),
    "topics-to-move-json-file": (Command("reassign --drain BROKER --topic TOPIC --dry-run"),),
    "preserve-throttles": (Command("throttle show"),),
    "election-type": (Command("elect preferred"),),
    "path-to-json-file": (Command("elect preferred --json-file FILE"),),
    "all-topic-partitions": (Command("elect preferred --all"),),
}
"""What people and other tools, Kafka's own among them, call what kipctl has: by the word, or by the
command that it was given to and the word."""


def meant_by_option(path: str, option: str, known: Iterable[str], groups: Groups) -> str:
    """The question after what an option that the command does not have may mean: one of its own
    that is called otherwise, commands, one of its own that is near or begins so; or nothing."""
    word, names = option.removeprefix("--"), [name.removeprefix("--") for name in known]
    if (other := _OTHER_OPTIONS.get(word)) in names:
        return _did_you_mean(f"--{other}")
    if found := _commands_meant_by_option(path, word, groups):
        return _did_you_mean(*found)
    names = [name for name in names if name not in _NEVER_PROPOSED]
    near = get_close_matches(word, names, n=1, cutoff=_NEAR)
    if not near and len(word) >= _LEAST_OF_A_BEGINNING:
        near = [name for name in names if name.startswith(word)]
    return _did_you_mean(f"--{near[0]}") if near else ""


def _commands_meant_by_option(path: str, word: str, groups: Groups) -> tuple[Command, ...]:
    if found := _MEANT.get(f"{path} --{word}") or _MEANT.get(word):
        return found
    if word in groups.get(path, ()):
        return (Command(f"{path} {word}"),)
    if word in groups["changes"]:
        return (Command("undo" if word == "undo" else f"changes {word}"),)
    return ()


def meant_by_word(path: str, word: str, known: Collection[str], groups: Groups) -> str:
    """The question after what a word may mean that is no command, or an argument too many: `known`
    are the options that it could be. Nothing where one of the group is near: Click says so."""
    if word.isdigit() and "--broker" in known:
        return _did_you_mean(f"--broker {word}")
    if found := _MEANT.get(f"{path} {word}"):
        return _did_you_mean(*found)
    commands = [name for name in groups.get(path, ()) if not name.startswith("-")]
    if get_close_matches(word, commands, n=1):
        return ""
    if found := _MEANT.get(word):
        return _did_you_mean(*found)
    called = [Command(f"{group} {word}") for group, held in groups.items() if word in held]
    if f"--{word}" in groups["reassign"]:
        called.append(Command(f"reassign --{word}"))
    return _did_you_mean(*called)


def _did_you_mean(*meant: str | Command) -> str:
    return NextStep(" Did you mean '", *joined("' or '", meant).parts, "'?") if meant else ""
