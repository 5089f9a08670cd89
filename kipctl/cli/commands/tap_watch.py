"""`kipctl tap` while it runs: what is said of where it listens, and of the clients that come."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime

from kipctl.cli.environment import Environment
from kipctl.counts import counted
from kipctl.errors import UsageError
from kipctl.load.clients.command import RunningCommand
from kipctl.load.tap import TapPlan, conditions, described
from kipctl.load.until_met import Ending, UntilMet
from kipctl.next_step import Command, NextStep
from kipctl.report.live import TapScreen
from kipctl.report.tap_tables import client_protocol, exposure
from kipctl.tap.process import RunningTap, TapOutcome
from kipctl.tap.spec import LAST_BY_NAME, TapSpec
from kipctl.trace.clock import now_us
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


def show_clients(
    environment: Environment,
    plan: TapPlan,
    tap: RunningTap,
    ended: Callable[[float], bool],
    seconds: float | None,
    prints_signs: bool = False,
    client: RunningCommand | None = None,
    until_met: UntilMet | None = None,
) -> None:
    """Show the clients until it is to end: at a signal, after so many seconds, with the `client`
    that was started for it, or as `until_met` says; with `prints_signs` a line for each sign of a
    finding. Raises what they raise."""
    clients_go_to = plan.spec.advertised_address(tap.bootstrap_server)
    listens = f" The tap listens at {tap.bootstrap_server}."
    environment.message(
        f"Clients connect to {clients_go_to}{client_protocol(plan.spec)}"
        f" instead of {plan.spec.access}."
        f"{listens if clients_go_to != tap.bootstrap_server else ''}"
        f" {_ends(seconds, client, until_met)}"
    )
    until = time.monotonic() + seconds if seconds else float("inf")
    before, told = tap.show(), ""
    rates: deque[float] = deque(maxlen=_RATES_KEPT)
    with environment.live() as draw:
        while not ended(max(0.0, min(_SHOWN_EVERY_S, until - time.monotonic()))):
            now = tap.show()
            new = now.dropped - before.dropped
            for line in now.messages[max(0, len(now.messages) - new) :] if new else ():
                environment.message(line)
            if new > len(now.messages):
                environment.message(f"And {new - len(now.messages):,} more like these.")
            if prints_signs:
                _print_signs(environment, now, now.signs_seen - before.signs_seen)
            if draw:
                seen = described(now, conditions(plan.spec), since=before)
                rates.append(sum(entry["requests"]["per_second"] for entry in seen["clients"]))
                draw(TapScreen(seen, tuple(rates), str(until_met or "")))
            before = now
            ending = Ending.CLIENT_ENDED if client and client.is_done_by(now_us()) else None
            if client and ending:
                client.outcome()
            is_over = until_met is not None and not ending and until_met(now)
            if until_met and not draw and told != (told := str(until_met)):
                environment.message(told)
            if time.monotonic() >= until:
                ending = ending or Ending.TIME
            if until_met and ending:
                until_met.end(ending)
            if is_over or ending:
                return
    if until_met:
        until_met.end(Ending.SIGNAL)


def _ends(seconds: float | None, client: RunningCommand | None, until_met: UntilMet | None) -> str:
    """What ends it."""
    ends = []
    if until_met:
        moved = counted(until_met.wanted, "moved leader")
        ends.append(f"once each client has met {moved}, and puts leaders back")
    elif client:
        ends.append("with its client")
    if seconds:
        ends.append(f"after {seconds:g} s")
    if not ends:
        return "Ctrl-C (or SIGTERM) ends the tap."
    return f"It ends {', or '.join(ends)}; Ctrl-C (or SIGTERM) ends it sooner."


def _print_signs(environment: Environment, outcome: TapOutcome, new: int) -> None:
    """The last so many of them."""
    kept = outcome.signs[max(0, len(outcome.signs) - new) :] if new else ()
    for sign in kept:
        at = datetime.fromtimestamp((outcome.wall_start_us + sign.at_us - outcome.start_us) / 1e6)
        partition = f" {sign.topic}-{sign.partition}" if sign.topic else ""
        broker = f" at broker {sign.broker}" if sign.broker >= 0 else ""
        moment = at.isoformat(sep=" ", timespec="milliseconds")
        client = sign.client_id or "-"
        environment.message(f"{moment} {sign.finding}: {client}{partition}{broker}")
    if new > len(kept):
        environment.message(f"And {new - len(kept):,} more like these.")


def explained(failed: Sequence[str]) -> NextStep:
    """Where to read more of the first."""
    return "What it is: " + Command("explain", failed[0])
