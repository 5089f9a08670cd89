"""What tests of experiments on real brokers share."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from one_process import in_this_process
from until_met import UntilMet

from kipctl.experiments.arms import tapped
from kipctl.lab.cluster import Lab

Experiment = Callable[[str], dict[str, Any]]


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


@pytest.fixture
def until_met(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of kipctl's own arms last until the client has met each of two rotations."""
    monkeypatch.setattr(tapped, "PlannedActions", UntilMet)
