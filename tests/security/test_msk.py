"""Logins of Amazon MSK's IAM: what is read, whose token it is, and what each failure says."""

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import aws
import pytest
from aws import KEY_ID, REGION, SECRET, SERVERS, SESSION
from http_peers import TRICKLES, peer
from scripted_broker import ScriptedBroker
from secure_peers import LETS_BEGIN, in_turn
from sigv4 import RefusedTokenError, signature, signer_of, url_of
from token_endpoint import Answer, Endpoint

from kipctl import extras, java_properties
from kipctl.errors import KipctlError, RefusedError, UnreachableError, UsageError
from kipctl.load.clients.java_command import jvm_arguments, system_properties, write_files
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.sasl import SaslAuthenticateResponse
from kipctl.security import msk, tokens
from kipctl.security.dialects import as_javas
from kipctl.security.sasl import AuthenticationError, Sasl
from kipctl.security.settings import security_of
from kipctl.security.tokens import MskToken
from kipctl.transport.access import access_of
from kipctl.transport.acl_errors import refusal
from kipctl.transport.request import BrokerConnection

MODULE = "software.amazon.msk.auth.iam.IAMLoginModule required"
ROLE = "arn:aws:iam::123456789012:role/msk_client_role"
AWS_MSK_IAM = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": f"{MODULE};",
    "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
}
HANDLER = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
JAVAS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
OAUTHBEARER = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": f"{JAVAS};",
    "sasl.login.callback.handler.class": HANDLER,
    "sasl.client.callback.handler.class": HANDLER,
}
PLAINLY = MskToken(REGION, "", "", "kipctl", "", "")


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, text in aws.environment(tmp_path).items():
        monkeypatch.setenv(name, text)
    monkeypatch.setattr(tokens, "_cache", tokens._Cache())


@pytest.fixture
def sts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    """AWS's Security Token Service."""
    opened = Endpoint()
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", opened.url)
    monkeypatch.setattr(msk, "_TIMEOUT_S", 60.0)  # a busy machine reads AWS's library for seconds
    yield opened
    opened.close()


def read(properties: dict[str, str], servers: str = SERVERS) -> Sasl:
    sasl = security_of(as_javas(properties).properties, servers).sasl
    assert sasl
    return sasl


def with_options(options: str) -> dict[str, str]:
    return AWS_MSK_IAM | {"sasl.jaas.config": f"{MODULE} {options};"}


# --- what is read ---


@pytest.mark.parametrize(
    ("pasted", "token"),
    [
        (AWS_MSK_IAM, PLAINLY),
        (OAUTHBEARER, PLAINLY),
        ({n: t for n, t in AWS_MSK_IAM.items() if n != "sasl.jaas.config"}, PLAINLY),
        ({f"spring.kafka.properties.{n}": t for n, t in AWS_MSK_IAM.items()}, PLAINLY),
        (
            {
                "spring.kafka.security.protocol": "SASL_SSL",
                "spring.kafka.properties.sasl.mechanism": "AWS_MSK_IAM",
                "spring.kafka.jaas.login-module": MODULE.partition(" ")[0],
            },
            PLAINLY,
        ),
        (with_options('awsProfileName="ops"'), replace(PLAINLY, profile="ops")),
        (with_options("awsDebugCreds=true awsMaxRetries=7"), PLAINLY),
        (
            with_options(f'awsRoleArn="{ROLE}" awsRoleSessionName="p" awsStsRegion="us-west-2"'),
            replace(PLAINLY, role_arn=ROLE, session_name="p", sts_region="us-west-2"),
        ),
        (  # without quotes, which Java refuses
            with_options(f"awsRoleArn={ROLE} awsRoleExternalId=x"),
            replace(PLAINLY, role_arn=ROLE, external_id="x"),
        ),
        (
            OAUTHBEARER | {"sasl.jaas.config": f'{JAVAS} awsProfileName="ops";'},
            replace(PLAINLY, profile="ops"),
        ),
    ],
)
def test_both_ways_to_say_it_are_a_token_over_oauthbearer(
    pasted: dict[str, str], token: MskToken
) -> None:
    assert read(pasted) == Sasl("OAUTHBEARER", token=token)


def test_what_it_is_taken_for_is_said_and_is_what_awss_own_java_client_reads() -> None:
    properties, taken = as_javas(with_options('awsProfileName="ops"'))
    assert taken == (
        "AWS_MSK_IAM as OAUTHBEARER with a token of AWS's signer, which MSK takes as well, in the"
        " whole region (AWS_MSK_IAM signs for one broker)",
    )
    assert properties == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{JAVAS} awsProfileName="ops";',
        "sasl.login.callback.handler.class": HANDLER,
    }
    assert as_javas(OAUTHBEARER).taken == ()


@pytest.mark.parametrize(
    ("servers", "variables", "region"),
    [
        (SERVERS, {"AWS_REGION": "us-east-1"}, REGION),
        (f"{SERVERS},{SERVERS.replace('b-1', 'b-2')}", {}, REGION),
        ("boot-x0.c1.kafka-serverless.us-west-2.amazonaws.com:9098", {}, "us-west-2"),
        ("h:1, B-2.a.b.c3.KAFKA.cn-north-1.amazonaws.com.cn:9098", {}, "cn-north-1"),
        ("127.0.0.1:9098", {"AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "x"}, "us-east-1"),
        ("kafka.eu-west-1.amazonaws.com.example:1", {"AWS_DEFAULT_REGION": "a-1"}, "a-1"),
    ],
)
def test_the_region_is_that_of_the_brokers_names_or_the_environments(
    servers: str, variables: dict[str, str], region: str
) -> None:
    assert msk.msk_token({}, servers, variables).region == region


@pytest.mark.parametrize(
    ("pasted", "servers", "said"),
    [
        (AWS_MSK_IAM, "10.0.0.1:9098", "Set AWS_REGION."),
        (
            AWS_MSK_IAM,
            *(f"{SERVERS}, {SERVERS.replace(REGION, 'us-east-1')}", f"{REGION} and us-east-1"),
        ),
        (
            AWS_MSK_IAM | {"security.protocol": "sasl_plaintext"},
            *(SERVERS, "Give security.protocol=SASL_SSL"),
        ),
        (OAUTHBEARER | {"security.protocol": "SASL_PLAINTEXT"}, SERVERS, "log in with it to any"),
        (with_options('awsProfileName="<Credential Profile Name>"'), SERVERS, "not filled in"),
        (with_options(f'awsProfileName="ops" awsRoleArn="{ROLE}"'), SERVERS, "two identities"),
        (with_options('awsRoleArn="arn:aws:iam::<account>:role/x"'), SERVERS, "is no role"),
        (
            with_options(f'awsRoleArn="{ROLE}" awsRoleSecretAccessKey="hush"'),
            *(SERVERS, "awsRoleSecretAccessKey of sasl.jaas.config is not read"),
        ),
        (AWS_MSK_IAM | {"sasl.jaas.config": MODULE}, SERVERS, "end with a semicolon"),
    ],
)
def test_what_is_wrong_is_said_before_anything_begins(
    pasted: dict[str, str], servers: str, said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        read(pasted, servers)
    assert said in str(refused.value)
    assert len(str(refused.value).splitlines()) == 2
    assert "hush" not in str(refused.value)


def test_without_the_signer_the_command_that_installs_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = extras.find_spec
    monkeypatch.setattr(
        extras, "find_spec", lambda name: None if name == "aws_msk_iam_sasl_signer" else real(name)
    )
    with pytest.raises(UsageError, match=r"needs aws_msk_iam_sasl_signer.* kipctl\[msk\]") as no:
        read(AWS_MSK_IAM)
    assert "pip install" in no.value.next_step
    with pytest.raises(UsageError, match="needs aws_msk_iam_sasl_signer"):  # as on a worker
        PLAINLY.current()


# --- tokens ---


def test_the_verifier_finds_the_signature_of_awss_own_example() -> None:
    """docs.aws.amazon.com/AmazonS3, "Authenticating requests: using query parameters"."""
    url = (
        "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256"
        "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
        "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
    )
    signed = signature(url, "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "UNSIGNED-PAYLOAD")
    assert signed == "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"


@pytest.mark.parametrize("session", ["", SESSION])
def test_a_token_is_signed_for_the_region_and_good_for_15_minutes(
    session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if session:
        monkeypatch.setenv("AWS_SESSION_TOKEN", session)
    began = int(time.time())
    token = PLAINLY.current()
    assert signer_of(token.text, {KEY_ID: SECRET}, REGION) == KEY_ID
    assert ("X-Amz-Security-Token" in url_of(token.text)) == bool(session)
    assert token.expires_s is not None
    assert began + 900 <= token.expires_s <= time.time() + 900
    assert PLAINLY.subject == KEY_ID
    for wrong, region in (({KEY_ID: SECRET + "x"}, REGION), ({}, REGION), ({KEY_ID: SECRET}, "x")):
        with pytest.raises(RefusedTokenError):
            signer_of(token.text, wrong, region)
    shown = repr((token, PLAINLY, Sasl("OAUTHBEARER", token=PLAINLY)))
    assert not [secret for secret in (SECRET, SESSION, token.text) if secret in shown]


def test_a_profiles_key_signs_whatever_the_environment_has(tmp_path: Path) -> None:
    (tmp_path / "aws-credentials").write_text(
        f"[ops]\naws_access_key_id=AKIDOPS\naws_secret_access_key={SECRET[::-1]}\n"
    )
    source = replace(PLAINLY, profile="ops")
    assert signer_of(source.current().text, {"AKIDOPS": SECRET[::-1]}, REGION) == "AKIDOPS"


def assumed(lifetime_s: float) -> bytes:
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + lifetime_s))
    return f"""<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
      <AssumeRoleResult><Credentials><AccessKeyId>ASIAROLE</AccessKeyId>
      <SecretAccessKey>{SECRET[::-1]}</SecretAccessKey><SessionToken>{SESSION}</SessionToken>
      <Expiration>{ends}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>
    """.encode()


@pytest.mark.parametrize(("lifetime_s", "good_for_s"), [(3600, 900), (300, 300)])
def test_a_role_is_assumed_and_its_key_signs_for_no_longer_than_it_lasts(
    sts: Endpoint, lifetime_s: float, good_for_s: float
) -> None:
    sts.answers = [Answer(200, assumed(lifetime_s))]
    source = replace(
        PLAINLY, role_arn=ROLE, session_name="prod", external_id="ext", sts_region="us-w-2"
    )
    token = source.current()
    assert signer_of(token.text, {"ASIAROLE": SECRET[::-1]}, REGION) == "ASIAROLE"
    assert token.expires_s is not None
    assert abs(token.expires_s - time.time() - good_for_s) < 60
    ((authorization, form),) = sts.asked
    assert f"Credential={KEY_ID}/" in authorization
    assert "/us-w-2/sts/aws4_request" in authorization
    asked = {name: form[name] for name in ("Action", "RoleArn", "RoleSessionName", "ExternalId")}
    assert asked == {
        "Action": "AssumeRole",
        "RoleArn": ROLE,
        "RoleSessionName": "prod",
        "ExternalId": "ext",
    }
    assert source.subject == ROLE


def test_an_event_loop_waits_neither_for_the_first_token_nor_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Threads sign; the token that is there is used meanwhile."""
    fetched, go_on, signing = msk.fetched, threading.Event(), threading.Event()

    def slowly(source: MskToken) -> tokens.Token:
        signing.set()
        assert threading.current_thread().name == tokens.REFRESHING
        go_on.wait(30)
        return fetched(source)

    monkeypatch.setattr(msk, "fetched", slowly)
    assert not PLAINLY.is_ready()
    assert signing.wait(30)
    assert not PLAINLY.is_ready()
    go_on.set()
    joined()
    first = PLAINLY.current()
    assert PLAINLY.is_ready()
    go_on.clear()
    now = time.time() + 0.81 * 900
    monkeypatch.setattr(tokens.time, "time", lambda: now)
    assert PLAINLY.current() == first
    go_on.set()
    joined()
    signer_of(PLAINLY.current().text, {KEY_ID: SECRET}, REGION)
    assert len(tokens._cache._tokens) == 1


def joined() -> None:
    for thread in threading.enumerate():
        if thread.name == tokens.REFRESHING:
            thread.join(30)


# --- what fails ---

NOWHERE = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
OF_PROFILES = """
[profile broken]
credential_process = /nowhere/at-all
[profile talks]
credential_process = sh -c "echo {token:hush}"
[profile tells]
credential_process = sh -c "echo '{\\"SecretAccessKey\\": \\"hush\\"}' >&2; exit 1"
[profile newer]
credential_process = echo '{"Version": "hush"}'
[profile mfa]
role_arn = arn:aws:iam::123456789012:role/of-profile
mfa_serial = arn:aws:iam::123456789012:mfa/me
source_profile = key
region = eu-west-1
[profile key]
aws_access_key_id = AKIDEXAMPLE
aws_secret_access_key = hush
[profile half]
sso_session = none
sso_account_id = 1
sso_role_name = r
"""


@pytest.mark.parametrize(
    ("source", "variables", "what", "next_step"),
    [
        (PLAINLY, NOWHERE, "no AWS credentials on this machine", "AWS_ACCESS_KEY_ID"),
        (PLAINLY, {"AWS_SECRET_ACCESS_KEY": ""}, "no AWS credentials", "aws sts"),
        (PLAINLY, {"AWS_PROFILE": "nobodys"}, "no profile 'nobodys'", "list-profiles"),
        (replace(PLAINLY, profile="gone"), {}, "no profile 'gone'", "list-profiles"),
        (replace(PLAINLY, profile="broken"), {}, "of profile 'broken': ", "aws sts"),
        (replace(PLAINLY, profile="talks"), {}, "of profile 'talks': ", "aws sts"),
        (replace(PLAINLY, profile="tells"), {}, "'tells' goes by failed", "--profile tells"),
        (replace(PLAINLY, profile="newer"), {}, "'newer' goes by failed", "--profile newer"),
        (replace(PLAINLY, profile="half"), {}, "of profile 'half': ", "aws sts"),
        (replace(PLAINLY, role_arn=ROLE), NOWHERE, f"of role {ROLE}", "aws sts"),
    ],
)
def test_credentials_that_are_not_to_be_had_are_wrong_usage(
    source: MskToken,
    variables: dict[str, str],
    what: str,
    next_step: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "aws-config").write_text(OF_PROFILES)
    for name, text in variables.items():
        monkeypatch.setenv(name, text) if text else monkeypatch.delenv(name)
    failed = failure(source)
    assert type(failed) is UsageError
    assert what in failed.what
    assert next_step in failed.next_step


@pytest.mark.parametrize(
    ("source", "variables"),
    [
        (replace(PLAINLY, profile="mfa"), {}),
        (PLAINLY, {**NOWHERE, "AWS_PROFILE": "mfa"}),
        (replace(PLAINLY, role_arn=ROLE), {**NOWHERE, "AWS_PROFILE": "mfa"}),
    ],
)
def test_nobody_is_asked_for_the_code_of_an_mfa_device(
    source: MskToken,
    variables: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sts: Endpoint,
) -> None:
    """A thread that reads the terminal would take what is typed at kipctl's own questions."""
    (tmp_path / "aws-config").write_text(OF_PROFILES)
    for name, text in variables.items():
        monkeypatch.setenv(name, text) if text else monkeypatch.delenv(name)
    failed = failure(source)
    assert type(failed) is UsageError
    assert "The AWS profile 'mfa' wants the code of an MFA device" in failed.what
    assert "aws configure export-credentials --profile mfa" in failed.next_step
    assert sts.asked == []


def test_an_answer_that_cannot_be_read_is_not_shown(sts: Endpoint) -> None:
    """AWS's library quotes it."""
    sts.answers = [Answer(200, b"<a><SecretAccessKey>hush</SecretAccessKey>")]
    failed = failure(replace(PLAINLY, role_arn=ROLE))
    assert failed.what.endswith(f"no AWS credentials of role {ROLE}: ResponseParserError.")


def test_a_role_that_may_not_be_assumed_is_a_refusal_in_awss_words(sts: Endpoint) -> None:
    sts.answers = [
        Answer(
            403,
            b"<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>User:"
            b" arn:aws:iam::1:user/me is not authorized\nto perform: sts:AssumeRole</Message>"
            b"</Error></ErrorResponse>",
        )
    ]
    failed = failure(replace(PLAINLY, role_arn=ROLE))
    assert type(failed) is RefusedError
    assert f"AWS gives no credentials of role {ROLE}: " in failed.what
    assert "(AccessDenied)" in failed.what
    assert "is not authorized to perform: sts:AssumeRole." in failed.what


def test_a_service_that_is_not_there_is_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1")
    failed = failure(replace(PLAINLY, role_arn=ROLE))
    assert type(failed) is UnreachableError
    assert "Could not connect to the endpoint URL" in failed.what


@pytest.mark.parametrize("what", TRICKLES)
def test_a_service_that_answers_too_slowly_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(msk, "_TIMEOUT_S", 0.5)
    with peer(TRICKLES[what]) as slow:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", slow.url)
        failed = failure(replace(PLAINLY, role_arn=ROLE))
    assert type(failed) is UnreachableError
    assert f"no credentials of role {ROLE} within 0.5 s" in failed.what


def failure(source: MskToken) -> KipctlError:
    """What the user reads: short, and without any secret."""
    with pytest.raises(KipctlError) as failed:
        source.current()
    text = str(failed.value)
    assert len(text.splitlines()) == 2
    assert not [secret for secret in (SECRET, SESSION, "hush") if secret in text]
    assert failed.value.__cause__ is None
    return failed.value


# --- elsewhere ---


def test_librdkafka_gets_the_token_by_its_callback() -> None:
    callback = access_of(SERVERS, as_javas(AWS_MSK_IAM).properties).librdkafka()["oauth_cb"]
    text, ends_s, _, _ = callback("")
    assert signer_of(text, {KEY_ID: SECRET}, REGION) == KEY_ID
    assert 890 < ends_s - time.time() <= 900


@pytest.mark.parametrize("others", ["", "/jars/others.jar"])
def test_java_is_not_started_without_the_library_that_it_would_need(
    others: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLASSPATH", others)
    access = access_of(SERVERS, as_javas(AWS_MSK_IAM).properties)
    for target in (access, access.behind("127.0.0.1:1")):
        with pytest.raises(UsageError, match=r"aws-msk-iam-auth, .* CLASSPATH does not name"):
            write_files(tmp_path, {}, target)
    assert jvm_arguments((Path("/k.jar"),), 256, tmp_path)[-1] == "/k.jar"


def test_java_has_awss_library_behind_kafkas_jars_and_is_told_the_region(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the brokers' names it knows nothing over OAUTHBEARER."""
    monkeypatch.setenv("CLASSPATH", "/a/aws-msk-iam-auth-2.3.6-all.jar:/b.jar:")
    access = access_of(SERVERS, as_javas(AWS_MSK_IAM).properties)
    write_files(tmp_path, {}, access)
    written = java_properties.read(tmp_path / "client.properties")
    assert written == {**access.properties, "bootstrap.servers": SERVERS}
    assert jvm_arguments((Path("/k.jar"),), 256, tmp_path)[-1] == (
        "/k.jar:/a/aws-msk-iam-auth-2.3.6-all.jar:/b.jar"
    )
    assert system_properties(access) == {"aws.region": REGION}


def test_a_right_is_granted_by_a_policy_and_not_by_kafka_acls() -> None:
    access = access_of(SERVERS, as_javas(AWS_MSK_IAM).properties)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    denied = refusal("It", code, ApiKey.ALTER_PARTITION_REASSIGNMENTS, access)
    assert "IAM policy" in denied.next_step
    assert "kafka-acls" not in denied.next_step


def test_a_login_that_is_refused_says_what_an_operator_of_msk_can_look_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_REGION", REGION)
    answers = in_turn(LETS_BEGIN, SaslAuthenticateResponse(58, "[id]: Access denied"))
    with ScriptedBroker(answers) as broker:
        access = access_of(broker.address, as_javas(OAUTHBEARER).properties).behind(broker.address)
        with (
            BrokerConnection("127.0.0.1", broker.port, "test", 20, access) as connection,
            pytest.raises(AuthenticationError, match=f"User '{KEY_ID}' is .*: Access denied") as no,
        ):
            _ = connection.api_versions
    assert "kafka-cluster:Connect" in no.value.next_step
    assert f"is in {REGION}" in no.value.next_step
