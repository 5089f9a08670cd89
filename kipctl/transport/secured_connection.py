"""A non-blocking connection that is secured: TLS, a login, and logins after it (KIP-368)."""

import random
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from kipctl.errors import KipctlError
from kipctl.protocol.address import Address
from kipctl.protocol.primitives import MalformedFrame
from kipctl.security.sasl import Sasl
from kipctl.security.tls import Tls, failure
from kipctl.transport.login import Login, is_of_login, renewal_window_s
from kipctl.transport.loop_connection import ConnectionLostError, LoopConnection, Socket
from kipctl.transport.tls_socket import ROOM, TlsSocket

_PATIENCE_US = 30_000_000
"""For the answers to a login on a connection that is in use."""


class SecuredConnection(LoopConnection):
    """As a plain one to its owner, who sees no frame of a login.

    What a login has to compute for long is given to `beside`, which runs it beside the event loop,
    and lets the owner call `establish` or `write` once it is done.
    """

    def __init__(
        self,
        connecting: Socket,
        number: int,
        broker: Address,
        tls: Tls | None,
        sasl: Sasl | None,
        clock: Callable[[], int],
        beside: "Beside",
    ) -> None:
        """`broker` is the address that its certificate is to be of; `clock` gives microseconds."""
        self._tls = TlsSocket(connecting, tls.context(), broker.host) if tls else None
        super().__init__(self._tls or connecting, number, ROOM if tls else 1)
        self._broker, self._sasl, self._clock = broker, sasl, clock
        self._beside = beside
        self._computed: Future[bytes | None] | None = None
        """What the login under way goes on with."""
        self._is_open = False
        """The TCP connection is made."""
        self._is_private = tls is None
        """The TLS handshake is done."""
        self._login: Login | None = None
        """The login under way."""
        self._login_since_us = 0
        self._login_first_us = 0
        """Since when the broker has nothing to answer that was sent before it."""
        self._renew_us = self._renew_by_us = 0
        """From when on to log in again, and when at the latest; 0 for never."""

    @property
    def wants_write(self) -> bool:
        if not self._is_open:
            return True
        has_more = self._computed is not None and self._computed.done()
        return has_more or bool(self._unsent) or (self._tls is not None and self._tls.wants_write)

    @property
    def takes_requests(self) -> bool:
        return self.connected and not self._unsent and self._login is None

    def establish(self) -> None:
        """See LoopConnection: the steps that can be made now."""
        if not self._is_open:
            self._finish_connect()
            self._is_open = True
        if not self._is_private:
            assert self._tls
            try:
                self._is_private = self._tls.handshake()
            except OSError as failed:
                raise ConnectionLostError(failure(failed)) from failed
            if not self._is_private:
                return
        if self._sasl and self._login is None:
            if not self._sasl.is_ready():
                raise ConnectionLostError("a token for the login is being fetched")
            self._log_in()
        elif self.wants_write:
            self.write()
        if self._login and self.read():
            raise ConnectionLostError("an answer to no request")
        self.connected = self._login is None

    @property
    def is_logging_in(self) -> bool:
        return self.connected and self._login is not None

    def keep_authenticated(self, now_us: int, others_log_in: bool = False) -> None:
        """See LoopConnection."""
        if self.is_logging_in and now_us - self._login_since_us > _PATIENCE_US:
            raise ConnectionLostError("the broker does not answer a login")
        if self._login or not self._renew_us:
            return
        # Asked early: a token that is soon to end is replaced before a login needs it, and with an
        # old one the broker would give a session as short as what is left of it.
        has_token = self._sasl is not None and self._sasl.is_ready()
        if now_us < self._renew_us:
            return
        # Behind what is in flight it would hold up all that comes after for as long as that takes.
        would_hold_up = others_log_in or bool(self.in_flight) or bool(self._unsent)
        if would_hold_up and now_us < self._renew_by_us:
            return
        if has_token:
            self._log_in()

    def write(self) -> None:
        """See LoopConnection; also what TLS has to say of its own accord, and a login by now."""
        if self._computed and self._computed.done():
            computed, self._computed = self._computed, None
            self._go_on(computed.result)
        super().write()
        if self._tls and self._tls.wants_write:
            try:
                self._tls.flush()
            except OSError as lost:
                raise ConnectionLostError(str(lost)) from lost

    def read(self) -> list[memoryview]:
        """See LoopConnection; what answers a login is taken out."""
        frames = super().read()
        if self._login is None:
            return frames
        ours = [frame for frame in frames if is_of_login(frame)]
        if len(ours) < len(frames):
            self._login_first_us = self._clock()
        for frame in ours:
            self._handle_login_answer(frame)
        return [frame for frame in frames if not is_of_login(frame)] if ours else frames

    def _log_in(self) -> None:
        assert self._sasl
        self._login = Login(self._sasl, self._broker)
        self._login_since_us = self._login_first_us = self._clock()
        self.send([self._login.begin()])

    def _handle_login_answer(self, frame: memoryview) -> None:
        login = self._login
        if login is None or self._computed:
            raise ConnectionLostError("an answer to no request")
        if login.takes_long(frame):
            self._computed = self._beside(self, partial(login.answered, bytes(frame)))
        else:
            self._go_on(partial(login.answered, frame))

    def _go_on(self, answered: Callable[[], bytes | None]) -> None:
        assert self._login
        try:
            reply = answered()
        except MalformedFrame:
            raise
        except KipctlError as refused:
            raise ConnectionLostError(refused.what) from refused
        if reply is not None:
            self.send([reply])
            return
        from_s, by_s = renewal_window_s(self._login.session_lifetime_ms, random.random())
        now = self._clock()
        self._renew_us = now + round(from_s * 1e6) if from_s else 0
        self._renew_by_us = now + round(by_s * 1e6)
        self._login = None
        if self.connected:
            self.reauthentications_us.append(now - self._login_first_us)


Beside = Callable[[SecuredConnection, Callable[[], bytes | None]], Future[bytes | None]]
"""Given the connection that waits for what the function returns."""
