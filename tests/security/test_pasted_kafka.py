"""Properties as people paste them let the right user in, over TLS, on a cluster that wants both."""

import subprocess
from pathlib import Path

import pytest
from on_secured import ran

from kipctl import java_properties
from kipctl.errors import ExitStatus
from kipctl.lab.cluster import Lab
from kipctl.security.jaas import jaas_options
from kipctl.security.stores import authorities

pytestmark = pytest.mark.kafka
DIALECTS = {
    "librdkafka": (
        "security.protocol=sasl_ssl\nsasl.mechanisms={mechanism}\nsasl.username={user}\n"
        "sasl.password={password}\nssl.ca.location={pem}"
    ),
    "Spring": (
        "spring.kafka.security.protocol=SASL_SSL\n"
        "spring.kafka.properties.sasl.mechanism={mechanism}\n"
        "spring.kafka.jaas.login-module={module}\n"
        "spring.kafka.jaas.options.username={user}\nspring.kafka.jaas.options.password={password}\n"
        "spring.kafka.ssl.trust-store-location=file:{jks}\n"
        "spring.kafka.ssl.trust-store-password={store_password}"
    ),
    "variables": (
        "KAFKA_SECURITY_PROTOCOL=SASL_SSL\nKAFKA_SASL_MECHANISM={mechanism}\n"
        "KAFKA_SASL_USERNAME={user}\nKAFKA_SASL_PASSWORD={password}\n"
        "KAFKA_SSL_TRUSTSTORE_LOCATION={jks}\nKAFKA_SSL_TRUSTSTORE_PASSWORD={store_password}"
    ),
    "kafka-ui": (
        "KAFKA_CLUSTERS_0_PROPERTIES_SECURITY_PROTOCOL=SASL_SSL\n"
        "KAFKA_CLUSTERS_0_PROPERTIES_SASL_MECHANISM={mechanism}\n"
        "KAFKA_CLUSTERS_0_PROPERTIES_SASL_JAAS_CONFIG={module} required "
        'username="{user}" password="{password}";\n'
        "KAFKA_CLUSTERS_0_SSL_TRUSTSTORELOCATION={jks}\n"
        "KAFKA_CLUSTERS_0_SSL_TRUSTSTOREPASSWORD={store_password}"
    ),
    "Quarkus' profile": (
        "%prod.kafka.security.protocol=SASL_SSL\n%prod.kafka.sasl.mechanism={mechanism}\n"
        '%prod.kafka.sasl.jaas.config={module} required username="{user}" password="{password}";\n'
        "%prod.kafka.ssl.truststore.location={jks}\n"
        "%prod.kafka.ssl.truststore.password={store_password}"
    ),
    "without quotes": (
        "producer.security.protocol=SASL_SSL\nproducer.sasl.mechanism={mechanism}\n"
        "producer.sasl.jaas.config={module} required "
        "username={user} password={password};\nproducer.ssl.ca.location={pem}"
    ),
}


@pytest.fixture(scope="module")
def known(secured_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What people fill in."""
    folder = tmp_path_factory.mktemp("stores")
    given = java_properties.read(secured_lab.client_files["admin-scram-sha-512"])
    login = jaas_options(given["sasl.jaas.config"])
    pem, jks = folder / "ca.pem", folder / "trust.jks"
    trusted = Path(given["ssl.truststore.location"])
    pem.write_text(authorities(trusted, given.get("ssl.truststore.password", "")))
    stored = ("-storetype", "JKS", "-storepass", "changeit", "-noprompt")
    keytool = ["keytool", "-importcert", "-file", f"{pem}", "-keystore", f"{jks}", *stored]
    subprocess.run(keytool, check=True, capture_output=True)
    return {
        "module": given["sasl.jaas.config"].split()[0],
        "mechanism": given["sasl.mechanism"],
        "user": login["username"],
        "password": login["password"],
        "pem": f"{pem}",
        "jks": f"{jks}",
        "store_password": "changeit",
    }


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_right_login_over_tls_and_no_other(
    dialect: str, known: dict[str, str], secured_lab: Lab, tmp_path: Path
) -> None:
    file = tmp_path / "pasted.properties"
    asks = ("inspect", "leaders", "--command-config", str(file), "-o", "json")
    asks = (*asks, "--bootstrap-server", secured_lab.bootstrap_server)
    file.write_text(DIALECTS[dialect].format(**known))
    status, _, said = ran(*asks, state=tmp_path)
    assert status == ExitStatus.DONE, said
    assert "as Java's clients say it" in said
    assert known["password"] not in said
    file.write_text(DIALECTS[dialect].format(**known | {"password": "another"}))
    status, _, said = ran(*asks, state=tmp_path)
    assert status == ExitStatus.REFUSED, said
