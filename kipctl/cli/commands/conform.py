"""`kipctl conform`: clients held against the KIPs."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kipctl.cli.combinations import combined
from kipctl.cli.environment import Environment
from kipctl.cli.grouped import Commands
from kipctl.cli.options import (
    ClusterOptions,
    OutputOption,
    TopicOption,
    duration_option,
    option,
)
from kipctl.conform.verdict import Role, Status
from kipctl.durations import Duration
from kipctl.report.formats import OutputFormat

if TYPE_CHECKING:
    from kipctl.conform.verdict import Verdict

app = Commands(
    "A cluster of three brokers, which is scripted, stands for Kafka: it moves a leader, names it "
    "or not, shows old Metadata. What the client asks from then on is the verdict: PASS, SLOW, "
    "FAIL, N/A (it asks in versions that have none of this), or NOT REACHED. A proxy stands "
    "between it and kipctl's own client: what comes through is held against what was sent. Brokers "
    "that run are held against their side of the KIPs.",
)

RuleArgument = Annotated[str, typer.Argument(metavar="RULE", help="Its id: see `conform list`.")]
RoleOption = Annotated[Role, option("--as", "What it is held as.", show_default=True)]


@dataclass(frozen=True)
class RuleOptions:
    """Which rules, and where their verdicts go."""

    rules: Annotated[
        str | None,
        option("Only these: ids (951-1) and what they begin with (951).", value="RULE,..."),
    ] = None
    expect: Annotated[
        Path | None, option("Rules that are known to fail, one a line: no status 7.", value="FILE")
    ] = None
    junit: Annotated[Path | None, option("Write a JUnit report too.", value="FILE")] = None

    def expected_failures(self) -> frozenset[str]:
        """The rules that are known to fail. Raises UsageError for files that will not do."""
        from kipctl.conform.catalogue import BY_ID
        from kipctl.conform.expected import read_expected
        from kipctl.report.junit import check_junit

        if self.junit:
            check_junit(self.junit)
        return read_expected(self.expect, BY_ID) if self.expect else frozenset()

    def conclude(
        self,
        environment: Environment,
        name: str,
        role: str,
        verdicts: "Sequence[Verdict]",
        output: OutputFormat,
        *,
        command: str = "conform run",
        next_step: str = "",
    ) -> None:
        """Report the verdicts. Raises RefusedError where all are NOT REACHED, ThresholdError for a
        FAIL that is not known.
        """
        from kipctl.conform.expected import outdated, surprises
        from kipctl.errors import RefusedError, ThresholdError
        from kipctl.next_step import Command
        from kipctl.report.conform_tables import conform_report
        from kipctl.report.junit import write_junit

        known = self.expected_failures()
        if self.junit:
            write_junit(self.junit, name, role, verdicts)
        environment.report(conform_report(name, role, verdicts, known, command), output)
        for id in outdated(verdicts, known):
            environment.message(
                f"{id} is expected to fail, and does not: take it out of {self.expect}."
            )
        if all(verdict.status is Status.NOT_REACHED for verdict in verdicts):
            raise RefusedError("No rule could be judged.", next_step)
        if failed := surprises(verdicts, known):
            raise ThresholdError(
                f"It does not do what {', '.join(failed)} ask{'s' if len(failed) == 1 else ''}.",
                "See why that matters: " + Command("conform explain", failed[0]),
            )


@app.command()
@combined(one_of=(("--preset", "COMMAND"),))
def run(
    environment: Environment,
    rules: RuleOptions,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND",
            help="After `--`: the client, with {bootstrap}, {topic}, {partitions}, {group}, "
            "{rack}, {role} and {metadata_ms}. It sends to the topic, or reads it, about 50 "
            "records a second until it is ended. Or a proxy, with {upstream}, where the cluster "
            "is, and {listen}, where it has to listen.",
            show_default=False,
        ),
    ] = None,
    preset: Annotated[
        str | None, option("A client that kipctl can start: see `conform list`.", value="NAME")
    ] = None,
    role: RoleOption = Role.PRODUCER,
    repeats: Annotated[
        int, option("A verdict is what most of so many runs say.", min=1, max=99)
    ] = 3,
    start_timeout: Annotated[
        Duration, duration_option("How long it may take to send or read, or to listen.")
    ] = Duration(60),
    quiet_metadata: Annotated[
        Duration,
        duration_option("A client is refused when it has not asked for Metadata for so long."),
    ] = Duration(6),
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Hold a client against the rules, each on a cluster of its own; or a proxy.

    A FAIL that --expect does not name is status 7. kipctl's own client is run first: where it is
    late, limits are widened, and where it is very late, this machine is too busy to tell. With
    --as proxy it goes through COMMAND to the cluster instead.
    """
    from kipctl.conform.proxy.claims import CLAIMS
    from kipctl.conform.proxy.run import run_claims
    from kipctl.conform.requirement import picked
    from kipctl.conform.rules import chosen
    from kipctl.conform.run import Client, check_command, run_rules
    from kipctl.load.presets import preset_of
    from kipctl.next_step import Command

    is_proxy = role is Role.PROXY
    claims = picked(rules.rules, CLAIMS) if is_proxy else ()
    wanted = () if is_proxy else chosen(rules.rules, role)
    rules.expected_failures()
    words = preset_of(preset).words(role, environment.message) if preset else tuple(command or ())
    check_command(words)
    client = Client(words, role, float(start_timeout), float(quiet_metadata))
    next_step = "See what passes through it: " + Command("tap")
    with environment.progress("Starting") as tell:
        if is_proxy:
            verdicts = run_claims(claims, words, float(start_timeout), tell, repeats)
        else:
            verdicts = run_rules(wanted, client, tell, repeats)
            next_step = "See the cluster and what the client does: " + Command(
                "conform serve", wanted[0].id
            )
    name = preset or " ".join(words)
    rules.conclude(environment, name, role, verdicts, output, next_step=next_step)


@app.command()
def broker(
    environment: Environment, options: ClusterOptions, rules: RuleOptions, topic: TopicOption = None
) -> None:
    """Hold the brokers of a cluster against their side of KIP-951 and KIP-392.

    Each is asked as by `inspect hints`: by a Produce with a wrong CRC for a partition that it does
    not lead, and by Fetch. Nothing is written, and no leader moves. A FAIL that --expect does not
    name is status 7.
    """
    from kipctl.cluster.snapshot import select, take_snapshot
    from kipctl.conform.broker.claims import BROKER_CLAIMS, verdicts_of
    from kipctl.conform.broker.facts import look
    from kipctl.conform.requirement import picked
    from kipctl.next_step import Command

    claims = picked(rules.rules, BROKER_CLAIMS)
    rules.expected_failures()
    with options.connected(environment) as cluster:
        snapshot = select(take_snapshot(cluster, named=topic or []), topic or [])
        environment.report_hidden_topics(cluster, snapshot.topics, topic or [])
        verdicts = verdicts_of(claims, look(cluster, snapshot))
    rules.conclude(
        environment,
        str(cluster.access),
        "cluster",
        verdicts,
        options.output,
        command="conform broker",
        next_step="See who leads what: " + Command("inspect leaders"),
    )


@app.command()
def serve(
    environment: Environment,
    rule: RuleArgument,
    role: RoleOption = Role.PRODUCER,
    quiet_metadata: Annotated[
        Duration,
        duration_option("It is refused when it has not asked for Metadata for so long."),
    ] = Duration(6),
) -> None:
    """The cluster of a rule alone, for a client in a debugger.

    It begins when a client has sent or read for a while, and is judged when the rule is over.
    Ctrl-C ends it before.
    """
    from kipctl.conform.rules import chosen, rule_of
    from kipctl.conform.rules.replicas import RACK
    from kipctl.conform.run import staged
    from kipctl.report.conform_tables import judged_report

    (wanted,) = chosen(rule_of(rule).id, role)
    with staged(wanted, role, float(quiet_metadata)) as stage:
        environment.message(
            f"Start a {role}: bootstrap server {stage.cluster.bootstrap_server}, topic "
            f"{stage.place[0]}, rack {RACK}."
        )
        stage.tell = lambda topic: environment.message(f"Send to {topic} from now on.")
        while stage.began_us is None and not stage.is_over:
            time.sleep(0.02)
        environment.message(f"It is warm. {wanted.id} begins: {wanted.title}.")
        while not stage.is_over:
            time.sleep(0.02)
        trace = stage.trace(1.0)
        judged = stage.rule.judged(trace)
    environment.report(
        judged_report(wanted, role, judged, trace.evidence(judged.ms)), OutputFormat.AUTO
    )


@app.command(name="list")
def list_(environment: Environment, output: OutputOption = OutputFormat.AUTO) -> None:
    """The rules, and the clients that kipctl can start."""
    from kipctl.conform.catalogue import REQUIREMENTS
    from kipctl.load.presets import PRESETS
    from kipctl.report.conform_tables import list_report

    environment.report(list_report(REQUIREMENTS, PRESETS.values()), output)


@app.command()
def explain(
    environment: Environment, rule: RuleArgument, output: OutputOption = OutputFormat.AUTO
) -> None:
    """What a rule asks, why that matters, and what is done to see it."""
    from kipctl.conform.catalogue import REQUIREMENTS
    from kipctl.conform.requirement import of_id
    from kipctl.report.conform_tables import explained

    environment.report(explained(of_id(rule, REQUIREMENTS)), output)
