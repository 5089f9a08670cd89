"""`kipctl tap`: see what any client does, on the wire."""

import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from kipctl.cli.combinations import combined
from kipctl.cli.environment import Environment
from kipctl.cli.options import (
    BootstrapOption,
    OutputOption,
    RecordOption,
    YesOption,
    duration_option,
    pause_option,
    record_folder,
)
from kipctl.durations import Duration
from kipctl.errors import UsageError
from kipctl.report.formats import OutputFormat
from kipctl.report.tables import Report

if TYPE_CHECKING:
    from kipctl.runs.tap import TapPlan
    from kipctl.tap.process import RunningTap
    from kipctl.tap.spec import TapSpec

_SHOWN_EVERY_S = 1.0
_RATES_KEPT = 500
"""More than a terminal has columns."""


@combined(needs={"--ca": "--tls-to-brokers"})
def tap(
    environment: Environment,
    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="Where clients connect first; brokers get the ports after it. Port 0: any.",
        ),
    ] = "127.0.0.1:0",
    advertise: Annotated[
        str,
        typer.Option(
            "--advertise",
            metavar="HOST[:PORT]",
            help="What clients get in place of it, as through a port forward.",
        ),
    ] = "",
    cap: Annotated[
        str | None,
        typer.Option(
            "--cap",
            metavar="API=VERSION,...",
            help="The highest versions that clients are offered; "
            "Produce=9,Fetch=15 takes KIP-951 away.",
        ),
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option("--delay", metavar="API=TIME,...", help="Hold answers, as in Metadata=300ms."),
    ] = None,
    drop_hints: Annotated[
        bool, typer.Option("--drop-hints", help="Take the leader hints out of answers.")
    ] = False,
    stale_metadata: Annotated[
        Duration | None,
        pause_option(
            "--stale-metadata", "For so long after a change show the leaders of before in Metadata."
        ),
    ] = None,
    reset: Annotated[
        str | None,
        typer.Option(
            "--reset", metavar="RATE", help="Reset connections at random, as in 2/s or 10/min."
        ),
    ] = None,
    period: Annotated[
        Duration | None, duration_option("--for", "End after so long; else with Ctrl-C.")
    ] = None,
    certificate: Annotated[
        str, typer.Option("--certificate", metavar="PEM", help="Speak TLS to clients, with this.")
    ] = "",
    key: Annotated[
        str, typer.Option("--key", metavar="PEM", help="Its private key, if that is apart.")
    ] = "",
    client_ca: Annotated[
        str,
        typer.Option(
            "--client-ca",
            metavar="PEM",
            help="Let in clients with a certificate of this authority alone.",
        ),
    ] = "",
    lend_identity: Annotated[
        bool,
        typer.Option(
            "--lend-identity",
            help="Let whoever connects act with the client certificate of your settings.",
        ),
    ] = False,
    yes: YesOption = False,
    tls_to_brokers: Annotated[
        bool, typer.Option("--tls-to-brokers", help="Speak TLS to the brokers.")
    ] = False,
    ca: Annotated[
        str, typer.Option("--ca", metavar="PEM", help="Trust brokers by this; else the system's.")
    ] = "",
    record: RecordOption = None,
    bootstrap_server: BootstrapOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Stand between clients and a cluster, and show what each client does when leaders move.

    Clients connect to the tap instead of the brokers; each broker gets a listener of its own, and
    every endpoint in an answer is replaced by the tap's. All else passes as it came, but for what
    the options change. With --record what was seen becomes a run: batches, requests, redirects and
    reads of every client, for `kipctl analyze` and `kipctl runs compare`. It ends with Ctrl-C.

    To test your own client: start `kipctl tap --listen 127.0.0.1:9192`, give the client
    bootstrap.servers=127.0.0.1:9192, and move leaders elsewhere with `kipctl reassign --rotate
    --topic T` until it has met 20. Ctrl-C then says of every client what it makes of leader hints,
    how long its records took, and what to do about it.
    """
    from kipctl.report.tap_tables import tap_answer, tap_tables
    from kipctl.runs.tap import TapPlan
    from kipctl.runs.tap import tap as run
    from kipctl.security.settings import with_tls
    from kipctl.signals import noted_signals
    from kipctl.tap.spec import Lend, TapSpec, TlsFiles, parse_caps, parse_delays, parse_rate

    revised = partial(with_tls, authorities=ca) if tls_to_brokers else dict
    spec = TapSpec(
        access=environment.access(bootstrap_server, revised=revised),
        listen=listen,
        advertise=advertise,
        caps=parse_caps(cap) if cap is not None else (),
        delays=parse_delays(delay) if delay is not None else (),
        drop_hints=drop_hints,
        stale_metadata_us=stale_metadata.us if stale_metadata is not None else 0,
        resets_per_s=parse_rate(reset) if reset is not None else 0.0,
        tls=TlsFiles(certificate=certificate, key=key, client_ca=client_ca),
        lends=Lend.EVERYBODY if lend_identity else Lend.NOBODY,
    )
    spec.check()
    if lend_identity:
        _confirm_lending(environment, spec, yes)
    plan = TapPlan(spec, record_folder(record, environment.variables))
    _warn(environment, spec)
    with noted_signals() as ended:
        document = run(plan, lambda tap: _wait(environment, plan, tap, ended, period))
    opening = (tap_answer(document),)
    environment.report(Report("tap", document, tap_tables(document), opening=opening), output)


def _warn(environment: Environment, spec: "TapSpec") -> None:
    """Say who may do what through it, and which caps follow."""
    from kipctl.tap.spec import LAST_BY_NAME

    if spec.tells_no_ids:
        environment.message(
            "Metadata before version 10 tells clients no ids of topics: Produce and Fetch, which"
            f" ask by id from version {LAST_BY_NAME + 1} on, are capped at {LAST_BY_NAME} with it."
        )
    if said := exposure(spec):
        environment.message(*said.splitlines())


def _confirm_lending(environment: Environment, spec: "TapSpec", yes: bool) -> None:
    """Ask on a protected cluster. Raises what `Environment.confirm` raises, and KipctlError."""
    from kipctl.transport.request import Cluster

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


def exposure(spec: "TapSpec") -> str:
    """What it means that the tap listens there, in one or two lines; "" where that is nothing."""
    from kipctl.protocol.address import is_loopback

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


def _client_protocol(spec: "TapSpec") -> str:
    """What clients of the tap are to speak, where that or what brokers speak is no plain text.

    TLS ends at the tap; a login passes, so clients log in as if the tap were not there.
    """
    security = spec.access.security
    transport = "SSL" if spec.tls.certificate else "PLAINTEXT"
    protocol = f"SASL_{transport}" if security.sasl else transport
    if protocol == security.protocol == "PLAINTEXT":
        return ""
    return f" with security.protocol={protocol}"


def _wait(
    environment: Environment,
    plan: "TapPlan",
    tap: "RunningTap",
    ended: Callable[[float], bool],
    seconds: float | None,
) -> None:
    """Show the clients until it is to end."""
    from kipctl.report.live import TapScreen
    from kipctl.runs.tap import conditions, described

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
