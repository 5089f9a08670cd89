"""SaslHandshake (API 17) and SaslAuthenticate (API 36): a login, before any other request."""

from typing import Annotated

from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import Api, Field, Int16, Int64, Request, Response


class SaslHandshakeResponse(Response):
    error_code: Int16 = 0
    mechanisms: tuple[str, ...] = ()


class SaslHandshakeRequest(Request[SaslHandshakeResponse]):
    api = Api(ApiKey.SASL_HANDSHAKE, versions=(0, 1), flexible_since=32767)

    mechanism: str = ""


class SaslAuthenticateResponse(Response):
    """The broker's next word. The session ends after `session_lifetime_ms`, if that is above 0
    (KIP-368).
    """

    error_code: Int16 = 0
    error_message: str | None = None
    auth_bytes: bytes = b""
    session_lifetime_ms: Annotated[Int64, Field("1+", ignorable=True)] = 0


class SaslAuthenticateRequest(Request[SaslAuthenticateResponse]):
    api = Api(ApiKey.SASL_AUTHENTICATE, versions=(0, 2), flexible_since=2)

    auth_bytes: bytes = b""
