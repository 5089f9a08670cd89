"""Claims about versions and APIs that the proxy cannot know."""

from typing import Any

from kipctl.conform.proxy.claim import Claim
from kipctl.conform.proxy.passage import Passage
from kipctl.conform.proxy.session import Session
from kipctl.conform.proxy.upstream import UNKNOWN_VERSION, NewerRequest, UnknownRequest
from kipctl.conform.verdict import Outcome, Status, judged, outcome
from kipctl.protocol.api import ApiKey
from kipctl.protocol.api_versions import ApiVersionsResponse, own_api_versions_request
from kipctl.protocol.error_codes import ErrorCode
from kipctl.tap.rewrite import WITH_ENDPOINTS

_CONTENT = bytes(range(32))


class Offered(Claim):
    """The cluster announces version 99 of Metadata and all others whose answers have endpoints."""

    id = "proxy-versions"
    title = "it offers no version in which it cannot find the endpoints"
    says = "ApiVersions has what both ends speak: a proxy that reads answers is one of them."
    why = "With the next release of Kafka, clients get endpoints that the proxy has overlooked."

    def play(self, session: Session) -> Outcome:
        problems = []
        for key, (low, high) in sorted(session.offered.items()):
            first, last = session.upstream.versions.get(key, (0, -1))
            if not first <= low <= high <= last:
                problems.append(f"{_name(key)} {low} to {high}, the cluster has {first} to {last}")
            elif key in WITH_ENDPOINTS and high == UNKNOWN_VERSION:
                problems.append(f"{_name(key)} {high}, whose answers nobody can read yet")
        shown = ", ".join(
            f"{_name(key)} {session.offered[key][1]}"
            for key in sorted(WITH_ENDPOINTS)
            if key in session.offered
        )
        return judged([f"It offers {problem}" for problem in problems], f"It offers {shown}.")


class Unknown(Claim):
    """The cluster announces ListOffsets 99, whose answers have no endpoints, and an API 1000."""

    id = "proxy-unknown"
    title = "what it offers without knowing it is carried as it is"
    says = "What is offered is served; what cannot be carried is not to be offered."
    why = "New APIs, or new versions of old ones, break half-way through."

    def play(self, session: Session) -> Outcome:
        problems, carried = [], []
        for request in (UnknownRequest(_CONTENT), NewerRequest(_CONTENT)):
            version = session.version_of(type(request))
            if version is None:
                continue
            passage = session.ask(request)
            name = f"{_name(request.api.key)} {version}"
            carried.append(name)
            if problem := _is_carried(passage):
                problems.append(f"{name}: {problem}")
        seen = f"It carries {' and '.join(carried)}." if carried else "It offers nothing unknown."
        return judged(problems, seen)


class Negotiated(Claim):
    """ApiVersions is asked in version 99."""

    id = "proxy-api-versions"
    title = "an ApiVersions that is too new is answered so that clients can ask again"
    says = "UNSUPPORTED_VERSION comes in version 0, with the versions that are known (KIP-511)."
    why = "Newer clients do not get through at all."

    def play(self, session: Session) -> Outcome:
        passage = session.ask_in_unknown_version(own_api_versions_request(), UNKNOWN_VERSION)
        match passage.came:
            case ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=keys):
                known = [key.max_version for key in keys if key.api_key == ApiKey.API_VERSIONS]
                if known:
                    return outcome(Status.PASS, f"It says to ask in version {known[0]}.")
                return judged(["it does not say in which version to ask"], "")
            case ApiVersionsResponse(error_code=error):
                return judged([f"it is answered with error {error}"], "")
        return judged([passage.failure], "")


def _is_carried(passage: Passage) -> str:
    """What is wrong, or ""."""
    arrived: Any = passage.arrived.request if passage.arrived else None
    came: Any = passage.came
    if passage.failure:
        return passage.failure
    if arrived is None or arrived.content != _CONTENT:
        return "the request does not arrive as it was sent"
    return "" if came.content == _CONTENT[::-1] else "the answer does not come as it was sent"


def _name(key: int) -> str:
    try:
        return ApiKey(key).name.replace("_", " ").title().replace(" ", "")
    except ValueError:
        return f"API {key}"
