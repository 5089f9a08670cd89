"""What is asked of a proxy: it is played with a session, and judged by what passed."""

from collections.abc import Sequence
from typing import Any, ClassVar

from kipctl.conform.proxy.passage import Passage
from kipctl.conform.proxy.session import Session
from kipctl.conform.requirement import Requirement
from kipctl.conform.verdict import Outcome, Status, outcome
from kipctl.protocol.message import Request


class Claim(Requirement):
    """`least` are the versions of requests that have to be offered for it to apply."""

    least: ClassVar[tuple[tuple[type[Request[Any]], int], ...]] = ()

    def play(self, session: Session) -> Outcome:
        """Send requests through the proxy, and judge what passed."""
        raise NotImplementedError

    def played(self, session: Session) -> Outcome:
        """The same where it applies."""
        for request, least in self.least:
            name = request.__name__.removesuffix("Request")
            version = session.version_of(request)
            if version is None:
                return outcome(Status.NOT_APPLICABLE, f"It does not offer {name}.")
            if version < least:
                seen = f"It offers {name} {version}; this comes from {least} on."
                return outcome(Status.NOT_APPLICABLE, seen)
        return self.play(session)


def failures(passages: Sequence[Passage]) -> list[str]:
    """What got no answer that can be read, a line each."""
    return [f"{passage.name}: {passage.failure}" for passage in passages if passage.failure]
