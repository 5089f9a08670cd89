"""One HTTP exchange with a server that may be anybody: a whole deadline, and a limit on its answer.

No redirect is followed, no proxy is asked but the one of KIPCTL_HTTP_PROXY, and a compressed answer
is refused: so what is kept is no larger than what came.
"""

import os
import re
import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

import httpcore
import httpx

from kipctl.at_once import LateError, at_once
from kipctl.errors import KipctlError, TimedOutError, UnreachableError, UsageError
from kipctl.protocol.address import is_loopback

PROXY, NO_PROXY = "KIPCTL_HTTP_PROXY", "KIPCTL_NO_PROXY"
"""Variables. Those that other programs share, HTTP_PROXY and the like, are not read: who sets them
for a browser has not said that a client's secret may pass there."""
_EXEMPT = re.compile(
    r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?:\*?\.)?(?P<name>[\w-]+(?:\.[\w-]+)*\.?))"
    r"(?::(?P<port>[0-9]{1,5}))?"
)
LARGEST_BODY = 16 << 20
"""Bytes; an exporter that exports every bean of a broker with thousands of partitions has less."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What a server said, whatever its status is."""

    status: int
    body: bytes

    @property
    def status_text(self) -> str:
        """The status with its name in the standard: `404 Not Found`."""
        return f"{self.status} {httpx.codes.get_reason_phrase(self.status)}".strip()


def exchange(
    url: str,
    timeout_s: float,
    *,
    form: Mapping[str, str] | None = None,
    login: tuple[str, str] | None = None,
    context: ssl.SSLContext | None = None,
) -> HttpAnswer:
    """GET the URL, or POST a form, as the user of `login`, else of the URL; all in `timeout_s`.

    `context` is for https; without one the system's authorities are trusted. Raises TimedOutError,
    UnreachableError, and UsageError for what is no URL, or no host in KIPCTL_NO_PROXY, each with
    the bare reason, as `Connection refused`.
    """
    try:
        request = httpx.Request(
            "GET" if form is None else "POST",
            url,
            data=form,
            headers={"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "kipctl"},
        )
    except (httpx.InvalidURL, UnicodeError):
        raise UsageError("no URL") from None
    is_port = (request.url.port or 1) < 65536
    if request.url.scheme not in ("http", "https") or not request.url.host or not is_port:
        raise UsageError("no URL of http or https")
    if request.url.userinfo or login:
        login = login or (request.url.username, request.url.password)
        request = next(httpx.BasicAuth(*login).auth_flow(request))
    until = time.monotonic() + timeout_s
    # In a thread, as nothing ends the look-up of a name but itself.
    [answer] = at_once(lambda asked: _answer(asked, until, context), [request], timeout_s)
    if isinstance(answer, LateError):
        raise TimedOutError("no answer in time")
    if isinstance(answer, KipctlError):
        raise answer
    return answer


def _proxy_for(host: str, port: int) -> httpcore.Proxy | None:
    """None for this machine's own hosts and those of KIPCTL_NO_PROXY.

    Raises UnreachableError, and UsageError for what is understood to be none of these.
    """
    given = os.environ.get(PROXY, "")
    exempt = [entry.strip().lower() for entry in os.environ.get(NO_PROXY, "").split(",")]
    if not given or is_loopback(host) or any(_has(entry, host, port) for entry in exempt if entry):
        return None
    try:
        url = httpx.URL(given)
    except (httpx.InvalidURL, UnicodeError):
        url = httpx.URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise UnreachableError(f"{PROXY} is no URL as http://proxy:3128")
    place = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target="/")
    return httpcore.Proxy(place, (url.username, url.password) if url.userinfo else None)


def _has(exempt: str, host: str, port: int) -> bool:
    """Whether one entry of KIPCTL_NO_PROXY has the host. Raises UsageError for what is none."""
    if exempt == "*":
        return True
    if match := _EXEMPT.fullmatch(exempt):
        name = (match["address"] or match["name"]).removesuffix(".")
        is_of_port = not match["port"] or int(match["port"]) == port
        return is_of_port and f".{host.lower().removesuffix('.')}".endswith(f".{name}")
    try:
        network = ip_network(exempt, strict=False)
    except ValueError:
        raise UsageError(
            f"{NO_PROXY} has {exempt[:80]!a}, which is no host, domain or network"
        ) from None
    try:
        return ip_address(host) in network
    except ValueError:
        return False


def _answer(request: httpx.Request, until: float, context: ssl.SSLContext | None) -> HttpAnswer:
    url = request.url
    proxy = _proxy_for(url.host, url.port or (443 if url.scheme == "https" else 80))
    way = f" (through {PROXY})" if proxy else ""
    try:
        if url.scheme == "https":
            context = context or ssl.create_default_context()
        with (
            httpcore.ConnectionPool(context, proxy, network_backend=_Backend(until)) as pool,
            pool.stream(
                request.method,
                httpcore.URL(
                    scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
                ),
                headers=request.headers.raw,
                content=request.content,
            ) as answer,
        ):
            packed = httpx.Headers(answer.headers).get("Content-Encoding", "identity")
            if packed.lower() != "identity":
                raise UnreachableError("its answer is compressed, and that was not asked for")
            body = bytearray()
            for chunk in answer.iter_stream():
                body += chunk
                if len(body) > LARGEST_BODY:
                    raise UnreachableError(f"its answer has more than {LARGEST_BODY >> 20} MiB")
            return HttpAnswer(answer.status, bytes(body))
    except httpcore.TimeoutException:
        raise TimedOutError("no answer in time") from None
    except httpcore.ProxyError as refused:
        raise UnreachableError(f"the proxy of {PROXY} answers {_short(refused)}") from None
    except (httpcore.NetworkError, httpcore.ProtocolError, OSError) as error:
        what = _short(error, 400).rstrip(".") or type(error).__name__
        raise UnreachableError(what + way) from None
    except UnicodeError:  # of the look-up of a name that cannot be
        raise UsageError("no URL") from None


def _short(error: Exception, most: int = 80) -> str:
    """Its words in one line; they may be the other side's, who may have put anything there."""
    return " ".join(str(error).split())[:most]


class _Backend(httpcore.NetworkBackend):
    """The network, in which every wait ends at the same time (of the monotonic clock)."""

    def __init__(self, until: float) -> None:
        self._until = until

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        stream = httpcore.SyncBackend().connect_tcp(
            host, port, _left(self._until), local_address, socket_options
        )
        return _Stream(stream, self._until)


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream, until: float) -> None:
        self._stream, self._until = stream, until

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(self._until))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(self._until))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        stream = self._stream.start_tls(ssl_context, server_hostname, _left(self._until))
        return _Stream(stream, self._until)

    def get_extra_info(self, info: str) -> object:
        return self._stream.get_extra_info(info)


def _left(until: float) -> float:
    """Seconds; raises httpcore's own error where there are none."""
    if (left := until - time.monotonic()) <= 0:
        raise httpcore.ReadTimeout
    return left
