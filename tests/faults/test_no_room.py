"""Every command that keeps something on disk, where nothing can be written or removed any more: it
ends with a status of its own and says which file that was, from whichever change of a file on."""

import errno
import io
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from no_room import no_room
from reassigning import Held, Reassigning, running

from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.cluster.request_log import LOGGER
from kipctl.cluster.snapshot import PartitionId
from kipctl.errors import ExitStatus
from kipctl.protocol.describe_configs import ResourceType
from kipctl.trace.schema import DATASETS
from kipctl.trace.store import Run

WHY = os.strerror(errno.ENOSPC)
ON, OFF = "request-log on --all-brokers --until-off --yes", "request-log off"


@dataclass
class World:
    """A cluster, and the folder that everything of kipctl's is kept in."""

    cluster: Reassigning
    folder: Path

    def run(self, line: str) -> tuple[int, str]:
        out, err = io.StringIO(), io.StringIO()
        variables = {
            "KIPCTL_BOOTSTRAP_SERVER": self.cluster.bootstrap_server,
            "XDG_STATE_HOME": str(self.folder),
            "XDG_CONFIG_HOME": str(self.folder),
        }
        words = shlex.split(line.format(here=self.folder))
        status = run(words, Environment(io.StringIO(), out, err, variables))
        return status, out.getvalue() + err.getvalue()

    @property
    def levels(self) -> set[str]:
        configs = self.cluster.configs
        return {configs[ResourceType.BROKER_LOGGER, str(id)][LOGGER] for id in self.cluster.brokers}

    def record_run(self) -> None:
        made = Run.create(self.folder / "kipctl" / "runs" / "one")
        for name in DATASETS:
            made.write(name, [])
        made.describe({"command": "perf produce", "started": "2026-01-01"})


def switched_on(world: World) -> None:
    assert world.run(ON)[0] == ExitStatus.DONE


def rotated(world: World) -> None:
    assert world.run("reassign --rotate --all-topics --yes")[0] == ExitStatus.DONE


def nothing(world: World) -> None:
    """It begins with an empty folder."""


COMMANDS: list[tuple[Callable[[World], None], str]] = [
    (nothing, ON),
    (nothing, "request-log on --all-brokers --for 100ms --yes"),
    (switched_on, OFF),
    (switched_on, "request-log off --broker 1"),
    (switched_on, "request-log status"),
    (nothing, "clusters add one --bootstrap-server localhost:9092"),
    (nothing, "reassign --rotate --all-topics --yes"),
    (rotated, "changes undo --yes"),
    (rotated, "changes list"),
    (nothing, "elect preferred --all --yes"),
    (nothing, "roll --exec false --broker 4 --yes"),
    (World.record_run, "runs list"),
    (World.record_run, "runs remove {here}/kipctl/runs/one --yes"),
    (World.record_run, "runs export {here}/kipctl/runs/one {here}/one.tar.gz"),
    (World.record_run, "runs export {here}/kipctl/runs/one {here}/csv --format csv"),
    (nothing, "tap --record {here}/tapped --for 100ms --listen 127.0.0.1:0"),
]


def world_in(folder: Path) -> World:
    led = {PartitionId("t", p): Held((1 + p, 2 + p), 2 + p) for p in range(2)}
    cluster = Reassigning(led)
    for id in cluster.brokers:
        cluster.configs[ResourceType.BROKER_LOGGER, str(id)] = {LOGGER: "WARN"}
    return World(cluster, folder)


@pytest.mark.parametrize(("before", "line"), COMMANDS, ids=[line for _, line in COMMANDS])
def test_who_has_no_room_is_told_where(
    before: Callable[[World], None], line: str, tmp_path: Path
) -> None:
    usual = ExitStatus.PARTLY_DONE if "--exec false" in line else ExitStatus.DONE
    for number in count():
        folder = tmp_path / str(number)
        folder.mkdir()
        world = world_in(folder)
        with running(world.cluster):
            before(world)
            with no_room(folder, number) as refused:
                status, said = world.run(line)
        assert status != ExitStatus.FAULT, said
        assert WHY in said or status == usual, said
        is_off = line == OFF or (line.startswith("request-log on") and status)
        if is_off:  # also where that could not be put on record
            assert world.levels == {"WARN"}, said
        if not refused[0]:
            assert status == usual, said
            return
