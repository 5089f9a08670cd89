"""OAUTHBEARER by client credentials (KIP-768): a token endpoint, and real brokers that want tokens.

The brokers are those of a lab, which believe unsigned tokens; the endpoint is this test's.
"""

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from on_secured import Program, Way, files_with, ran, topic_of
from token_endpoint import Answer, Endpoint, jwt

from kipctl import java_properties
from kipctl.lab.cluster import Lab
from kipctl.load.clients.client import ProducerLoad
from kipctl.load.clients.librdkafka import Librdkafka
from kipctl.state import write_private

pytestmark = pytest.mark.kafka
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
CLIENT, SECRET = "kipctl-at-idp", "s3cret-of-the-client"
LIFETIME_S = 15
"""Of a token: several are needed during a run of 14 s. The last fifth of it is what a machine may
stand still between its client and the broker that judges it."""


class Idp(Endpoint):
    """It knows one client, and whose tokens it is to be given."""

    def __init__(self) -> None:
        super().__init__()
        self.subject = "admin"
        self.given: list[str] = []
        self.give = self._token

    def _token(self) -> Answer:
        authorization, form = self.asked[-1]
        assert form["grant_type"] == "client_credentials"
        if authorization != basic(SECRET):
            return Answer(401, {"error": "invalid_client"})
        now = time.time()
        number = len(self.given)
        token = jwt(signature="", sub=self.subject, iat=now, exp=now + LIFETIME_S, jti=str(number))
        self.given.append(token)
        return Answer(200, {"access_token": token, "expires_in": LIFETIME_S})


def basic(secret: str) -> str:
    return "Basic " + base64.b64encode(f"{CLIENT}:{secret}".encode()).decode()


@pytest.fixture
def idp() -> Iterator[Idp]:
    opened = Idp()
    yield opened
    opened.close()


def way(lab: Lab, idp: Idp, folder: Path, secret: str = SECRET) -> Way:
    """A client of the lab that fetches its tokens there."""
    properties = java_properties.read(lab.client_files["admin-oauthbearer"]) | {
        "sasl.jaas.config": f'{MODULE} required clientId="{CLIENT}" clientSecret="{secret}";',
        "sasl.oauthbearer.token.endpoint.url": idp.url,
    }
    file = folder / "client.properties"
    write_private(file, java_properties.text(properties).encode())
    return Way(lab, file)


def test_tokens_are_fetched_and_replaced_under_load_and_told_nobody(
    secured_lab: Lab, idp: Idp, tmp_path: Path
) -> None:
    """In processes of their own: the client's, and that of the probe that it starts."""
    secret_folder, folder = tmp_path / "mine", tmp_path / "kipctl"
    secret_folder.mkdir()
    folder.mkdir()
    client, kipctl = way(secured_lab, idp, secret_folder), Program(folder)
    load = ("--num-records", "700", "--throughput", "50", "--partitions", "2")
    run = ("--record", str(folder / "run"), "-o", "json")
    said = json.loads(kipctl("perf", "e2e", *load, *run, *client.options))
    assert (said["records"]["delivered"], said["records"]["failed"]) == (700, 0)
    for side in ("producer", "consumer"):
        assert said["health"][side]["reauthentications"]["count"] >= 1
    assert len(idp.given) >= 3
    kipctl("inspect", "brokers", *client.options)
    told = {SECRET.encode(), *(token.encode() for token in idp.given)}
    assert files_with(told, folder) == []


def test_librdkafka_under_test_gets_its_tokens_there(
    secured_lab: Lab, idp: Idp, tmp_path: Path
) -> None:
    client = way(secured_lab, idp, tmp_path)
    with topic_of(secured_lab, "by-token", 1) as topic:
        load = ProducerLoad(topic=topic, num_records=20, throughput=0, record_size=10)
        with Librdkafka().producer(load, client.access) as producer:
            assert producer.outcome().records == 20
    assert idp.given


def test_a_missing_right_is_that_of_the_tokens_subject(
    secured_lab: Lab, idp: Idp, tmp_path: Path
) -> None:
    """Not of the client's id, under which the endpoint knows it."""
    idp.subject = "alice"
    client = way(secured_lab, idp, tmp_path)
    status, _, err = ran("reassign", "--list", *client.options, state=tmp_path / "state")
    assert status == 4
    assert "User:alice has no right to Describe on the Cluster" in err
    assert "--allow-principal User:alice " in err


def test_an_endpoint_that_refuses_the_client_is_one_clear_error(
    secured_lab: Lab, idp: Idp, tmp_path: Path
) -> None:
    client = way(secured_lab, idp, tmp_path, secret="wrong-" + SECRET)
    status, out, err = ran("reassign", "--list", *client.options, state=tmp_path / "state")
    assert (status, out) == (4, "")
    error = err[err.index("kipctl: ") :]
    assert f"refuses client '{CLIENT}': HTTP 401, invalid_client." in error
    assert SECRET not in err
    assert len(error.splitlines()) <= 3
