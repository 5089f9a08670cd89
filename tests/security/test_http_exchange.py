"""HTTP with servers that may be anybody: what none of them can take, and what none can be given."""

import gzip
import re
import socket
import threading
import tracemalloc

import httpx
import pytest
from http_peers import OK, TRICKLES, Peer, peer, request, saying
from secure_peers import AUTHORITY, TLS, server_context

from kipctl.errors import KipctlError, TimedOutError, UnreachableError, UsageError
from kipctl.http_exchange import LARGEST_BODY, HttpAnswer, _proxy_for, exchange
from kipctl.urls import without_login

PATIENT_S = 120.0
pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize("what", TRICKLES)
def test_the_deadline_is_of_the_whole_exchange_and_its_connection_is_closed(what: str) -> None:
    with peer(TRICKLES[what]) as slow:
        with pytest.raises(TimedOutError):
            exchange(slow.url, 0.3)
        assert slow.was_left.wait(PATIENT_S)


def test_an_answer_comes_whole_and_its_status_is_the_callers_business() -> None:
    with peer(saying(b"HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nhi")) as busy:
        answer = exchange(busy.url, PATIENT_S)
    assert answer == HttpAnswer(503, b"hi")
    assert answer.status_text == "503 Service Unavailable"
    assert HttpAnswer(299, b"").status_text == "299"


def test_a_body_is_not_read_beyond_its_limit() -> None:
    flood = OK + b"\r\n" + bytes(LARGEST_BODY + 1)
    with peer(saying(flood)) as endless, pytest.raises(UnreachableError, match="more than 16 MiB"):
        exchange(endless.url, PATIENT_S)
    with peer(saying(flood[:-1])) as large:
        assert len(exchange(large.url, PATIENT_S).body) == LARGEST_BODY


def test_what_is_compressed_is_not_unpacked() -> None:
    packed = OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(bytes(128 << 20), 1)
    with peer(saying(packed)) as bombing:
        tracemalloc.start()
        try:
            with pytest.raises(UnreachableError, match="compressed"):
                exchange(bombing.url, PATIENT_S)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert b"accept-encoding: identity" in bombing.heard[0].lower()
    assert peak < 64 << 20


def test_a_redirect_is_not_followed() -> None:
    with peer(saying(OK + b"\r\n")) as inner:
        moved = f"HTTP/1.1 302 Found\r\nLocation: {inner.url}\r\nContent-Length: 0\r\n\r\n"
        with peer(saying(moved.encode())) as outer:
            assert exchange(outer.url, PATIENT_S).status == 302
        assert inner.heard == []


def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with peer(saying(OK + b"\r\n")) as proxy, peer(saying(OK + b"\r\nit")) as server:
        for name in ("HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
            monkeypatch.setenv(name.lower(), proxy.url)
        assert exchange(server.url, PATIENT_S, login=("me", "s3cret")).body == b"it"
        assert proxy.heard == []


def through(monkeypatch: pytest.MonkeyPatch, proxy: str, exempt: str = "") -> None:
    monkeypatch.setenv("KIPCTL_HTTP_PROXY", proxy)
    monkeypatch.setenv("KIPCTL_NO_PROXY", exempt)


def test_a_proxy_that_is_asked_for_passes_http_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with peer(saying(OK + b"\r\nit")) as proxy:
        through(monkeypatch, f"http://me:s3%40@127.0.0.1:{proxy.port}/")
        assert exchange("http://kafka1.example:9404/metrics", PATIENT_S).body == b"it"
        asked, *headers = proxy.heard[0].split(b"\r\n")
    assert asked == b"GET http://kafka1.example:9404/metrics HTTP/1.1"
    assert b"Proxy-Authorization: Basic bWU6czNA" in headers


def test_a_proxy_makes_a_tunnel_for_https_and_sees_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context = server_context(AUTHORITY.for_hosts("endpoint", ("login.example",)))

    def speak(proxy: Peer, connection: socket.socket) -> None:
        connection.sendall(OK + b"\r\n")
        with context.wrap_socket(connection, server_side=True) as private:
            proxy.heard.append(request(private))
            private.sendall(OK + b"\r\nit")

    with peer(speak) as proxy:
        through(monkeypatch, f"http://127.0.0.1:{proxy.port}")
        login = ("me", "s3cret")
        answer = exchange("https://login.example/t", PATIENT_S, login=login, context=TLS.context())
        tunnel, private = proxy.heard
    assert answer.body == b"it"
    assert tunnel.startswith(b"CONNECT login.example:443 HTTP/1.1\r\n")
    assert b"uthorization" not in tunnel
    assert b"\r\nAuthorization: Basic " in private


@pytest.mark.parametrize(
    "exempt",
    [
        "",
        "localhost, kafka.invalid",
        ".Kafka.INVALID,",
        "b.kafka.invalid",
        "*.kafka.invalid",
        "kafka.invalid.",
        ".kafka.invalid:80",
        "10.0.0.0/8, b.kafka.invalid.:80",
    ],
)
def test_a_proxy_is_not_asked_for_this_machine_and_exempt_hosts(
    exempt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with peer(saying(OK + b"\r\n")) as proxy, peer(saying(OK + b"\r\nit")) as server:
        through(monkeypatch, proxy.url, exempt)
        assert exchange(server.url, PATIENT_S).body == b"it"
        if exempt:
            with pytest.raises(UnreachableError, match="Name or service not known"):
                exchange("http://b.kafka.invalid/", PATIENT_S)
        assert proxy.heard == []
        exchange("http://notb.kafka.invalid.example/", PATIENT_S)
        assert len(proxy.heard) == 1


@pytest.mark.parametrize(
    ("exempt", "url"),
    [
        ("*", "http://kafka.example/"),
        ("a.example,*", "http://10.1.2.3/"),
        ("10.1.2.3", "http://10.1.2.3:9404/"),
        ("10.1.2.3:9404", "http://10.1.2.3:9404/"),
        ("10.0.0.0/8", "http://10.1.2.3:9404/"),
        ("10.1.2.3/8", "http://10.9.9.9/"),
        ("fd00::/8", "http://[fd00::1]:9404/"),
        ("fd00::1", "http://[fd00::1]/"),
        ("[fd00::1]:443", "https://[fd00::1]/"),
        ("kafka.example", "http://KAFKA.example./"),
    ],
)
def test_what_exempts_a_host(exempt: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    through(monkeypatch, "http://127.0.0.1:1", exempt)
    place = httpx.URL(url)
    port = place.port or {"http": 80, "https": 443}[place.scheme]
    assert _proxy_for(place.host, port) is None
    monkeypatch.setenv("KIPCTL_NO_PROXY", "other.example, 11.0.0.0/8, fe00::/8, example:1, 10.1:2")
    assert _proxy_for(place.host, port)


@pytest.mark.parametrize(
    "exempt", ["10.0.0.0/33", "*corp", "a.*.corp", "http://corp", "a b", "a:port", "[::1", "."]
)
def test_what_exempts_nobody_is_wrong_usage(exempt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    through(monkeypatch, "http://127.0.0.1:1", f"a.example, {exempt}")
    with pytest.raises(UsageError, match=r"KIPCTL_NO_PROXY has .*no host, domain or"):
        exchange("http://kafka.example/", PATIENT_S)


@pytest.mark.parametrize(
    ("answer", "url", "words"),
    [
        (b"HTTP/1.1 407 Who are you\r\n\r\n", "https://a.example/", "answers 407 Who are you"),
        (b"", "http://a.example/", r"disconnected .*\(through KIPCTL_HTTP_PROXY\)"),
    ],
)
def test_a_proxy_that_does_not_pass_it_on_is_named(
    answer: bytes, url: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with peer(saying(answer)) as proxy:
        through(monkeypatch, f"http://me:hush@127.0.0.1:{proxy.port}")
        with pytest.raises(UnreachableError, match=words) as failed:
            exchange(url, PATIENT_S)
    assert "hush" not in failed.value.what


@pytest.mark.parametrize(
    ("answer", "url"),
    [
        (b"HTTP/1.1 502 " + b"no " * 20_000 + b"\r\n\r\n", "https://a.example/"),
        (b"no " * 20_000 + b"\r\n\r\n", "https://a.example/"),
        (b"no " * 20_000 + b"\r\n\r\n", "http://a.example/"),
    ],
)
def test_what_a_proxy_says_is_told_in_a_line(
    answer: bytes, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with peer(saying(answer)) as proxy:
        through(monkeypatch, proxy.url)
        with pytest.raises(UnreachableError) as failed:
            exchange(url, PATIENT_S)
    assert len(failed.value.what) < 500
    assert failed.value.what.isprintable()


@pytest.mark.parametrize(
    "given", ["proxy:3128", "me:hush@proxy", "http://", "http://a:b/", "\udcff"]
)
def test_what_is_no_proxy_is_said_and_not_shown(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    through(monkeypatch, given)
    with pytest.raises(UnreachableError, match="KIPCTL_HTTP_PROXY is no URL") as failed:
        exchange("http://a.example/", PATIENT_S)
    assert "hush" not in failed.value.what


def test_a_login_in_the_url_is_given_and_a_form_is_posted() -> None:
    with peer(saying(OK + b"\r\n")) as server:
        exchange(server.url.replace("//", "//me:s3%40@"), PATIENT_S, form={"a": "b c"})
        head, _, form = server.heard[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /metrics HTTP/1.1\r\n")
    assert b"Authorization: Basic bWU6czNA" in head.split(b"\r\n")
    assert form == b"a=b+c"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", UnreachableError),
        (b"SSH-2.0-OpenSSH\r\n", UnreachableError),
        (OK + b"Content-Length: 9\r\n\r\nshort", UnreachableError),
        (OK + b"Content-Length: -1\r\n\r\n", UnreachableError),
        (OK + b"X: " + bytes(1 << 20), UnreachableError),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", UnreachableError),
    ],
)
def test_what_is_no_answer_is_a_declared_error(answer: bytes, error: type[KipctlError]) -> None:
    with peer(saying(answer)) as broken, pytest.raises(error) as failed:
        exchange(broken.url, PATIENT_S)
    assert failed.value.what


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:7071/metrics",
        "ftp://127.0.0.1/",
        "http://",
        "http://127.0.0.1:port/",
        "http://127.0.0.1:99999/",
        "http://me:pass/word@127.0.0.1/",
        "http://[::1/",
        "http://a..b/",
        "http://\udcff/",
        "http://127.0.0.1/\x00",
    ],
)
def test_what_is_no_url_is_wrong_usage(url: str) -> None:
    with pytest.raises(UsageError):
        exchange(url, PATIENT_S)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://b1:7071/metrics", "http://b1:7071/metrics"),
        ("http://me:hush@b1:7071/metrics?a", "http://***@b1:7071/metrics?a"),
        ("https://me@b1/", "https://***@b1/"),
        ("https://me:hu@sh@b1/", "https://***@b1/"),
        ("https://me:hu/s\nh@b1/", "https://***@b1/"),
    ],
)
def test_a_urls_password_is_not_shown(url: str, shown: str) -> None:
    assert without_login(url) == shown
    assert not re.search("hu|sh", without_login(url))


def test_no_thread_is_left_of_a_late_exchange() -> None:
    before = set(threading.enumerate())
    with peer(TRICKLES["a body"]) as slow:
        for _ in range(3):
            with pytest.raises(TimedOutError):
                exchange(slow.url, 0.2)
        theirs = [thread for thread in set(threading.enumerate()) - before if thread.daemon]
        for thread in theirs:
            thread.join(PATIENT_S)
            assert not thread.is_alive()
