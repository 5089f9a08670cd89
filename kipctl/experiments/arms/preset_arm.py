"""Any client library that `kipctl conform` can start, under test."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from kipctl.experiments.arms.arm import UNHINTED, Arm
from kipctl.load.clients.command import CommandClient, filled
from kipctl.load.presets import OWN, PRESETS, PRODUCER
from kipctl.transport.access import Access


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetArm(Arm):
    """`franz-go-1.22.3`, `sarama`, `kafkajs` or another preset, with `-unhinted` its hints taken
    out. All but acks and the rate is as the library has it."""

    only_produces = True
    own_record_size = 100

    preset: str

    @classmethod
    def named(cls, name: str) -> Self | None:
        """The arm of that name, if it is of this kind."""
        preset = name.removesuffix(UNHINTED)
        if preset not in PRESETS or preset == OWN.name:
            return None
        return cls(name=name, preset=preset, drop_hints=preset != name)

    def given(self, properties: Mapping[str, str]) -> dict[str, str]:
        """See Arm. One that takes no other acks than its own has those."""
        acks = PRESETS[self.preset].acks
        return {name: acks or value for name, value in Arm.given(self, properties).items()}

    def fetched(self, access: Access | None, message: Callable[[str], None]) -> CommandClient:
        """Built at first use. Raises UsageError where this machine lacks what that takes."""
        preset = PRESETS[self.preset]
        given = {"role": PRODUCER, "rack": "", "metadata_ms": str(preset.metadata_ms)}
        words = tuple(filled(word, given) for word in preset.words(PRODUCER, message))
        name = preset.name.removesuffix(f"-{preset.version}")
        return CommandClient(words, preset.version, name)
