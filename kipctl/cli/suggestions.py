"""What is suggested for a word of a command line that kipctl does not know."""

import re
from collections.abc import Collection, Mapping

from kipctl.errors import did_you_mean
from kipctl.next_step import Command, NextStep, joined

_NEAR = 0.8
"""How alike options have to be: by difflib's own 0.6 --status is --rotate, which moves leaders."""

_OTHER_OPTIONS: Mapping[str, str] = {
    **dict.fromkeys(("--every", "--interval"), "--between"),
    **dict.fromkeys(("--check", "--preview", "--simulate", "--what-if"), "--dry-run"),
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

_SUGGESTED: Mapping[str, tuple[Command, ...]] = {
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
    "restart": (Command("roll"), Command("lab restart")),
    "entry": (Command("undo ENTRY"),),
    "journal": (Command("undo --journal FILE"),),
    "undo all": (Command("changes list"),),
    "changes clear": (Command("changes clear-throttles"),),
    "changes undo all": (Command("changes list"),),
    "elect all": (Command("elect preferred --all"),),
    "elect broker": (Command("elect preferred --broker BROKER"),),
    "elect rotate": (Command("reassign --rotate"),),
    **dict.fromkeys(
        [f"throttle {word}" for word in ("delete", "off", "remove", "reset", "unset")], _CLEAR
    ),
    **dict.fromkeys(("throttle list", "throttle status"), (Command("throttle show"),)),
    **dict.fromkeys(("roll abort", "roll cancel", "roll stop"), _STOP_A_ROLL),
    "roll status": (Command("changes list"), Command("changes show")),
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
"""What people and other tools, Kafka's own among them, call what kipctl has: by the word without
dashes, or by the command that it was given to and the word."""


_PARTITION = re.compile(r"[\w.-]+:\d+")
_NAME = re.compile(r"(?!\d+$)(?!.*\.(json|properties|toml|log)$)\w[\w.-]*")


def suggest_for_option(
    path: str, option: str, options: Collection[str], subcommands: Mapping[str, Collection[str]]
) -> str:
    """A question whether another option of the command at `path`, a command, or an option that is
    near was meant, to follow a refusal; empty where nothing is.

    `subcommands` are by the name of the command that has them, reassign's options among them.
    """
    if (other := _OTHER_OPTIONS.get(option)) in options:
        return f" Did you mean {other!r}?"
    word = option.removeprefix("--")
    if suggested := _SUGGESTED.get(f"{path} {word}") or _SUGGESTED.get(word):
        return _question(suggested)
    if word in subcommands.get(path, ()):
        return _question([Command(f"{path} {word}")])
    if word in subcommands["changes"]:
        return _question([Command("undo" if word == "undo" else f"changes {word}")])
    return did_you_mean(option, options, _NEAR)


def suggest_for_word(
    path: str, word: str, options: Collection[str], subcommands: Mapping[str, Collection[str]]
) -> str:
    """The same for what is no command, or an argument too many: first of its own group."""
    if word.isdigit() and "--broker" in options:
        return f" Did you mean '--broker {word}'?"
    if suggested := _SUGGESTED.get(f"{path} {word}"):
        return _question(suggested)
    if near := did_you_mean(word, subcommands.get(path, ())):
        return near
    if suggested := _SUGGESTED.get(word):
        return _question(suggested)
    every = ((group, name) for group, names in subcommands.items() for name in names)
    if same := [Command(f"{group} {name}") for group, name in every if word == name.lstrip("-")]:
        return _question(same)
    # A name by itself is that of a partition, of a topic, or of a lab.
    likely = {"--partition": _PARTITION, "--topic": _NAME, "--name": _NAME}
    option = next((o for o, form in likely.items() if o in options and form.fullmatch(word)), "")
    return f" Did you mean '{option} {word}'?" if option else ""


def _question(suggested: Collection[Command]) -> str:
    parts = joined("' or '", suggested).parts
    return NextStep(" Did you mean '", *parts, "'?") if suggested else ""
