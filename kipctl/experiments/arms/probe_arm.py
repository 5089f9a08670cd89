"""kipctl's own client under test."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from kipctl.experiments.arms.arm import REJECTED, Arm
from kipctl.probe.leadership import LeaderDiscovery

_KIP_ARM = {
    LeaderDiscovery.BASELINE: "baseline",
    LeaderDiscovery.REFRESH: REJECTED,
    LeaderDiscovery.KIP951: "with hints",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeArm(Arm):
    """`probe-DISCOVERY`. It records itself where no tap has to."""

    usual = tuple(f"probe-{discovery}" for discovery in _KIP_ARM)

    discovery: LeaderDiscovery

    @classmethod
    def named(cls, name: str) -> Self | None:
        """The arm of that name, if it is of this kind."""
        arms = (cls(name=name, discovery=way) for way in LeaderDiscovery if name == f"probe-{way}")
        return next(arms, None)

    @property
    def follows_hints(self) -> bool:
        """See Arm."""
        return self.discovery is LeaderDiscovery.KIP951

    @property
    def kip_arm(self) -> str:
        """See Arm."""
        return _KIP_ARM[self.discovery]

    @property
    def leader_discovery(self) -> str:
        """See Arm."""
        return self.discovery.value

    def reference(self, alike: Sequence[Arm]) -> Arm | None:
        """Baseline."""
        return next((other for other in alike if other.kip_arm == "baseline"), None)
