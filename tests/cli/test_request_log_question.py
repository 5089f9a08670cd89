"""What `kipctl request-log on` says before it asks."""

import io
from types import SimpleNamespace

import pytest

from kipctl.cli.commands.request_log import _confirm
from kipctl.cli.environment import Environment
from kipctl.transport.access import access_of
from kipctl.transport.request import Cluster

SSL = {"security.protocol": "SSL"}
PLAIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": 'PlainLoginModule required username="admin" password="p";',
}


@pytest.mark.parametrize(("properties", "is_secured"), [({}, False), (SSL, True), (PLAIN, True)])
def test_on_a_secured_cluster_it_says_that_passwords_are_logged(
    properties: dict[str, str], is_secured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = SimpleNamespace(brokers=())
    monkeypatch.setattr("kipctl.cluster.snapshot.take_snapshot", lambda *_: nothing)
    monkeypatch.setattr("kipctl.cli.commands.confirm.is_lab", lambda _: False)
    err = io.StringIO()
    environment = Environment(io.StringIO(), io.StringIO(), err, {})
    with Cluster(access_of("127.0.0.1:1", properties)) as cluster:
        _confirm(environment, cluster, [1], None, (), yes=True)
    assert ("SCRAM's salted passwords" in err.getvalue()) == is_secured
