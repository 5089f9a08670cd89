"""Where an experiment takes place: a fresh lab or a given cluster, and the clients it needs."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from kipctl.cluster.snapshot import Snapshot, take_snapshot
from kipctl.errors import UsageError
from kipctl.experiments.arms.arm import Arm
from kipctl.lab.cluster import Lab
from kipctl.lab.properties import (
    DEFAULT_KAFKA_VERSION,
    KAFKAS_SESSION,
    LabSpec,
    Role,
    node_specs,
    suits_c1,
)
from kipctl.load.actions import kafka_version
from kipctl.load.clients.client import Client
from kipctl.load.plan import OWN_TOPIC
from kipctl.load.record import describe
from kipctl.trace.store import Run
from kipctl.transport.access import Access
from kipctl.transport.request import Cluster

_ADMIN_TIMEOUT_S = 30.0
_CONFIG = (
    # What a topic held is removed with it: a minute later would be too late for big runs.
    ("log.segment.delete.delay.ms", "1000"),
    # Leaders move when the experiment moves them, not every five minutes as well.
    ("leader.imbalance.check.interval.seconds", "86400"),
    # A broker that is killed or restarted is away for as long as it is in production.
    *KAFKAS_SESSION,
)


@dataclass(frozen=True, slots=True)
class Place:
    """The cluster at `access`, or without one a fresh lab of this size and version of Kafka."""

    access: Access | None = None
    brokers: int = 3
    controllers: int = 1
    kafka_version: str = DEFAULT_KAFKA_VERSION

    def __post_init__(self) -> None:
        """Raises UsageError for a size that cannot be, and for addresses that are none.

        An experiment moves leaders, or reads from replicas: on one broker there is nothing to see.
        """
        if self.access is None:
            _ = self.lab
            if self.brokers < 2:
                raise UsageError(
                    "On a lab of one broker no leader can move.", "Give 2 or more with --brokers."
                )
        else:
            _ = self.access.bootstrap

    @property
    def is_lab(self) -> bool:
        """Whether a lab is made."""
        return self.access is None

    @property
    def lab_racks(self) -> dict[int, str | None]:
        """The rack of each broker of the lab to make."""
        return {node.id: node.rack for node in node_specs(self.lab, 1) if node.role is Role.BROKER}

    @property
    def lab(self) -> LabSpec:
        """The lab to make."""
        return LabSpec(
            name=f"experiment-{os.getpid()}-{self.kafka_version}",
            brokers=self.brokers,
            controllers=self.controllers,
            kafka_version=self.kafka_version,
            config=_CONFIG,
            c1_only=suits_c1(self.brokers + self.controllers),
            of_a_run=True,
        )


@dataclass(frozen=True, slots=True)
class Stand:
    """A cluster that is there, `lab` if it is one made for this, and the clients of arms."""

    cluster: Cluster
    access: Access
    kafka_version: str | None
    lab: Lab | None = None
    clients: Mapping[Arm, Client] = field(default_factory=dict)
    """Of those that are not kipctl's own."""

    def describe(
        self,
        run: Run,
        command: str,
        wall_start_us: int,
        arm: str,
        before: Snapshot,
        how: Mapping[str, Any],
        summary: Mapping[str, Any],
    ) -> None:
        """Write `run.json` of a run on kipctl's own topic, which was `before` as it says."""
        cluster = {"cluster_before": asdict(before), "cluster_after": asdict(self.snapshot())}
        said = {"topic": OWN_TOPIC, "kafka_version": self.kafka_version, **summary}
        where = {"bootstrap_server": str(self.access), "arm": arm}
        describe(run, command, wall_start_us, {**where, **how, **cluster, "summary": said})

    def snapshot(self) -> Snapshot:
        """Of kipctl's own topic."""
        return take_snapshot(self.cluster, [OWN_TOPIC])


@contextmanager
def stand_at(place: Place, arms: Iterable[Arm], message: Callable[[str], None]) -> Iterator[Stand]:
    """The place, ready; a lab made for it is gone after the block. Raises KipctlError.

    Clients are fetched first, so that what is missing is said before anything is started.
    """
    fetched = {arm: arm.fetched(place.access, message) for arm in arms}
    clients = {arm: client for arm, client in fetched.items() if client is not None}
    if place.access is not None:
        with Cluster(place.access, "kipctl", _ADMIN_TIMEOUT_S) as cluster:
            yield Stand(cluster, place.access, kafka_version(cluster), None, clients)
        return
    lab = Lab.up(place.lab, message)
    try:
        with Cluster(lab.access, "kipctl", _ADMIN_TIMEOUT_S) as cluster:
            yield Stand(cluster, lab.access, lab.kafka_version, lab, clients)
    finally:
        message("Stopping the cluster.")
        lab.down()
