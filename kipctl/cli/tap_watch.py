"""`kipctl tap` while it runs: what is said of where it listens, and of the clients that come."""

import time
from collections import deque
from collections.abc import Callable

from kipctl.cli.environment import Environment
from kipctl.errors import UsageError
from kipctl.load.tap import TapPlan, conditions, described
from kipctl.protocol.address import is_loopback
from kipctl.report.live import TapScreen
from kipctl.tap.process import RunningTap
from kipctl.tap.spec import LAST_BY_NAME, TapSpec
from kipctl.transport.request import Cluster

_SHOWN_EVERY_S = 1.0
_RATES_KEPT = 500
"""More than a terminal has columns."""


def warn(environment: Environment, spec: TapSpec) -> None:
    """Say who may do what through it, and which caps follow."""
    if spec.tells_no_ids:
        environment.message(
            "Metadata before version 10 tells clients no ids of topics: Produce and Fetch, which"
            f" ask by id from version {LAST_BY_NAME + 1} on, are capped at {LAST_BY_NAME} with it."
        )
    if said := exposure(spec):
        environment.message(*said.splitlines())


def confirm_lending(environment: Environment, spec: TapSpec, yes: bool) -> None:
    """Ask on a protected cluster. Raises what `Environment.confirm` raises, and KipctlError."""
    if not spec.identity:
        raise UsageError(
            "--lend-identity is for a client certificate, and there is none in the settings.",
            "Leave it out: a login (SASL) is the clients' own.",
        )
    with Cluster(spec.access) as cluster:
        cluster.metadata(())  # says the id, by which it may be protected
    if spec.access.is_protected:
        environment.confirm(
            f"Whoever connects to the tap changes it as {spec.identity}. Begin?", yes
        )


def exposure(spec: TapSpec) -> str:
    """What it means that the tap listens there, in one or two lines; "" where that is nothing."""
    host, _ = spec.listen_address
    if is_loopback(host) and not spec.identity:
        return ""
    if spec.tls.client_ca:
        who = f"whoever has a certificate of {spec.tls.client_ca}"
    else:
        who = "every user of this machine" if is_loopback(host) else "whoever reaches it"
    how = "" if spec.tls.certificate else ", unencrypted"
    if spec.identity:
        does = f"is {spec.identity} to the brokers{how}.\nNothing else stands behind it."
    else:
        does = (
            f"reaches the cluster through this machine{how}, as if from here.\n"
            "Only the cluster's own authentication stands behind it, if it has one."
        )
    return f"Listening at {host}: {who} {does}"


def _client_protocol(spec: TapSpec) -> str:
    """What clients of the tap are to speak, where that or what brokers speak is no plain text.

    TLS ends at the tap; a login passes, so clients log in as if the tap were not there.
    """
    security = spec.access.security
    transport = "SSL" if spec.tls.certificate else "PLAINTEXT"
    protocol = f"SASL_{transport}" if security.sasl else transport
    if protocol == security.protocol == "PLAINTEXT":
        return ""
    return f" with security.protocol={protocol}"


def show_clients(
    environment: Environment,
    plan: TapPlan,
    tap: RunningTap,
    ended: Callable[[float], bool],
    seconds: float | None,
) -> None:
    """Show the clients until it is to end."""
    clients_go_to = plan.spec.advertised_address(tap.bootstrap_server)
    listens = f" The tap listens at {tap.bootstrap_server}."
    environment.message(
        f"Clients connect to {clients_go_to}{_client_protocol(plan.spec)}"
        f" instead of {plan.spec.access}."
        f"{listens if clients_go_to != tap.bootstrap_server else ''}"
        " Ctrl-C (or SIGTERM) ends the tap."
    )
    until = time.monotonic() + seconds if seconds else float("inf")
    before = tap.show()
    rates: deque[float] = deque(maxlen=_RATES_KEPT)
    with environment.live() as draw:
        while not ended(max(0.0, min(_SHOWN_EVERY_S, until - time.monotonic()))):
            now = tap.show()
            new = now.dropped - before.dropped
            for line in now.messages[max(0, len(now.messages) - new) :] if new else ():
                environment.message(line)
            if new > len(now.messages):
                environment.message(f"And {new - len(now.messages):,} more like these.")
            if draw:
                seen = described(now, conditions(plan.spec), since=before)
                rates.append(sum(one["requests"]["per_second"] for one in seen["clients"]))
                draw(TapScreen(seen, tuple(rates)))
            before = now
            if time.monotonic() >= until:
                return
