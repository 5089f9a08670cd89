"""`kipctl tap`: see what any client does, on the wire."""

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Annotated

from kipctl.cli.combinations import combined
from kipctl.cli.environment import Environment
from kipctl.cli.options import (
    ClusterOptions,
    RecordOption,
    YesOption,
    duration_option,
    option,
    pause_option,
    record_folder,
)
from kipctl.durations import Duration
from kipctl.errors import KipctlError, ThresholdError, UsageError
from kipctl.report.tables import Report

if TYPE_CHECKING:
    from kipctl.documents.tap import TapDocument
    from kipctl.load.until_met import UntilMet
    from kipctl.tap.process import RunningTap


@combined(
    needs={
        "--ca": "--tls-to-brokers",
        **dict.fromkeys(("--until-met", "--and-without-hints"), "--rotate"),
    },
    exclusive=tuple((option, "--and-without-hints") for option in ("--drop-hints", "--cap")),
)
def tap(
    environment: Environment,
    options: ClusterOptions,
    listen: Annotated[
        str,
        option(
            "Where clients connect first; brokers get the ports after it. Port 0: any.",
            value="HOST:PORT",
        ),
    ] = "127.0.0.1:0",
    advertise: Annotated[
        str,
        option("What clients get in place of it, as through a port forward.", value="HOST[:PORT]"),
    ] = "",
    cap: Annotated[
        str | None,
        option(
            "The highest versions that clients are offered; Produce=9,Fetch=15 takes KIP-951 away.",
            value="API=VERSION,...",
        ),
    ] = None,
    delay: Annotated[
        str | None, option("Hold answers, as in Metadata=300ms.", value="API=TIME,...")
    ] = None,
    drop_hints: Annotated[bool, option("Take the leader hints out of answers.")] = False,
    stale_metadata: Annotated[
        Duration | None,
        pause_option("For so long after a change show the leaders of before in Metadata."),
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        option("End with status 7 if it is found, or any but notes with 'any'.", value="FINDING"),
    ] = None,
    print_signs: Annotated[
        bool, option("--print", "Print a line for each sign of a finding as it is seen.")
    ] = False,
    reset: Annotated[
        str | None, option("Reset connections at random, as in 2/s or 10/min.", value="RATE")
    ] = None,
    period: Annotated[
        Duration | None, duration_option("--for", "End after so long; else with Ctrl-C.")
    ] = None,
    rotate: Annotated[
        str | None, option("Rotate its leaders meanwhile, and put them back.", value="TOPIC")
    ] = None,
    until_met: Annotated[
        int | None,
        option("End once each client has met N moved leaders. Default: 20.", value="N", min=1),
    ] = None,
    and_without_hints: Annotated[
        bool, option("Then again without hints: what are they worth to a client?")
    ] = False,
    run: Annotated[
        str | None,
        option("Start this client, and end it. It gets {bootstrap}, {topic}.", value="COMMAND"),
    ] = None,
    certificate: Annotated[str, option("Speak TLS to clients, with this.", value="PEM")] = "",
    key: Annotated[str, option("Its private key, if that is apart.", value="PEM")] = "",
    client_ca: Annotated[
        str, option("Let in clients with a certificate of this authority alone.", value="PEM")
    ] = "",
    lend_identity: Annotated[
        bool, option("Let whoever connects act with the client certificate of your settings.")
    ] = False,
    yes: YesOption = False,
    tls_to_brokers: Annotated[bool, option("Speak TLS to the brokers.")] = False,
    ca: Annotated[str, option("Trust brokers by this; else the system's.", value="PEM")] = "",
    record: RecordOption = None,
) -> None:
    """Stand between clients and a cluster, and show what each client does when leaders move.

    Clients connect to the tap instead of the brokers; each broker gets a listener of its own, and
    every endpoint in an answer is replaced by the tap's. All else passes as it came, but for what
    the options change. With --record what was seen becomes a run: batches, requests, redirects and
    reads of every client, for `kipctl analyze` and `kipctl runs compare`. It ends with Ctrl-C.

    To test your own client: kipctl tap --listen 127.0.0.1:9192 --rotate T moves leaders until each
    client that has bootstrap.servers=127.0.0.1:9192 has met 20. Then it says of each what it makes
    of leader hints, how long its records took, and what to do about it.
    """
    from kipctl.cli.commands.tap_watch import confirm_lending, explained, show_clients, warn
    from kipctl.client_behaviour.findings.catalogue import failed_findings, wanted_findings
    from kipctl.load.clients.command import parse_command, runnable, running_command
    from kipctl.load.plan import check_topic
    from kipctl.load.tap import TapPlan
    from kipctl.load.tap import tap as run_tap
    from kipctl.measure.doubts import MIN_MOVES
    from kipctl.report.tap_tables import tap_answer, tap_tables
    from kipctl.security.settings import with_tls
    from kipctl.signals import noted_signals
    from kipctl.tap.spec import Lend, TapSpec, TlsFiles, parse_caps, parse_delays, parse_rate

    revised = partial(with_tls, authorities=ca) if tls_to_brokers else dict
    spec = TapSpec(
        access=environment.access(options.bootstrap_server, revised=revised),
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
    if rotate is not None:
        check_topic(rotate, "--rotate")
    words = runnable(parse_command(run, "--run"), "--run") if run is not None else ()
    if rotate is None and any("{topic}" in word for word in words):
        raise UsageError(
            "--run has {topic}, which stands for the topic of --rotate.",
            "Add --rotate TOPIC, or write the topic itself.",
        )
    gates = wanted_findings(fail_if or ())
    if lend_identity:
        confirm_lending(environment, spec, yes)
    plan = TapPlan(spec, record_folder(record, environment.variables))
    warn(environment, spec)

    def tapped(plan: TapPlan, until: "UntilMet | None" = None) -> "TapDocument":
        def watch(tap: "RunningTap") -> None:
            given = {"bootstrap": spec.advertised_address(tap.bootstrap_server)}
            with (
                running_command(words, {**given, "topic": rotate or ""})
                if words
                else nullcontext() as client
            ):
                show_clients(environment, plan, tap, ended, period, print_signs, client, until)

        with noted_signals() as ended:
            return run_tap(plan, watch, until.add_to) if until else run_tap(plan, watch)

    short: KipctlError | None = None
    if rotate is None:
        document = tapped(plan)
    else:
        from kipctl.cli.commands.tap_rotation import tap_while_leaders_rotate

        document, short = tap_while_leaders_rotate(
            environment,
            plan,
            rotate,
            until_met or MIN_MOVES,
            tapped,
            yes=yes,
            and_without_hints=and_without_hints,
        )
    report = Report("tap", document, tap_tables(document), opening=(tap_answer(document),))
    environment.report(report, options.output)
    failed = failed_findings(document, gates)
    sentence = f"Found (--fail-if): {', '.join(failed)}." if failed else ""
    if short is not None:
        short.what = f"{sentence} {short.what}".lstrip()
        raise short
    if failed:
        raise ThresholdError(sentence, explained(failed))
