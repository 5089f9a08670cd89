"""librdkafka under test."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from kipctl.experiments.arms.arm import UNHINTED, Arm
from kipctl.load.clients.librdkafka import Librdkafka, fetched
from kipctl.load.presets.build import cache_folder
from kipctl.transport.access import Access

_NAME = re.compile(rf"librdkafka(?:-(\d+\.\d+\.\d+))?(?:-(\d+)ms)?({UNHINTED})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class LibrdkafkaArm(Arm):
    """`librdkafka` through confluent-kafka, the installed one, or `librdkafka-X.Y.Z`; with `-Nms`
    its `retry.backoff.ms`, else the default; with `-unhinted` hints taken out."""

    usual = ("librdkafka", "librdkafka-1ms")
    further = ("librdkafka-X.Y.Z", "librdkafka-Nms")

    version: str = ""
    retry_backoff_ms: int | None = None

    @classmethod
    def named(cls, name: str) -> Self | None:
        """The arm of that name, if it is of this kind."""
        if not (match := _NAME.fullmatch(name)):
            return None
        backoff_ms = int(match[2]) if match[2] else None
        return cls(
            name=name,
            version=match[1] or "",
            retry_backoff_ms=backoff_ms,
            drop_hints=bool(match[3]),
        )

    @property
    def follows_hints(self) -> bool:
        """It waits out its backoff first."""
        return False

    def given(self, properties: Mapping[str, str]) -> dict[str, str]:
        """See Arm. librdkafka has no round robin: without stickiness each record's partition is
        random."""
        given = dict(properties)
        if given.pop("partitioner.class", ""):
            given["sticky.partitioning.linger.ms"] = "0"
        if self.retry_backoff_ms is not None:
            given["retry.backoff.ms"] = str(self.retry_backoff_ms)
        return {**given, **dict(self.settings)}

    def reference(self, alike: Sequence[Arm]) -> Arm | None:
        """The same without hints, else the installed one with its defaults."""
        if self.drop_hints:
            return None
        default = (other for other in alike if other == LibrdkafkaArm(name=other.name))
        return Arm.reference(self, alike) or next(default, None)

    def fetched(self, access: Access | None, message: Callable[[str], None]) -> Librdkafka:
        """Asked first whether it can connect so. Raises as `fetched` too."""
        if access:
            access.librdkafka()
        if not self.version:
            return Librdkafka()
        return fetched(self.version, cache_folder(), message)
