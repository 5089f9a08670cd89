"""Options of `kipctl inspect replica-selection` that do not go together, or mean nothing."""

import io

import pytest

from kipctl.cli.app import run
from kipctl.cli.environment import Environment


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--explain t:0 --watch", "--explain and --watch exclude one another"),
        ("--explain t:0 --require-local 95%", "--require-local does not go with --explain"),
        ("--watch --client librdkafka", "--client does not go with --watch"),
        ("--watch --rate-over 5", "--rate-over does not go with --watch"),
        ("--for 5", "--for does not go without --watch"),
        ("--price-per-gb 0.02", "--price-per-gb needs --rate-over"),
        ("--price-per-gb -1 --rate-over 5", "Invalid value for '--price-per-gb'"),
        ("--rate-over soon", "'soon' is not a duration"),
        ("--rate-over 0", "more than 0"),
        ("--watch --for 5y", "'5y' is not a duration"),
        ("--require-local most", "'most' is no percentage"),
        ("--client kafka-python", "kafka-python"),
        ("--explain t", "'t' is not a partition"),
        ("--explain t:0 --topic u", "--topic does not go with --explain"),
    ],
)
def test_wrong_usage_is_told_before_the_cluster_is_asked(arguments: str, message: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    variables = {"KIPCTL_BOOTSTRAP_SERVER": "127.0.0.1:1"}
    status = run(
        ["inspect", "replica-selection", *arguments.split()],
        Environment(io.StringIO(), out, err, variables),
    )
    assert (status, out.getvalue()) == (2, "")
    assert message in err.getvalue()
    assert len(err.getvalue().splitlines()) <= 3
