"""What the experiments refuse before anything is started, and where they record their runs."""

from io import StringIO
from pathlib import Path

import pytest

from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.cli.experiment_options import (
    ExperimentOptions,
    recorded_runs,
    run_folders,
    whole_numbers,
)
from kipctl.errors import ExitStatus, UsageError
from kipctl.pipeline.place import Place
from kipctl.report.formats import OutputFormat
from kipctl.report.tables import Report, paragraphs


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("roll --acks 1,2", "--acks '2': it must be all, 1, or all,1."),
        ("roll --partitions 100;6", "--partitions '100;6' is no list of numbers."),
        ("roll --partitions 6,0", "--partitions is 0; it must be at least 1."),
        ("roll --runs 0", "--runs is 0; it must be at least 1."),
        ("roll --restarts -1", "--restarts is -1; it must be at least 0."),
        ("roll --throughput 0", "--throughput must be above 0."),
        ("roll --arms probe", "'probe' is no arm."),
        ("closest-replica --arms kafka-python", "'kafka-python' is no arm."),
        ("closest-replica --for 0", "more than 0"),
        ("batch --batches 1,some", "--batches '1,some' are no batch sizes."),
        ("batch --rotations 0", "--rotations is 0; it must be at least 1."),
        ("batch --acks 2", "--acks is 2; it is one of all, 1."),
        ("batch --throughput 0", "--throughput must be above 0."),
        ("metadata --arms probe-kip951", "'probe-kip951' is no client of this experiment."),
        ("metadata --phase startup --phase never", "Invalid value for '--phase'"),
    ],
)
def test_wrong_options_are_told_before_a_cluster_is_made(words: str, said: str) -> None:
    err = StringIO()
    arguments = ["experiment", *words.split()]
    assert run(arguments, Environment(stdin=StringIO(), stderr=err)) == ExitStatus.USAGE
    assert said in err.getvalue()
    assert "Starting Kafka" not in err.getvalue()


def test_runs_are_recorded_by_name_or_in_a_folder(tmp_path: Path) -> None:
    variables = {"KIPCTL_RUNS": str(tmp_path)}
    assert run_folders(None, variables)("one") is None
    assert run_folders("roll", variables)("one") == tmp_path / "roll-one"
    assert run_folders("./there", variables)("one") == Path("there/one")


def test_the_page_of_the_runs_begins_with_what_was_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[list[str], Path, Report | None]] = []

    def report_runs(
        _environment: Environment, paths: list[str], html: Path, _place: Place, *, of: Report
    ) -> None:
        written.append((paths, html, of))

    monkeypatch.setattr("kipctl.cli.report.report_runs", report_runs)
    out = StringIO()
    environment = Environment(stdin=StringIO(), stdout=out, stderr=StringIO())
    options = ExperimentOptions(
        record=f"{tmp_path}/runs", html=tmp_path / "page.html", output=OutputFormat.PLAIN
    )
    found = Report("experiment batch", {}, opening=paragraphs("Batches of 5 took 1 s."))
    with recorded_runs(environment, options) as recorded:
        one = recorded.folder("one")
        recorded.report(found)
    assert out.getvalue() == "Batches of 5 took 1 s.\n"
    assert written == [([str(one)], tmp_path / "page.html", found)]


def test_numbers_of_a_list() -> None:
    assert whole_numbers("100,6", "--partitions") == (100, 6)
    with pytest.raises(UsageError, match="--partitions"):
        whole_numbers("6,", "--partitions")
