"""The probe's process holds the client and no more: its start is paid in what is measured."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("client", ["produce", "consume"])
def test_the_probes_process_imports_no_numpy_and_no_arrow(client: str) -> None:
    imports = f"kipctl.probe.process_main, kipctl.probe.{client}.run"
    said = subprocess.run(
        [sys.executable, "-c", f"import sys, {imports}; print(*sys.modules)"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    modules = set(said.stdout.split())
    assert f"kipctl.probe.{client}.run" in modules
    assert not modules & {"numpy", "pyarrow", "confluent_kafka", "typer", "rich"}
