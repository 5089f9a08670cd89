"""A proxy is started before the scripted cluster, and held against the claims."""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kipctl.conform.cluster import Loopback
from kipctl.conform.cluster.cluster import HOST
from kipctl.conform.proxy.claim import Claim
from kipctl.conform.proxy.session import Session
from kipctl.conform.proxy.upstream import Upstream
from kipctl.conform.verdict import Outcome, Status, Verdict, decided
from kipctl.errors import RefusedError, UsageError
from kipctl.lab.ports import first_of_free_ports
from kipctl.load.clients.child import Child
from kipctl.load.clients.command import filled
from kipctl.protocol.address import Address
from kipctl.trace.clock import now_us

_PORTS = 16
"""Some proxies take the ports after the one where they listen."""
_LOOK_EVERY_S = 0.1
_SAID = 200


@contextmanager
def running(words: Sequence[str], start_timeout_s: float) -> Iterator[Session]:
    """The proxy, started, which offers versions; {upstream} and {listen} are filled in.

    Raises UsageError where it cannot be started, RefusedError where it does not listen in time.
    """
    upstream = Upstream()
    loopback = Loopback(upstream)
    listen = Address(HOST, first_of_free_ports(_PORTS))
    with loopback, tempfile.TemporaryDirectory(prefix="kipctl-conform-") as folder:
        given = {"upstream": upstream.bootstrap_server, "listen": str(listen)}
        try:
            child = Child([filled(word, given) for word in words], Path(folder), Path.cwd())
        except OSError as error:
            raise UsageError(f"{words[0]} cannot be run: {error.strerror}.") from None
        try:
            session = Session(loopback, upstream, listen)
            _wait_for(session, child, start_timeout_s)
            yield session
        finally:
            child.close_all()


def _wait_for(session: Session, child: Child, start_timeout_s: float) -> None:
    deadline = time.monotonic() + start_timeout_s
    while why := session.greet():
        is_over = child.is_over_by(now_us() + round(_LOOK_EVERY_S * 1e6))
        if is_over or time.monotonic() > deadline:
            said = (child.new_stderr() or child.stdout()).strip()[-_SAID:]
            what = (
                f"It ended by itself, with status {child.exit_code}."
                if is_over
                else f"Nothing came through it at {session.listen} within {start_timeout_s:.0f} s:"
                f" {why}."
            )
            raise RefusedError(
                f"The proxy cannot be judged. {what} {said}".strip(),
                "It has to listen at {listen}, and to go on to {upstream}.",
            )


def run_claims(
    claims: Sequence[type[Claim]],
    words: Sequence[str],
    start_timeout_s: float,
    tell: Callable[[str], None],
    repeats: int,
) -> list[Verdict]:
    """Each of them until most of so many runs agree. Raises as `running` does."""
    with running(words, start_timeout_s) as session:
        return [_verdict(claim, session, tell, repeats) for claim in claims]


def _verdict(
    claim: type[Claim], session: Session, tell: Callable[[str], None], repeats: int
) -> Verdict:
    played: list[Outcome] = []
    while (status := decided(tuple(p.judgement for p in played), repeats)) is None:
        tell(f"{claim.id}: {claim.title} (run {len(played) + 1})")
        played.append(claim().played(session))
    tell(f"{claim.id}: {status}")
    shown = next((p for p in played if p.judgement.status is status), played[-1])
    seen = shown.judgement.seen
    if status is Status.NOT_REACHED:
        seen = f"Its runs differ: {', '.join(p.judgement.status for p in played)}."
    return Verdict(claim.id, status, seen, tuple(p.judgement for p in played), shown.evidence)
