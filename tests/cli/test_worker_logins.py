"""A login is given to workers on a Spark cluster only where Spark hides what it sends."""

from pathlib import Path

import pytest
from nothing_begun import Outcome, outcome

from kipctl.pipeline.settings import hides_what_it_sends

LOGIN = """security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config=PlainLoginModule required username="admin" password="secret";
"""
CLUSTER = "--master spark://127.0.0.1:1"
AUTHENTICATE = "--conf spark.authenticate=true"
ENCRYPT = "--conf spark.network.crypto.enabled=true"


@pytest.mark.parametrize(
    ("authenticate", "others", "hides"),
    [
        (None, {}, False),
        ("true", {}, False),
        (None, {"spark.network.crypto.enabled": "true"}, False),
        ("false", {"spark.network.crypto.enabled": "true"}, False),
        ("true", {"spark.network.crypto.enabled": "false"}, False),
        ("true", {"spark.network.crypto.enabled": "true"}, True),
        ("TRUE", {"spark.network.crypto.enabled": " True "}, True),
        ("true", {"spark.ssl.rpc.enabled": "true"}, True),
        # RPC does not inherit it.
        ("true", {"spark.ssl.enabled": "true"}, False),
    ],
)
def test_spark_hides_what_it_sends_when_it_authenticates_and_encrypts(
    authenticate: str | None, others: dict[str, str], hides: bool
) -> None:
    own = {} if authenticate is None else {"spark.authenticate": authenticate}
    assert hides_what_it_sends({**own, **others}) == hides


@pytest.mark.parametrize("command", ["produce", "e2e", "consume --topic orders --num-records 9"])
@pytest.mark.parametrize(
    ("login", "options", "is_refused"),
    [
        (LOGIN, CLUSTER, True),
        (LOGIN, f"{CLUSTER} {AUTHENTICATE}", True),
        (LOGIN, f"{CLUSTER} {AUTHENTICATE} {ENCRYPT}", False),
        (LOGIN, f"{CLUSTER} --force", False),
        (LOGIN, "--workers 2", False),
        (LOGIN, "--workers 2 --master local[2]", False),
        ("", CLUSTER, False),
    ],
)
def test_a_login_does_not_go_to_a_spark_that_anyone_can_listen_to(
    command: str, login: str, options: str, is_refused: bool, tmp_path: Path
) -> None:
    said = perf(f"{command} {options}", login, tmp_path)
    assert (said.status == 4, said.begun == []) == (is_refused, is_refused)
    assert ("spark.network.crypto.enabled" in said.err) == is_refused
    assert "insist with --force" in said.err or not is_refused


@pytest.mark.parametrize("encrypt", ["false", "true"])
def test_settings_of_sparks_own_configuration_count(
    encrypt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text(
        f"spark.authenticate true\nspark.network.crypto.enabled {encrypt}\n"
    )
    said = perf(f"produce {CLUSTER}", LOGIN, tmp_path)
    assert (said.status == 4) == (encrypt == "false")


def perf(words: str, login: str, folder: Path) -> Outcome:
    """What it says, and what it was about to begin: a run that is not refused, a connection."""
    (folder / "login").write_text(login)
    return outcome(["perf", *words.split(), "--command-config", str(folder / "login")], folder)
