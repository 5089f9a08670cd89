"""A login over SASL, frame by frame: for blocking connections, and for those of an event loop."""

from kipctl.protocol.address import Address
from kipctl.protocol.api import decode_response, encode_request
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.primitives import INT32, MalformedFrame
from kipctl.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from kipctl.security.sasl import AuthenticationError, Exchange, Sasl

_FIRST_ID = 0x7FFFFFF0
"""Correlation ids from here on are a login's: it may go on between other requests (KIP-368)."""
_CLIENT_ID = "kipctl"
_VERSION = 1
"""Of both requests: every broker since Kafka 2.2, and it says how long a session lasts."""


def renewal_due_s(session_lifetime_ms: int, chance: float) -> float:
    """Seconds from a login to the next on its connection, 0 for never; `chance` is in [0, 1).

    Java's `SaslClientAuthenticator`: after 85 to 95 % of the session, so that connections that were
    made together do not log in together.
    """
    return max(0, session_lifetime_ms) / 1000 * (0.85 + 0.1 * chance)


def renewal_window_s(session_lifetime_ms: int, chance: float) -> tuple[float, float]:
    """Seconds from a login to when the next may begin and to when it is to; 0 and 0 for never.

    For 5 % of the session it can wait for a moment at which it holds nobody up, and is to begin
    after 80 to 90 %: a broker hangs up on a request that it comes to after the session's end, so
    what is in flight before the login, on a slow broker or a busy machine, has 10 % of it at least.
    """
    lifetime_s = max(0, session_lifetime_ms) / 1000
    return lifetime_s * (0.75 + 0.1 * chance), lifetime_s * (0.8 + 0.1 * chance)


def is_of_login(frame: bytes | memoryview) -> bool:
    """Whether a frame, without its length, answers a request of a login."""
    return bool(int.from_bytes(frame[:4], "big") >= _FIRST_ID)


class Login:
    """One login, or one more on the same connection. Frames to send have their length."""

    def __init__(self, sasl: Sasl, broker: Address) -> None:
        """`broker` is what messages call it, and by its host a KDC."""
        self._sasl, self._broker = sasl, broker
        self._exchange: Exchange | None = None
        self._id = _FIRST_ID
        self.session_lifetime_ms = 0
        """Once it is done: how long the session lasts, 0 for as long as the connection."""

    def begin(self) -> bytes:
        """The first frame to send."""
        return self._frame(SaslHandshakeRequest(mechanism=self._sasl.mechanism))

    def answered(self, frame: bytes | memoryview) -> bytes | None:
        """Take the answer; the next frame to send, None when the login is done.

        Raises AuthenticationError, MalformedFrame, and what sources of tokens and tickets raise.
        """
        if INT32.unpack_from(frame)[0] != self._id - 1:
            raise MalformedFrame("an answer that is not to the login's last request")
        if self._exchange is None:
            _, offered = decode_response(SaslHandshakeRequest, _VERSION, frame)
            self._check_mechanism(offered.error_code, offered.mechanisms)
            self._exchange = self._sasl.exchange(self._broker.host)
            return self._frame(SaslAuthenticateRequest(auth_bytes=self._exchange.first()))
        _, said = decode_response(SaslAuthenticateRequest, _VERSION, frame)
        if said.error_code:
            why = (said.error_message or ErrorCode(said.error_code).message).rstrip(".")
            raise AuthenticationError(
                f"User {self._sasl.subject!r} is refused by broker {self._broker}"
                f" ({self._sasl.mechanism}): {why}.",
                self._sasl.if_refused,
            )
        reply = self._exchange.answer(said.auth_bytes)
        if reply is None:
            self.session_lifetime_ms = said.session_lifetime_ms
            return None
        return self._frame(SaslAuthenticateRequest(auth_bytes=reply))

    def takes_long(self, frame: bytes | memoryview) -> bool:
        """Whether `answered` is nothing for an event loop to wait for. Raises MalformedFrame."""
        if self._exchange is None:
            return self._sasl.takes_long
        _, said = decode_response(SaslAuthenticateRequest, _VERSION, frame)
        return not said.error_code and self._exchange.takes_long(said.auth_bytes)

    def _check_mechanism(self, error: int, offered: tuple[str, ...]) -> None:
        if error == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            raise AuthenticationError(
                f"Broker {self._broker} does not offer {self._sasl.mechanism}; it offers"
                f" {', '.join(offered)}.",
                "Set sasl.mechanism to one of these.",
            )
        if error:
            raise AuthenticationError(
                f"The listener {self._broker} takes no login over SASL:"
                f" {ErrorCode(error).message}.",
                "Check the port, and security.protocol.",
            )

    def _frame(self, request: SaslHandshakeRequest | SaslAuthenticateRequest) -> bytes:
        frame = encode_request(request, _VERSION, self._id, _CLIENT_ID)
        self._id += 1
        return frame
