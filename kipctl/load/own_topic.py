"""Topics of a run's own: made for it, and removed after it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from uuid import UUID

from kipctl import process
from kipctl.cleanup_failures import CleanupFailures
from kipctl.cluster.snapshot import Snapshot, take_snapshot
from kipctl.cluster.topics import (
    await_no_topics,
    await_topics,
    create_topics,
    delete_topics,
    topic_ids,
    topics_named,
)
from kipctl.counts import counted, first_few
from kipctl.errors import KipctlError, PartlyDoneError
from kipctl.load.plan import OWN_TOPIC
from kipctl.own_topic_names import leftovers, own_host
from kipctl.transport.request import Cluster

Message = Callable[[str], None]


@contextmanager
def own_topic(
    cluster: Cluster,
    partitions: int,
    replication_factor: int,
    message: Message,
    configs: Mapping[str, str] | None = None,
) -> Iterator[Snapshot]:
    """The topic of this process, made anew (`replication_factor` 0: 3, or all brokers if fewer).

    It is removed after the block; see `own_topics`.
    """
    factor = replication_factor or min(3, len(cluster.nodes))
    with own_topics(cluster, [OWN_TOPIC], partitions, factor, message, configs):
        yield take_snapshot(cluster, [OWN_TOPIC])


@contextmanager
def own_topics(
    cluster: Cluster,
    names: Sequence[str],
    partitions: int,
    replication_factor: int,
    message: Message,
    configs: Mapping[str, str] | None = None,
) -> Iterator[Mapping[str, UUID]]:
    """The run's topics, which nobody else makes (see `kipctl.own_topic_names`), with their ids.

    They are removed after the block, unless somebody else has made them anew meanwhile. What cannot
    be removed is reported after the result (`CleanupFailures`). What other runs have left is
    reported and stays. Raises KipctlError when they cannot be made.
    """
    if said := left_by_others(cluster, names):
        message(said)
    await_no_topics(cluster, names)  # this process may have had, and removed, them before
    which = f"topic {names[0]}" if len(names) == 1 else counted(len(names), "topic")
    message(
        f"Creating {which}: {counted(partitions, 'partition')} on"
        f" {counted(replication_factor, 'replica')} each"
        + ("." if len(names) == 1 else f", {names[0]} to {names[-1]}.")
    )
    ids: Mapping[str, UUID] = {}
    may_exist: set[str] = set()
    try:
        create_topics(cluster.access, names, partitions, replication_factor, may_exist, configs)
        ids = await_topics(cluster, names, partitions)
        yield ids
    finally:
        _remove(cluster, [name for name in names if name in may_exist], ids)


def left_by_others(cluster: Cluster, names: Sequence[str]) -> str:
    """A sentence on topics that other runs of kipctl have left, and what to do; "" of none."""
    left = leftovers(
        set(topics_named(cluster, "kipctl-.*")) - set(names), own_host(), process.is_running
    )
    said = []
    if left.dead:
        said.append(
            "Runs of kipctl that are gone have left topics, with their data:"
            f" {first_few(left.dead)}."
        )
    if left.others:
        said.append(
            f"Topics of kipctl's from other machines: {first_few(left.others)}; runs there may be"
            " under way."
        )
    return " ".join((*said, "Remove those: kafka-topics --delete --topic NAME") if said else ())


def _remove(cluster: Cluster, names: Sequence[str], ids: Mapping[str, UUID]) -> None:
    """Delete those that are still as this run has made them; what fails is kept for later."""
    if not names:
        return
    try:
        now = topic_ids(cluster, names) if ids else {}
        own = [n for n in names if n not in now or now[n] == ids.get(n)]
        delete_topics(cluster.access, own)
        with suppress(KipctlError):  # a broker that is behind would show them to who plans next
            await_no_topics(cluster, own)
    except KipctlError as failed:
        _note_left(names, failed.what, failed.next_step)
    except KeyboardInterrupt:
        _note_left(names, "their removal was interrupted.")
        raise


def _note_left(names: Sequence[str], why: str, next_step: str = "") -> None:
    which = f"Topic {names[0]} is" if len(names) == 1 else f"Topics {first_few(names)} are"
    CleanupFailures.note(
        PartlyDoneError(
            f"{which} still there, with the data: {why}",
            next_step or "Remove what is left: kafka-topics --delete --topic NAME",
        )
    )
