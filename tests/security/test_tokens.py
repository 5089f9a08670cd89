"""Bearer tokens: where they come from, how long they are used, and who waits for them."""

import base64
import json
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest
from http_peers import OK, TRICKLES, peer, saying
from token_endpoint import GIVEN, Answer, Endpoint, jwt

from kipctl.errors import RefusedError, UnreachableError, UsageError
from kipctl.security import tokens
from kipctl.security.tls import Tls
from kipctl.security.tokens import ClientCredentials, FileToken, Token, UnsignedToken

SECRET = "s3cret:with=signs"
NEXT = Answer(200, {"access_token": "next", "expires_in": 3600})


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    opened = Endpoint()
    yield opened
    opened.close()


@pytest.fixture
def source(endpoint: Endpoint) -> ClientCredentials:
    return ClientCredentials(endpoint.url, "me", SECRET, "", Tls())


class Clock:
    """The system's clock, as tokens see it: it stands until a test sets it. Nobody sleeps."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.slept: list[float] = []

    def time(self) -> float:
        return self.now

    monotonic = staticmethod(monotonic)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(tokens, "time", clock)
    return clock


# --- files ---


def test_a_token_file_is_read_again_each_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    source = FileToken(file)
    file.write_text("first\n")
    assert source.current() == Token("first", None)
    file.write_text(f"\n  {jwt(exp=1234)}  \n")
    assert source.current() == Token(jwt(exp=1234), 1234)


@pytest.mark.parametrize(
    ("text", "expires_s"),
    [
        (jwt(exp=1_900_000_000), 1_900_000_000),
        (jwt(exp=12.5, sub="ä" * 3), 12.5),
        (jwt(sub="nobody knows how long"), None),
        (jwt(exp="soon"), None),
        (jwt(exp=None), None),
        ("opaque", None),
        ("a.b.c", None),
        (f"a.{base64.urlsafe_b64encode(b'[1]').decode()}.c", None),
        ("..", None),
    ],
)
def test_when_a_token_ends_is_what_it_says_of_itself(
    tmp_path: Path, text: str, expires_s: float | None
) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    assert FileToken(file).current() == Token(text, expires_s)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "cannot be read: No such file"),
        (b" \n", "holds no token"),
        (b"\xff\xfe\x00", "holds no token"),
        (b"two words", "holds no token"),
    ],
)
def test_a_file_without_a_token_is_refused(tmp_path: Path, content: bytes | None, why: str) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=why) as refused:
        FileToken(file).current()
    assert str(file) in str(refused.value)


# --- unsigned ---


def test_an_unsigned_token_is_as_kafkas_broker_for_development_takes_it(clock: Clock) -> None:
    """Its `OAuthBearerUnsecuredJws`: alg none, no signature, and times that are numbers."""
    clock.now += 0.4567  # of which brokers know 0.456: a token of later is refused
    token = UnsignedToken((("sub", "alice"), ("level", 3))).current()
    clock.now -= 0.4567
    header, claims, signature = token.text.split(".")
    assert signature == ""
    assert "=" not in token.text
    assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "none"}
    told = json.loads(base64.urlsafe_b64decode(claims + "=="))
    assert told == {"sub": "alice", "level": 3, "iat": clock.now, "exp": clock.now + 3600}
    assert token.expires_s == told["exp"]


# --- token endpoints ---


def test_an_endpoint_is_asked_with_the_clients_id_and_secret(
    endpoint: Endpoint, source: ClientCredentials, clock: Clock
) -> None:
    assert source.current() == Token("abc", clock.now + 3600)
    authorization = base64.b64encode(f"me:{SECRET}".encode()).decode()
    assert endpoint.asked == [(f"Basic {authorization}", {"grant_type": "client_credentials"})]


def test_a_scope_is_asked_for(endpoint: Endpoint, source: ClientCredentials) -> None:
    replace(source, scope="kafka read").fetch()
    assert endpoint.asked[0][1] == {"grant_type": "client_credentials", "scope": "kafka read"}


@pytest.mark.parametrize(
    ("told", "expires_s"),
    [
        ({"expires_in": 60}, 1_000_060),
        ({"expires_in": 60.5}, 1_000_060.5),
        ({"expires_in": "60"}, None),
        ({"expires_in": math.inf}, None),
        ({"expires_in": math.nan}, None),
        ({"expires_in": 10**400}, None),
        ({"access_token": jwt(exp=10**400)}, None),
        ({}, None),
        # A token that says so itself is believed.
        ({"access_token": jwt(exp=77)}, 77),
    ],
)
def test_how_long_a_token_is_good_is_what_the_endpoint_says(
    endpoint: Endpoint,
    source: ClientCredentials,
    clock: Clock,
    told: dict[str, object],
    expires_s: float | None,
) -> None:
    given = {"access_token": "abc", **told}
    endpoint.answers = [Answer(200, given)]
    assert source.fetch() == Token(str(given["access_token"]), expires_s)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(401, {"error": "invalid_client"}), "HTTP 401, invalid_client"),
        (Answer(400, {"error": "invalid_scope"}), "HTTP 400, invalid_scope"),
        (Answer(403, b"<html>no</html>"), "HTTP 403"),
        (Answer(302, b""), "HTTP 302"),
        (Answer(200, b"<html>log in</html>"), "HTTP 200"),
        (Answer(200, b"\xff"), "HTTP 200"),
        (Answer(200, ["abc"]), "HTTP 200"),
        (Answer(200, {"access_token": ""}), "HTTP 200"),
        (Answer(200, {"access_token": 7}), "HTTP 200"),
        (Answer(200, {"token": "abc"}), "HTTP 200"),
        (Answer(200, {"access_token": "a\ud800"}), "HTTP 200"),
        (Answer(200, {"access_token": "a\x01auth=Bearer b"}), "HTTP 200"),
        (Answer(200, b"[" * 100_000), "HTTP 200"),
        (Answer(400, {"error": "x" * 10_000}), "HTTP 400, x{80}\\."),
    ],
)
def test_an_endpoint_that_refuses_is_asked_once_and_named(
    endpoint: Endpoint, source: ClientCredentials, answer: Answer, why: str
) -> None:
    endpoint.answers = [answer]
    with pytest.raises(RefusedError, match=f"refuses client 'me': {why}") as refused:
        source.current()
    assert endpoint.url in refused.value.what
    assert SECRET not in str(refused.value)
    assert len(str(refused.value).splitlines()) <= 3
    assert len(endpoint.asked) == 1


def test_an_endpoint_that_stumbles_is_asked_again_a_few_times(
    endpoint: Endpoint, source: ClientCredentials, clock: Clock
) -> None:
    endpoint.answers = [Answer(500, b""), Answer(503, b""), GIVEN, Answer(500, b"")]
    assert source.current().text == "abc"
    assert len(endpoint.asked) == 3
    assert clock.slept == sorted(clock.slept)
    assert 0 < sum(clock.slept) < 5
    with pytest.raises(UnreachableError, match="gives no token: HTTP 500"):
        replace(source, client_id="you").current()
    assert len(endpoint.asked) == 6


@pytest.mark.timeout(60)
@pytest.mark.parametrize("what", TRICKLES)
def test_an_endpoint_that_answers_too_slowly_is_not_waited_for(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(tokens, "_ENDPOINT_TIMEOUT_S", 0.6)
    with peer(TRICKLES[what]) as slow:
        source = ClientCredentials(slow.url, "me", SECRET, "", Tls())
        with pytest.raises(UnreachableError, match="gives no token: no answer in time"):
            source.fetch()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (OK + b"\r\n" + bytes(17 << 20), "more than 16 MiB"),
        (OK + b"Content-Encoding: gzip\r\n\r\n", "compressed"),
    ],
)
def test_an_endpoint_that_answers_too_much_gives_no_token(
    clock: Clock, answer: bytes, why: str
) -> None:
    with peer(saying(answer)) as endpoint:
        url = endpoint.url.replace("//", "//me:hush@")
        with pytest.raises(UnreachableError, match=f"gives no token: .*{why}") as failed:
            ClientCredentials(url, "me", SECRET, "", Tls()).fetch()
    assert "hush" not in str(failed.value)


def test_the_secret_goes_to_no_proxy_of_the_environment(
    endpoint: Endpoint, source: ClientCredentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    with peer(saying(OK + b"\r\n")) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        assert source.fetch().text == "abc"
        assert proxy.heard == []


def test_an_endpoint_that_is_not_there_is_out_of_reach(clock: Clock) -> None:
    endpoint = Endpoint()
    endpoint.close()
    source = ClientCredentials(endpoint.url, "me", SECRET, "", Tls())
    with pytest.raises(UnreachableError, match="gives no token") as failed:
        source.current()
    assert SECRET not in str(failed.value)


def test_what_is_wrong_here_is_no_matter_of_the_endpoint(clock: Clock) -> None:
    damaged = Tls(authorities="-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n")
    with pytest.raises(UsageError, match=r"ssl\.truststore"):
        ClientCredentials("https://127.0.0.1:1", "me", SECRET, "", damaged).current()


def test_a_token_is_used_until_most_of_its_life_is_over(
    endpoint: Endpoint, source: ClientCredentials, clock: Clock
) -> None:
    for _ in range(5):
        source.current()
        clock.now += 3600 * 0.15
    assert len(endpoint.asked) == 1


def test_a_token_is_replaced_in_the_background_and_nobody_waits(
    endpoint: Endpoint, source: ClientCredentials, clock: Clock
) -> None:
    source.current()
    may_answer, answered = threading.Event(), threading.Event()
    endpoint.answers = [NEXT]
    endpoint.before = lambda: may_answer.wait(60)
    clock.now += 3600 * 0.85
    for _ in range(20):
        assert source.current().text == "abc"  # the endpoint has not answered yet
    may_answer.set()
    _until(lambda: source.current().text == "next", answered)
    assert len(endpoint.asked) == 2


def test_a_token_that_is_over_is_not_used_again(
    endpoint: Endpoint, source: ClientCredentials, clock: Clock
) -> None:
    source.current()
    endpoint.answers = [NEXT]
    clock.now += 3600
    assert source.current().text == "next"


def test_an_endpoint_that_is_down_while_a_token_is_good_does_no_harm(
    endpoint: Endpoint, source: ClientCredentials, clock: Clock
) -> None:
    source.current()
    endpoint.answers = [Answer(400, b"")]
    clock.now += 3600 * 0.9
    asked_again = threading.Event()
    endpoint.before = asked_again.set
    assert source.current().text == "abc"
    assert asked_again.wait(60)
    assert source.current().text == "abc"


def test_each_client_has_a_token_of_its_own(endpoint: Endpoint, source: ClientCredentials) -> None:
    source.current()
    endpoint.answers = [Answer(200, {"access_token": "other", "expires_in": 3600})]
    assert replace(source, client_id="you").current().text == "other"
    assert source.current().text == "abc"


@pytest.mark.parametrize(
    "source",
    [
        Token("hush", 1.0),
        ClientCredentials("https://idp.example/token", "me", "hush", "", Tls(key="hush")),
    ],
)
def test_no_secret_is_shown(source: object) -> None:
    assert "hush" not in repr(source)


def _until(is_so: Callable[[], bool], moment: threading.Event) -> None:
    """Pytest's own timeout is the limit."""
    while not is_so():
        moment.wait(0.005)


def test_an_event_loop_does_not_wait_for_a_token(
    endpoint: Endpoint, source: ClientCredentials
) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        asked.set()
        go_on.wait(30)

    endpoint.before = hold
    assert not source.is_ready()
    assert asked.wait(30)
    assert not source.is_ready()  # and asks no second time meanwhile
    go_on.set()
    for thread in threading.enumerate():
        if thread.name == tokens.REFRESHING:
            thread.join(30)
    assert source.is_ready()
    assert source.current().text
    assert len(endpoint.asked) == 1


@pytest.mark.parametrize(("token", "subject"), [(jwt(sub="alice"), "alice"), ("abc", "me")])
def test_the_subject_is_the_tokens_once_there_is_one_that_says_it_or_the_clients_id(
    endpoint: Endpoint, source: ClientCredentials, token: str, subject: str
) -> None:
    endpoint.answers = [Answer(200, {"access_token": token, "expires_in": 60})]
    assert source.subject == "me"
    source.current()
    assert source.subject == subject
