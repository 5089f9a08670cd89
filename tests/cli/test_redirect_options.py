"""What `kipctl experiment redirect` refuses before it starts anything."""

from io import StringIO
from pathlib import Path

import pytest

from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.errors import ExitStatus


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--scale large", "--scale is large; it is default or kip"),
        ("--quick --scale kip", "--quick and --scale kip cannot both be"),
        ("--curve a", "--curve is for --predict"),
        ("--gain-curve --stale-metadata 1s", "A gain curve has its own staleness"),
        ("--stale-metadata 1x", "'1x' is not a duration"),
        ("--arms java", "'java' is no arm"),
        ("--acks 0", "--acks is 0; it is one of 1, all"),
        ("--every 20 --num-records 1000", "no rotation is due within them"),
        ("--brokers 0", "A lab has 1 to 100 brokers, not 0"),
        ("--predict --curve never --bootstrap-server 127.0.0.1:1", "There is no run 'never-*'"),
        ("--predict --curve ./never --bootstrap-server 127.0.0.1:1", "No whole run is recorded"),
    ],
)
def test_it_is_wrong_usage(words: str, says: str, tmp_path: Path) -> None:
    error = StringIO()
    environment = Environment(
        stdin=StringIO(),
        stdout=StringIO(),
        stderr=error,
        variables={"KIPCTL_RUNS": str(tmp_path)},
    )
    assert run(["experiment", "redirect", *words.split()], environment) == ExitStatus.USAGE
    assert says in error.getvalue()
    assert len(error.getvalue().splitlines()) <= 3
