"""The labs that tests of many files share: each is started by the first test that asks for it, and
ends where a process goes on to files of another kind.
"""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from kerberos_here import MISSING
from lab_state import SESSION, UNASKED_NOTHING, left_as_it_was
from scheduling import Kind, kind_of

from kipctl.lab.cluster import Lab
from kipctl.lab.properties import LabSpec
from kipctl.lab.security import Security

SHARED = {"lab", "struck_lab", "secured_lab"}

PATIENT = (
    *UNASKED_NOTHING,
    ("broker.session.timeout.ms", "9000"),  # no broker is missed on a machine that stands still
    ("broker.heartbeat.interval.ms", "2000"),
)


class SharedLabs:
    """Call it with what a lab is to be: it runs by then."""

    def __init__(self) -> None:
        self._labs: dict[str, Lab] = {}
        self._kind: Kind | None = None

    def __call__(self, spec: LabSpec) -> Lab:
        if spec.name not in self._labs:
            self._labs[spec.name] = Lab.up(spec, lambda text: None)
        return self._labs[spec.name]

    def down(self) -> None:
        while self._labs:
            self._labs.popitem()[1].down()

    def go_on_to(self, kind: Kind) -> None:
        """Files are given to a process by kind: what one kind shares, the next would let idle."""
        if kind is not self._kind:
            self.down()
        self._kind = kind


_labs = SharedLabs()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if hasattr(item.config, "workerinput"):
        _labs.go_on_to(kind_of(item.nodeid.partition("::")[0]))


@pytest.fixture(scope="session")
def shared_labs(guard: None) -> Iterator[SharedLabs]:
    yield _labs
    _labs.down()


@pytest.fixture(scope="module")
def lab(shared_labs: SharedLabs) -> Lab:
    """3 brokers in 3 racks and a controller, none of which is stopped, killed or paused."""
    return shared_labs(LabSpec(name="session", c1_only=True, config=PATIENT))


@pytest.fixture(scope="module")
def struck_lab(shared_labs: SharedLabs) -> Lab:
    """As `lab`, for tests that stop, kill or pause its brokers: they are soon missed, and back."""
    return shared_labs(LabSpec(name="struck", c1_only=True, config=(*UNASKED_NOTHING, SESSION)))


@pytest.fixture(scope="module")
def secured_lab(shared_labs: SharedLabs) -> Lab:
    """2 brokers that speak SASL over TLS, with ACLs. A test leaves it as it found it.

    Its files for clients are `client_files`; admin may do all, reader read, and alice nothing.
    Sessions end after 5 s (KIP-368), by SCRAM-SHA-512 after 15 s. It has a KDC where the machine
    has one.
    """
    spec = LabSpec(
        name="secured",
        brokers=2,
        c1_only=True,
        security=Security.SASL_SSL,
        acl=True,
        kerberos=not MISSING,
        config=(
            *PATIENT,
            ("connections.max.reauth.ms", "5000"),
            # Where none may be lost: a broker hangs up on what it comes to after a session's end.
            ("listener.name.clients.scram-sha-512.connections.max.reauth.ms", "15000"),
        ),
    )
    return shared_labs(spec)


@pytest.fixture(autouse=True)
def shared_are_left_as_they_were(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that shares a lab leaves it to the others as it was."""
    labs = map(request.getfixturevalue, SHARED & set(request.fixturenames))
    with ExitStack() as shared:
        for lab in {lab.name: lab for lab in labs}.values():
            shared.enter_context(left_as_it_was(lab))
        yield
