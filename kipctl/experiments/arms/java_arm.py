"""Apache Kafka's own client under test."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from kipctl.experiments.arms.arm import REJECTED, UNHINTED, WITHOUT_HINTS, Arm
from kipctl.lab.jars import fetched_jars
from kipctl.lab.java import find_java
from kipctl.lab.properties import DEFAULT_KAFKA_VERSION
from kipctl.load.clients.java import JavaClient
from kipctl.transport.access import Access

LAST_BEFORE_KIP951 = "3.6.0"
"""3.6.1 has no hints either, but retries without a backoff once the leader epoch has advanced."""
_NAME = re.compile(rf"java-(\d+\.\d+\.\d+)(-capped|{UNHINTED})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaArm(Arm):
    """`java-X.Y.Z`, with `-capped` shown no version that has hints, with `-unhinted` their hints
    taken out."""

    usual = (
        f"java-{LAST_BEFORE_KIP951}",
        f"java-{DEFAULT_KAFKA_VERSION}-capped",
        f"java-{DEFAULT_KAFKA_VERSION}",
    )
    further = ("java-X.Y.Z", "java-X.Y.Z-unhinted")

    version: str

    @classmethod
    def named(cls, name: str) -> Self | None:
        """The arm of that name, if it is of this kind."""
        if not (match := _NAME.fullmatch(name)):
            return None
        caps = WITHOUT_HINTS if match[2] == "-capped" else ()
        return cls(name=name, version=match[1], caps=caps, drop_hints=match[2] == UNHINTED)

    @property
    def _release(self) -> tuple[int, ...]:
        return tuple(map(int, self.version.split(".")))

    @property
    def follows_hints(self) -> bool:
        """See Arm."""
        return self._release >= (3, 7)

    @property
    def kip_arm(self) -> str:
        """See Arm."""
        if self._release < (3, 6, 1):
            return "baseline"
        return "with hints" if self.takes_hints else REJECTED

    def reference(self, alike: Sequence[Arm]) -> Arm | None:
        """The oldest, and of one release the one without hints."""
        java = (other for other in alike if isinstance(other, JavaArm))
        return min(java, key=lambda other: (other._release, other.takes_hints))

    def fetched(self, access: Access | None, message: Callable[[str], None]) -> JavaClient:
        """Raises what `fetched_jars` raises."""
        java = find_java()
        jars = fetched_jars(self.version, java, message)
        return JavaClient(self.version, java.path, jars.paths)
