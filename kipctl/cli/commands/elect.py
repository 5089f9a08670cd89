"""`kipctl elect`: leader elections, preferred and unclean."""

from pathlib import Path
from typing import Annotated

from kipctl.cli.combinations import combined
from kipctl.cli.commands.change_options import ChangeOptions, changing
from kipctl.cli.commands.guard import GuardOptions, read_guard
from kipctl.cli.environment import Environment
from kipctl.cli.grouped import Commands
from kipctl.cli.options import BatchOption, BetweenOption, TopicOption, duration_option, option
from kipctl.durations import Duration

app = Commands()
_ONE_OF = ("--topic", "--partition", "--json-file", "--all")
"""How partitions are chosen."""

PartitionOption = Annotated[
    list[str] | None, option("One partition; repeatable.", value="TOPIC:PARTITION")
]
AllOption = Annotated[bool, option("--all", "Every partition, internal topics too.")]
AllButInternalOption = Annotated[
    bool, option("--all", "Every partition; those of internal topics with --internal.")
]
InternalOption = Annotated[
    bool,
    option(
        "With --all: __consumer_offsets and __transaction_state too. What they lose is the "
        "positions of groups, and the state of transactions."
    ),
]
FileOption = Annotated[
    Path | None, option("The partitions in Kafka's election JSON.", value="FILE")
]
BrokerOption = Annotated[
    list[int] | None,
    option("Partitions whose preferred replica this broker is; repeatable.", value="BROKER", min=0),
]
UntilOption = Annotated[
    str | None,
    option(
        "Wait for brokers to be whole, and elect again, until all are led so.", value="balanced"
    ),
]
AsTheyComeOption = Annotated[
    bool,
    option("With --until: elect what is in sync while its broker still copies other replicas."),
]
ForceOption = Annotated[
    bool, option("Elect though a broker that was in sync last may come back: its records are lost.")
]
LongTimeoutOption = Annotated[
    Duration | None,
    duration_option("How long all of it may take: by default 5m a batch, with --until 10m in all."),
]
LongestOption = Annotated[
    bool, option("Elect the live replica with the most records: it is put first, and stays so.")
]
TimeoutOption = Annotated[Duration, duration_option("How long to wait for a batch.")]


@app.command()
@combined(one_of=((*_ONE_OF, "--broker"),), needs={"--as-they-come": "--until"})
def preferred(
    environment: Environment,
    guard: GuardOptions,
    options: ChangeOptions,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    broker: BrokerOption = None,
    every: AllOption = False,
    json_file: FileOption = None,
    batch: BatchOption = 1000,
    between: BetweenOption = Duration(0),
    until: UntilOption = None,
    as_they_come: AsTheyComeOption = False,
    timeout: LongTimeoutOption = None,
) -> None:
    """Make each partition's preferred (first) replica its leader, and wait until brokers know.

    Partitions that their preferred replica leads already are left alone. --dry-run lists the
    others. With --until balanced a broker gets its leaders when all its replicas are in sync: after
    its restart this brings them back, in batches of 10 at first. A guard that gives up leaves
    leaders where they are: an election has no way back.
    """
    from kipctl.changes.carry_out import carry_out
    from kipctl.changes.elect import ElectPreferred, chosen_partitions
    from kipctl.changes.execution.election_until_balanced import parse_until
    from kipctl.changes.execution.pacing import Pace

    if until is not None:
        parse_until(until)
    wanted = ElectPreferred(
        choose=chosen_partitions(topic or [], partition or [], every, json_file, broker or []),
        chooses=bool(every or topic or broker),
        until_balanced=until is not None,
        as_they_come=as_they_come,
    )
    with changing(
        environment,
        options,
        guard=read_guard(guard, moves_along=False),
        pace=Pace(batch, between),
        topics=topic or [],
        timeout_s=timeout,
    ) as (change, _):
        carry_out(change, wanted)


@app.command()
@combined(one_of=(_ONE_OF,), needs={"--internal": "--all"})
def unclean(
    environment: Environment,
    options: ChangeOptions,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    every: AllButInternalOption = False,
    internal: InternalOption = False,
    json_file: FileOption = None,
    longest: LongestOption = False,
    force: ForceOption = False,
    timeout: TimeoutOption = Duration(60),
) -> None:
    """Make a replica that is out of sync the leader of a partition that has none: DATA IS LOST.

    Records that the elected replica does not have are gone, acknowledged or not. Only partitions
    that have no leader, before and after the question, are elected; without any nothing is done.
    --dry-run lists them, with who would lead, what may be lost, and where transactions that lose
    their end would stop readers with read_committed. Those of which more would be lost after the
    question than it showed are left out. While a broker that was in sync last may come back it is
    refused without --force. Status 5 also says that a transaction is open that nobody will end.
    """
    from kipctl.changes.carry_out import carry_out
    from kipctl.changes.elect import chosen_partitions
    from kipctl.changes.elect_unclean import ElectUnclean

    wanted = ElectUnclean(
        choose=chosen_partitions(topic or [], partition or [], every, json_file),
        chooses=bool(every or topic),
        internal=internal or not every,
        longest=longest,
    )
    with changing(environment, options, topics=topic or [], force=force, timeout_s=timeout) as (
        change,
        _,
    ):
        carry_out(change, wanted)
