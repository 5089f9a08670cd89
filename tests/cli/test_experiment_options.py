"""Where experiments record their runs, and what they take as lists."""

from io import StringIO
from pathlib import Path

import pytest

from kipctl.cli.commands.experiment_options import ExperimentOptions, Folders, whole_numbers
from kipctl.cli.environment import Environment
from kipctl.errors import UsageError
from kipctl.pipeline.place import Place
from kipctl.report.formats import OutputFormat
from kipctl.report.tables import Report, paragraphs
from kipctl.trace.store import Run
from kipctl.trace.stored_runs import run_folders


def test_runs_are_recorded_by_name_or_in_a_folder(tmp_path: Path) -> None:
    variables = {"KIPCTL_RUNS": str(tmp_path)}
    assert run_folders(None, variables)("one") is None
    assert run_folders("roll", variables)("one") == tmp_path / "roll-one"
    assert run_folders("./there", variables)("one") == Path("there/one")


def test_a_name_that_has_runs_is_refused_before_anything_begins(tmp_path: Path) -> None:
    variables = {"KIPCTL_RUNS": str(tmp_path)}
    for number in (1, 2, 3):
        Run.create(tmp_path / f"redirect-probe.{number}").describe({})
    Path(tmp_path, "not-a-run").mkdir()
    with pytest.raises(UsageError) as refused:
        run_folders("redirect", variables)
    assert refused.value.what == (
        "Runs are recorded as redirect already: redirect-probe.1 and 2 others."
    )
    assert refused.value.next_step.endswith("kipctl runs remove 'redirect-*'")
    with pytest.raises(UsageError, match=r"redirect-probe\.1 and 2 others"):
        run_folders(f"{tmp_path}", variables)
    assert run_folders("redir", variables)("probe.1") == tmp_path / "redir-probe.1"
    there = tmp_path / "not-a-run"
    assert run_folders(f"{there}", variables)("probe.1") == there / "probe.1"


def test_the_page_of_the_runs_begins_with_what_was_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[list[str], Path, Report | None]] = []

    def report_runs(
        _environment: Environment, paths: list[str], html: Path, _place: Place, *, result: Report
    ) -> None:
        written.append((paths, html, result))

    monkeypatch.setattr("kipctl.cli.commands.report.report_runs", report_runs)
    out = StringIO()
    environment = Environment(stdin=StringIO(), stdout=out, stderr=StringIO())
    options = ExperimentOptions(
        record=f"{tmp_path}/runs", html=tmp_path / "page.html", output=OutputFormat.PLAIN
    )
    opening = paragraphs("Batches of 5 took 1 s.")

    def measure(record: Folders, _: object) -> dict[str, object]:
        assert record("one") == tmp_path / "runs" / "one"
        return {}

    options.report(environment, "experiment batch", measure, lambda _: opening, lambda _: ())
    assert out.getvalue() == "Batches of 5 took 1 s.\n"
    report = Report("experiment batch", {}, opening=opening)
    assert written == [([f"{tmp_path}/runs/one"], tmp_path / "page.html", report)]


def test_numbers_of_a_list() -> None:
    assert whole_numbers("100,6", "--partitions") == (100, 6)
    with pytest.raises(UsageError, match="--partitions"):
        whole_numbers("6,", "--partitions")
