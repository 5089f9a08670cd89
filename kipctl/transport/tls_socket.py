"""A non-blocking TLS socket that behaves as a plain one does."""

import ssl
from collections.abc import Sequence
from contextlib import suppress

from kipctl.protocol.produce_frames import Buffer
from kipctl.security.tls import failure
from kipctl.transport.loop_connection import Socket

ROOM = 48 * 1024
"""Bytes that `recv_into` needs at least: so all that was received fits, and nothing is left where
no poll tells of it."""
_RECORD = 17 * 1024
"""More than what may be here of a record that is not yet complete."""
_AT_ONCE = 64 * 1024


class TlsSocket:
    """TLS over a connected non-blocking socket, through memory."""

    def __init__(self, plain: Socket, context: ssl.SSLContext, host: str) -> None:
        """`host` is what the broker's certificate is to be of."""
        self._plain = plain
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._received = memoryview(bytearray(_AT_ONCE))
        self._ciphertext = memoryview(b"")
        """What the plain socket has not taken yet."""
        self._taken = 0
        """Bytes that are encrypted in `_ciphertext`, that the caller does not know of yet."""

    def handshake(self) -> bool:
        """Go on with the handshake; whether it is done. Raises OSError, ssl.SSLError is one."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self.flush()
                if not self._receive(_AT_ONCE):
                    return False
            except ssl.SSLError:
                self._outgoing_alert()
                raise
            else:
                self.flush()
                return True

    @property
    def wants_write(self) -> bool:
        """Something is encrypted and not wholly written."""
        return bool(self._ciphertext)

    def fileno(self) -> int:
        return self._plain.fileno()

    def getsockopt(self, level: int, optname: int, /) -> int:
        return self._plain.getsockopt(level, optname)

    def sendmsg(self, buffers: Sequence[Buffer], /) -> int:
        """How many bytes of the buffers are wholly written.

        Raises BlockingIOError while none are: the same ones are to be given again, as they go on.
        """
        if not self._taken:
            chosen, size = [], 0
            for buffer in buffers:
                chosen.append(buffer)
                size += len(buffer)
                if size >= _AT_ONCE:
                    break
            plaintext = memoryview(chosen[0] if len(chosen) == 1 else b"".join(chosen))
            plaintext = plaintext[:_AT_ONCE]
            while self._taken < len(plaintext):
                self._taken += self._tls.write(plaintext[self._taken :])
        if not self.flush():
            raise BlockingIOError
        taken, self._taken = self._taken, 0
        return taken

    def recv_into(self, buffer: memoryview, /) -> int:
        """Decrypt all that has come into the buffer, of ROOM bytes or more; 0 at the end."""
        self._receive(len(buffer) - _RECORD)
        count = 0
        try:
            while count < len(buffer):
                read = self._tls.read(len(buffer) - count, buffer[count:])
                if not read:
                    self._answer_close_notify()
                    break
                count += int(read)
        except ssl.SSLWantReadError:
            if self._outgoing.pending:
                self.flush()
            if not count:
                raise BlockingIOError from None
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            pass  # it is over
        except ssl.SSLError as error:
            raise OSError(failure(error)) from error
        return count

    def close(self) -> None:
        self._plain.close()

    def _receive(self, most: int) -> bool:
        """Take what has come; whether anything has. Raises OSError."""
        try:
            count = self._plain.recv_into(self._received[:most])
        except (BlockingIOError, InterruptedError):
            return False
        if count:
            self._incoming.write(self._received[:count])
        else:
            self._incoming.write_eof()
        return True

    def flush(self) -> bool:
        """Write what is encrypted; whether all is written. Raises OSError."""
        while self._ciphertext or self._outgoing.pending:
            if not self._ciphertext:
                self._ciphertext = memoryview(self._outgoing.read())
            try:
                sent = self._plain.sendmsg([self._ciphertext])
            except (BlockingIOError, InterruptedError):
                return False
            self._ciphertext = self._ciphertext[sent:]
        return True

    def _outgoing_alert(self) -> None:
        """Tell the broker why, if the connection still allows it."""
        with suppress(OSError):
            self.flush()

    def _answer_close_notify(self) -> None:
        """Answer it (RFC 8446, 6.1): some brokers close the connection only then, and where data
        came with it nothing else wakes the poll. An SSLError is an OSError."""
        with suppress(OSError):
            self._tls.unwrap()
        self._outgoing_alert()
