"""The walk of a topic through `kipctl reassign --rotate`: which module hands it to which.

    python benchmarks/walk.py [--before COMMIT] [--tree]

One topic is rotated on a cluster of the tests (`tests/cluster/reassigning.py`), and followed from
call to call (`sys.setprofile`) as what it is at the time: what was asked for, a plan, its summary,
the result. A stay is what is done with it in one module without a break; a climb is a call from a
lower module to a higher one, by the order of pyproject.toml. --tree prints each call of one module
by another that is the first of its kind. With --before another commit is counted too, in a worktree
of its own.
"""

import argparse
import io
import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from types import FrameType

HERE = Path(__file__).parents[1]
ROOMS = [f"kipctl.{room}" for room in ("cli", "report", "guard", "runs", "changes", "cluster")]
"""From the top down; what is called of any other is not counted."""
FOLLOWED = {
    "ReassignRequest",
    "ChangeContext",
    "PlannedChange",
    "Survey",
    "Proposal",
    "Plan",
    "PlanSummary",
    "PlanResult",
    "LeadersMoved",
}
"""What the topic is in on its way, now and in former commits."""
TESTS = [f"tests/{folder}" for folder in ("cluster", "transport", "protocol", "probe")]
COMMAND = "reassign --rotate --topic t --yes"


class Walk:
    """Follows the calls of this thread."""

    def __init__(self, layers: dict[str, tuple[int, ...]]) -> None:
        self.layers = layers
        self.here = ""
        self.stays = self.room_stays = self.climbs = 0
        self.rooms: set[str] = set()
        self.edges: dict[tuple[str, str], None] = {}

    def event(self, frame: FrameType, kind: str, _: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if kind != "call" or self.rank(module) is None or not self.carries(frame):
            return
        caller = frame.f_back
        while caller and (self.rank(caller.f_globals.get("__name__", "")) is None):
            caller = caller.f_back
        last = caller.f_globals["__name__"] if caller else module
        self.rooms.add(module)
        self.stays += module != self.here
        self.room_stays += room_of(module) != room_of(self.here)
        self.here = module
        if module != last:
            self.climbs += ROOMS.index(room_of(module)) < ROOMS.index(room_of(last))
            self.edges.setdefault((last, module))

    def carries(self, frame: FrameType) -> bool:
        """Whether it is called with what the topic is in."""
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return any(type(frame.f_locals.get(name)).__name__ in FOLLOWED for name in names)

    def rank(self, module: str) -> tuple[int, ...] | None:
        """How far down the module stands; None where it is not counted."""
        while module and module not in self.layers:
            module = module.rpartition(".")[0]
        return self.layers.get(module)


def room_of(module: str) -> str:
    """The room of a module: `kipctl.changes` of `kipctl.changes.planned`."""
    return ".".join(module.split(".")[:2])


def ranks() -> dict[str, tuple[int, ...]]:
    """Of each room, and of the modules of rooms that have layers of their own, how far down."""
    linter = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["importlinter"]
    depths: dict[str, tuple[int, ...]] = {name: (at,) for at, name in enumerate(ROOMS)}
    for contract in linter["contracts"]:
        for container in contract.get("containers", ()):
            if container in depths:
                for number, layer in enumerate(contract["layers"]):
                    for name in layer.split(" | "):
                        depths[f"{container}.{name}"] = (*depths[container], number)
    return depths


def walk(tree: bool) -> dict[str, int]:
    """Counted in the working directory's kipctl."""
    sys.path[:0] = [str(Path.cwd()), *TESTS]
    from reassigning import reassigning

    from kipctl.cli.app import run
    from kipctl.cli.environment import Environment

    partition_id = sys.modules["reassigning"].PartitionId  # its module has moved since
    topic = {partition_id("t", number): (1, 2, 3) for number in range(2)}
    with reassigning(topic) as (_, broker), tempfile.TemporaryDirectory() as state:
        variables = {"KIPCTL_BOOTSTRAP_SERVER": broker.address, "XDG_STATE_HOME": state}
        followed = Walk(ranks())
        for profile in (None, followed.event):  # at first what is imported late is imported
            environment = Environment(io.StringIO(), io.StringIO(), io.StringIO(), variables)
            sys.setprofile(profile)
            status = run(COMMAND.split(), environment)
            sys.setprofile(None)
            assert status == 0, status
    if tree:
        for caller, called in followed.edges:
            up = (followed.rank(called) or ()) < (followed.rank(caller) or ())
            print(f"{caller} {'^' if up else '->'} {called}")
    return {
        "stays in rooms": followed.room_stays,
        "climbs to a higher room": followed.climbs,
        "stays in modules": followed.stays,
        "modules": len(followed.rooms),
        "calls between modules": len(followed.edges),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before")
    parser.add_argument("--tree", action="store_true")
    options = parser.parse_args()
    if options.before:
        with tempfile.TemporaryDirectory() as folder:
            git = ["git", "-C", str(HERE), "worktree"]
            subprocess.run([*git, "add", "-q", "--detach", folder, options.before], check=True)
            script = [sys.executable, str(Path(__file__).resolve())]
            subprocess.run(script, cwd=folder, check=True)
            subprocess.run([*git, "remove", "--force", folder], check=True)
    print(json.dumps(walk(options.tree)))


if __name__ == "__main__":
    main()
