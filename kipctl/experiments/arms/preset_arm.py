"""Any client library that `kipctl conform` can start, under test."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from kipctl.experiments.arms.arm import UNHINTED, Arm
from kipctl.load.clients.command import CommandClient, filled
from kipctl.load.presets import OWN, PRESETS, PRODUCER
from kipctl.transport.access import Access

_GIVEN = {"role": PRODUCER, "rack": "", "metadata_ms": "300000"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetArm(Arm):
    """`franz-go-1.22.3`, `sarama`, `kafkajs` or another preset, with `-unhinted` its hints taken
    out. All but acks and the rate is as the library has it; its records have 100 bytes."""

    only_produces = True

    preset: str

    @classmethod
    def named(cls, name: str) -> Self | None:
        """The arm of that name, if it is of this kind."""
        preset = name.removesuffix(UNHINTED)
        if preset not in PRESETS or preset == OWN.name:
            return None
        return cls(name=name, preset=preset, drop_hints=preset != name)

    @property
    def follows_hints(self) -> bool:
        """It gets them: what it makes of them is what is asked."""
        return True

    def fetched(self, access: Access | None, message: Callable[[str], None]) -> CommandClient:
        """Built at first use. Raises UsageError where this machine lacks what that takes."""
        words = PRESETS[self.preset].words(PRODUCER, message, rate="{rate}", acks="{acks}")
        return CommandClient(tuple(filled(word, _GIVEN) for word in words))
