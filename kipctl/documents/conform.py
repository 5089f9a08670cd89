"""Documents of `kipctl conform`."""

from typing import TypedDict


class RuleRun(TypedDict):
    status: str
    seen: str


class RuleVerdict(TypedDict):
    """`evidence` are the first requests of a run from the first refusal on, and those around the
    one that decided, which is marked; of proxies and brokers, what was found."""

    rule: str
    title: str
    status: str
    is_expected: bool
    seen: str
    runs: list[RuleRun]
    evidence: list[str]


class ConformDocument(TypedDict):
    client: str
    role: str
    rules: list[RuleVerdict]


class JudgedDocument(TypedDict):
    rule: str
    role: str
    status: str
    seen: str
    evidence: list[str]


class RuleDocument(TypedDict):
    """`least` are the versions of the request from which on a rule applies, by role;
    empty for those of proxies and brokers."""

    rule: str
    title: str
    says: str
    why: str
    scene: str
    least: dict[str, int]


class PresetDocument(TypedDict):
    name: str
    version: str | None
    roles: list[str]
    available: bool
    """Whether this machine has the tools that it is built with."""


class ConformListDocument(TypedDict):
    rules: list[RuleDocument]
    presets: list[PresetDocument]
