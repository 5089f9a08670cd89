"""Properties of connections as people paste them: what they are taken for, or what is to change."""

from pathlib import Path

import pytest

from kipctl.errors import UsageError
from kipctl.java_properties import parse
from kipctl.security.dialects import as_javas
from kipctl.security.jaas import jaas_options

CONFLUENT = """
bootstrap.servers=broker.example:9092
security.protocol=SASL_SSL
sasl.mechanisms=PLAIN
{login}
session.timeout.ms=45000
"""
LIBRDKAFKA = CONFLUENT.format(login="sasl.username=APIKEY\nsasl.password=a/b+c/d=")
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
UNQUOTED = CONFLUENT.format(
    login=f"sasl.jaas.config={PLAIN} required username=APIKEY password=a/b+c/d=;"
)
STRIMZI = f"""
security.protocol=SASL_SSL
sasl.mechanism=OAUTHBEARER
sasl.jaas.config={OAUTH} required oauth.client.id="ops" oauth.client.secret="s\\\\"cret" \
 oauth.scope="kafka" oauth.token.endpoint.uri="https://sso.example/token" \
 oauth.ssl.truststore.location="/opt/ca.p12" ;
sasl.login.callback.handler.class=io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler
"""
SPRING = """
spring.kafka.bootstrap-servers=kafka1:9093
spring.kafka.security.protocol=SASL_SSL
spring.kafka.properties.sasl.mechanism=PLAIN
spring.kafka.ssl.trust-store-location=file:/opt/trust%20store.p12
spring.kafka.ssl.trust-store-password=changeit
spring.kafka.jaas.enabled=true
spring.kafka.jaas.login-module=x.PlainLoginModule
spring.kafka.jaas.options.username=APIKEY
spring.kafka.jaas.options.password=a/b+c/d=
spring.kafka.consumer.group-id=mine
"""
LOGIN = {"username": "APIKEY", "password": "a/b+c/d="}


@pytest.mark.parametrize(
    ("text", "meant", "login"),
    [
        (LIBRDKAFKA, "sasl.mechanism=PLAIN, session.timeout.ms=45000", LOGIN),
        (UNQUOTED, "sasl.mechanism=PLAIN", LOGIN),
        (
            STRIMZI,
            "sasl.oauthbearer.token.endpoint.url=https://sso.example/token",
            {
                "clientId": "ops",
                "clientSecret": 's"cret',
                "scope": "kafka",
                "ssl.truststore.location": "/opt/ca.p12",
            },
        ),
        (
            SPRING,
            "bootstrap.servers=kafka1:9093, security.protocol=SASL_SSL, sasl.mechanism=PLAIN, "
            "ssl.truststore.location=/opt/trust store.p12, ssl.truststore.password=changeit, "
            "spring.kafka.consumer.group-id=mine",
            LOGIN,
        ),
        (
            'KAFKA_SECURITY_PROTOCOL="SASL_SSL"\nKAFKA_SASL_MECHANISM=PLAIN\n'
            "KAFKA_SASL_USERNAME=APIKEY\nKAFKA_SASL_PASSWORD=a/b+c/d=\nKAFKA_HEAP_OPTS=-Xmx1g",
            "security.protocol=SASL_SSL, KAFKA_HEAP_OPTS=-Xmx1g",
            LOGIN,
        ),
        (
            "producer.security.protocol=SSL\nconsumer.override.security.protocol=SSL\n"
            "producer.linger.ms=5",
            "security.protocol=SSL, producer.linger.ms=5",
            {},
        ),
        (
            "kafka.security.protocol=SSL\nmp.messaging.incoming.prices.ssl.truststore.type=PEM\n"
            "kafka.group.id=mine",
            "security.protocol=SSL, ssl.truststore.type=PEM, kafka.group.id=mine",
            {},
        ),
        (
            "SPRING_KAFKA_SECURITY_PROTOCOL=SASL_SSL\nSPRING_KAFKA_SSL_TRUSTSTORELOCATION=/t.p12\n"
            "SPRING_KAFKA_SSL_KEY_STORE_TYPE=PKCS12\nSPRING_KAFKA_BOOTSTRAPSERVERS=a:1\n"
            "SPRING_KAFKA_JAAS_LOGIN_MODULE=x.PlainLoginModule\n"
            "SPRING_KAFKA_JAAS_OPTIONS_USERNAME=APIKEY\nSPRING_KAFKA_JAAS_OPTIONS_PASSWORD=a/b+c/d=\n"
            "spring.kafka.ssl.keyStoreLocation=/k.p12",
            "security.protocol=SASL_SSL, bootstrap.servers=a:1, ssl.truststore.location=/t.p12, "
            "ssl.keystore.type=PKCS12, ssl.keystore.location=/k.p12",
            LOGIN,
        ),
        (
            "CONNECT_PRODUCER_SECURITY_PROTOCOL=SSL\nCONNECT_SSL_TRUSTSTORE_TYPE=PEM\n"
            "connect.consumer.ssl.truststore.location=/ca.pem",
            "security.protocol=SSL, ssl.truststore.type=PEM, ssl.truststore.location=/ca.pem",
            {},
        ),
        (
            "KAFKA_CLIENT_SECURITY_PROTOCOL=SSL\nKAFKA_CFG_SSL_TRUSTSTORE_TYPE=PEM\n"
            "KAFKA_CLIENT_USERS=alice",
            "security.protocol=SSL, ssl.truststore.type=PEM, KAFKA_CLIENT_USERS=alice",
            {},
        ),
        (  # kafka-ui's
            "KAFKA_CLUSTERS_0_BOOTSTRAPSERVERS=a:1\nKAFKA_CLUSTERS_0_NAME=x\n"
            "KAFKA_CLUSTERS_0_PROPERTIES_SECURITY_PROTOCOL=SASL_SSL\n"
            "KAFKA_CLUSTERS_0_PROPERTIES_SASL_MECHANISM=PLAIN\n"
            f"KAFKA_CLUSTERS_0_PROPERTIES_SASL_JAAS_CONFIG={PLAIN} required username='APIKEY' "
            'password="a/b+c/d=";\nKAFKA_CLUSTERS_0_SSL_TRUSTSTORELOCATION=/t.jks',
            "bootstrap.servers=a:1, security.protocol=SASL_SSL, ssl.truststore.location=/t.jks, "
            "KAFKA_CLUSTERS_0_NAME=x",
            LOGIN,
        ),
        (
            "spring.cloud.stream.kafka.binder.brokers=a:1\n"
            "spring.cloud.stream.kafka.binder.configuration.security.protocol=SASL_SSL\n"
            "spring.cloud.stream.kafka.streams.binder.configuration.sasl.mechanism=PLAIN\n"
            "spring.cloud.stream.kafka.binder.jaas.loginModule=x.PlainLoginModule\n"
            "spring.cloud.stream.kafka.binder.jaas.options.username=APIKEY\n"
            "spring.cloud.stream.kafka.binder.jaas.options.password=a/b+c/d=",
            "bootstrap.servers=a:1, security.protocol=SASL_SSL",
            LOGIN,
        ),
        (
            "%prod.kafka.security.protocol=SSL\n%prod.kafka.ssl.truststore.type=PEM\n"
            "%dev.kafka.group.id=a",
            "security.protocol=SSL, ssl.truststore.type=PEM, kafka.group.id=a",
            {},
        ),
        (
            "%dev.kafka.security.protocol=PLAINTEXT\nkafka.security.protocol=SSL",
            "security.protocol=SSL",
            {},
        ),
        (
            "main.consumer.security.protocol=SSL\nrestore.consumer.max.poll.records=5",
            "security.protocol=SSL, restore.consumer.max.poll.records=5",
            {},
        ),
        ("\ufeffsecurity.protocol=SSL\nacks=all", "security.protocol=SSL, acks=all", {}),
        # What stands there plainly is what is meant.
        ("security.protocol=SSL\nadmin.security.protocol=PLAINTEXT", "security.protocol=SSL", {}),
        (
            "ssl.endpoint.identification.algorithm=none\nmetadata.broker.list=a:1\n"
            "enable.ssl.certificate.verification=true\nssl.ca.location=/ca.pem",
            "ssl.endpoint.identification.algorithm=, bootstrap.servers=a:1, "
            "ssl.truststore.location=/ca.pem, ssl.truststore.type=PEM",
            {},
        ),
        (
            "ssl.ca.pem=CA\nssl.certificate.pem=CHAIN\nssl.key.pem=KEY\nssl.key.password=p",
            "ssl.truststore.certificates=CA, ssl.truststore.type=PEM, "
            "ssl.keystore.certificate.chain=CHAIN, ssl.keystore.key=KEY, ssl.keystore.type=PEM, "
            "ssl.key.password=p",
            {},
        ),
        (
            "sasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.method=oidc\nssl.ca.location=probe\n"
            "sasl.oauthbearer.client.id=ops\nsasl.oauthbearer.client.secret=s",
            "sasl.mechanism=OAUTHBEARER, sasl.oauthbearer.client.credentials.client.id=ops, "
            "sasl.oauthbearer.client.credentials.client.secret=s",
            {},
        ),
    ],
)
def test_what_is_plain_is_taken_for_what_it_means(
    text: str, meant: str, login: dict[str, str]
) -> None:
    properties, taken = as_javas(parse(text))
    assert dict(entry.split("=", 1) for entry in meant.split(", ")).items() <= properties.items()
    assert jaas_options(properties.get("sasl.jaas.config", "")) == login
    assert "io.strimzi" not in str(properties)
    theirs = (
        "sasl.username",
        "sasl.mechanisms",
        "sasl.oauthbearer.method",
        "ssl.ca.",
        "ssl.key.pem",
        "oauth",
        "enable.ssl",
    )
    assert [name for name in properties if name.startswith(theirs)] == []
    assert taken or set(parse(text)) >= set(properties)
    # Whatever came out is Java's: nothing is left to be taken for something else.
    assert as_javas(properties) == (properties, ())
    assert not any(secret in " ".join(taken) for secret in ("a/b", "changeit", 's"cret'))


def test_a_certificate_and_its_key_in_two_files_are_one_keystore(tmp_path: Path) -> None:
    for name in ("chain", "key"):
        (tmp_path / f"{name}.pem").write_text(f"the {name}")
    given = {
        "ssl.certificate.location": f"{tmp_path}/chain.pem",
        "ssl.key.location": f"{tmp_path}/key.pem",
    }
    properties, _ = as_javas(given)
    assert properties == {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "the chain",
        "ssl.keystore.key": "the key",
        "ssl.key.location": given["ssl.key.location"],  # who may read it is looked at
    }
    assert as_javas(properties) == (properties, ())


def test_what_java_knows_stays_as_it_is() -> None:
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.jaas.config": f'{PLAIN} required username="a" password="${{not one}}x";',
        "ssl.truststore.location": "/trust.jks",
        "acks": "all",
        "producer.id": "<x>",
    }
    assert as_javas(given) == (given, ())


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("sasl.username={{ CLUSTER_API_KEY }}", "sasl.username still has {{ CLUSTER_API_KEY }}"),
        (
            f'sasl.jaas.config={PLAIN} required username="a" password="<password>";',
            "sasl.jaas.config still has <password>: a template",
        ),
        (
            f'sasl.jaas.config={PLAIN} required username="$ConnectionString" '
            'password="{YOUR.EVENTHUBS.CONNECTION.STRING}";',
            "sasl.jaas.config still has {YOUR.EVENTHUBS.CONNECTION.STRING}: a template",
        ),
        ("KAFKA_SASL_PASSWORD=${PASSWORD}", r"sasl.password still has ${PASSWORD}"),
        ("bootstrap.servers=$(BROKERS)", "bootstrap.servers still has $(BROKERS)"),
        ("export KAFKA_SECURITY_PROTOCOL=SSL", "Leave that word out"),
        (
            "enable.ssl.certificate.verification=false",
            "enable.ssl.certificate.verification is off: whoever answers would get the login.",
        ),
        (
            "producer.security.protocol=SSL\nconsumer.security.protocol=PLAINTEXT",
            "producer.security.protocol and consumer.security.protocol are not the same",
        ),
        ("sasl.mechanism=PLAIN\nsasl.username=a", "sasl.username is given without sasl.password"),
        ("sasl.username=a\nsasl.password=b", "sasl.username is given without sasl.mechanism"),
        ("ssl.key.location=/k.pem", "ssl.key.location is given without ssl.certificate.location"),
        (
            "ssl.key.location=/no/k.pem\nssl.certificate.location=/no/c.pem",
            "ssl.certificate.location=/no/c.pem cannot be read: No such file",
        ),
        ("ssl.ca.location=/", "ssl.ca.location=/ is a folder"),
        ("spring.kafka.jaas.login-module=x", "Add spring.kafka.jaas.options.username=..."),
        ("spring.kafka.ssl.key-store-location=classpath:a.p12", "is inside of an application"),
        (f'sasl.jaas.config={OAUTH} required oauth.access.token="t";', "oauth.access.token"),
    ],
)
def test_what_is_not_plain_is_refused_with_what_to_change(text: str, refusal: str) -> None:
    with pytest.raises(UsageError) as refused:
        as_javas(parse(text))
    assert refusal in str(refused.value)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("A.security.protocol=SSL\nclusters=A, B", "A.security.protocol"),  # MirrorMaker's
        ("securityProtocol=SSL", "securityProtocol"),
        ("security_protocol=SSL\nsasl_plain_password=hush", "security_protocol"),
        (
            '{\n "security.protocol": "SASL_SSL",\n "sasl.password": "hush"\n}',
            '"security.protocol"',
        ),
        ("conf = {\n 'sasl.mechanisms': 'PLAIN',\n 'sasl.password': 'hush'}", "'sasl.mechanisms'"),
        ("-b a:1 -X security.protocol=SASL_SSL -X sasl.password=hush", "-b"),  # kcat's
        (
            f'listener.name.a.plain.sasl.jaas.config={PLAIN} required password="hush";',
            "listener.name.a.plain.sasl.jaas.config",
        ),
    ],
)
def test_names_that_nobody_knows_do_not_end_in_plain_text(text: str, named: str) -> None:
    with pytest.raises(UsageError) as refused:
        as_javas(parse(text))
    assert refused.value.what.startswith(f"{named} is no name of a property that kipctl knows")
    assert "hush" not in str(refused.value)
    assert as_javas(parse(f"security.protocol=SSL\nacks={text}"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ssl.keystore.key=-----BEGIN PRIVATE KEY-----\nMIIEhush\nhush\n", "several lines"),
        ("-----BEGIN PRIVATE KEY-----\nMIIEhush\n-----END PRIVATE KEY-----\n", "several lines"),
        (f'KafkaClient {{\n {PLAIN} required\n username="a"\n password="hush";\n}};', "JAAS file"),
        ("%a.sasl.password=hush\n%b.sasl.password=other", "from one profile to another"),
    ],
)
def test_another_kind_of_file_is_refused_without_showing_it(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        as_javas(parse(text))
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    "line",
    [
        "x required username=a password=b c;",
        "x required username='a b' password=c;",
        "x perhaps username=a;",
        "x required username=a password=b",
    ],
)
def test_a_login_that_could_mean_two_things_is_left_to_be_refused(line: str) -> None:
    try:
        read = jaas_options(line)
    except UsageError:
        assert as_javas({"sasl.jaas.config": line}) == ({"sasl.jaas.config": line}, ())
    else:
        assert read == {"username": "a b", "password": "c"}
