"""What tests of experiments on real brokers share."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from one_process import in_this_process

from kipctl.experiments.arms import tapped
from kipctl.lab.cluster import Lab
from kipctl.load.execute import Executed, PlannedActions, execute_load
from kipctl.trace.clock import now_us
from kipctl.trace.columns import REDIRECT

Experiment = Callable[[str], dict[str, Any]]
_LOOK_US = 20_000


@pytest.fixture
def experiment(lab: Lab, tmp_path: Path) -> Experiment:
    """Carry out `kipctl experiment` on the lab: its document. Runs are recorded in `tmp_path`."""

    def document(words: str) -> dict[str, Any]:
        ran = in_this_process(
            *("experiment", *words.split(), "-o", "json"),
            *("--bootstrap-server", lab.bootstrap_server),
            KIPCTL_RUNS=str(tmp_path),
        )
        assert ran.status == 0, ran.err
        return ran.document

    return document


@pytest.fixture
def plans_have(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Plans of a module's class have these fields, for which their command has no option."""

    def patch(module: ModuleType, name: str, **fields: object) -> None:
        plan = getattr(module, name)
        monkeypatch.setattr(module, name, lambda **given: plan(**given | fields))

    return patch


class EndsWhenMet:
    """A load of kipctl's own that ends once it has met the last of the run's rotations."""

    def __init__(self, load: Any, performed: list[Any]) -> None:
        self._load = load
        self._performed = performed
        self.is_done_by = load.is_done_by
        self.stop = load.stop

    def outcome(self) -> Any:
        """Called when the last one has been performed."""
        moved_us = self._performed[-1].called_us
        while not (self._load.new_rows("redirects")[:, REDIRECT["error_us"]] >= moved_us).any():
            assert not self._load.is_done_by(now_us() + _LOOK_US), "no move was met"
        self._load.stop()
        return self._load.outcome()


@pytest.fixture
def end_when_rotated_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of kipctl's own arms last as long as two rotations of the machine take, and no longer.

    The first is met for certain: its records go on for `--every`, at least.
    """

    def execute(load: Any, schedule: Any, actions: PlannedActions) -> Executed[Any]:
        actions.plan = replace(actions.plan, count=2)
        return execute_load(EndsWhenMet(load, actions.performed), schedule, actions)

    monkeypatch.setattr(tapped, "execute_load", execute)
