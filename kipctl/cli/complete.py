"""What a shell offers for a value that only the cluster, or a folder of kipctl's, knows.

The completion scripts call `kipctl __complete WORD LINE`: `WORD` is what help shows for the value
(TOPIC, BROKER, RUN ...), `LINE` is what has been typed. It never complains, and never lets anybody
wait: without an answer of the cluster in a second there is nothing to offer.
"""

import io
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kipctl.cli.environment import Environment
    from kipctl.transport.request import Cluster

COMMAND = "__complete"
PATIENCE_S = 1.0
_CONNECTING = {
    "--cluster": "cluster",
    "--command-config": "command_config",
    "--producer.config": "command_config",
    "--consumer.config": "command_config",
    "--map": "map",
}
_SAFE = re.compile(r"[\w.,@%+=:/-]+")
"""What needs no quoting in any shell. Names come from brokers, who are not to be trusted."""


def values_of(word: str) -> tuple[str, ...]:
    """Which of WORDS stand for the value that help shows as `word`; empty if it is none of them.

    `RUN...`, `[NODE]` and `BROKER,...` are repeated, optional and separated by commas.
    """
    bare = re.sub(r"[\[\],.]", "", word).split("|")
    return tuple(bare) if all(kind in WORDS for kind in bare) else ()


def offered(word: str, line: str, environment: "Environment") -> list[str]:
    """The values that go on as the last word of the line does, sorted.

    Raises KipctlError where they cannot be known.
    """
    words = _split(line)
    option, is_joined, current = words[-1].partition("=")
    if not (is_joined and option.startswith("--")):
        current = words[-1]
    before = current[: current.rfind(",") + 1] if word.endswith(",...") else ""
    known = (value for kind in values_of(word) for value in WORDS[kind](words[:-1], environment))
    others = before.split(",")
    values = {f"{before}{v}" for v in known if _SAFE.fullmatch(v) and v not in others}
    return sorted(value for value in values if value.startswith(current))


def main() -> None:
    """Print them, one a line, for `kipctl __complete`."""
    from kipctl.cli.environment import Environment

    try:
        _, _, word, line = sys.argv
        environment = Environment(stdin=io.StringIO(), stderr=io.StringIO())
        for value in offered(word, line, environment):
            environment.stdout.write(f"{value}\n")
        environment.stdout.flush()
    except (Exception, _TooSlowError):  # an error in the middle of what is being typed helps nobody
        os._exit(0)


class _TooSlowError(BaseException):
    """The cluster has not answered in time; nothing on the way is to handle it as its error."""


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raise _TooSlowError when what is inside takes longer."""

    def give_up(*_: object) -> None:
        raise _TooSlowError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _split(line: str) -> list[str]:
    """The words typed so far; the last one, which is being typed, may be empty."""
    for close in ("", "'", '"'):
        try:
            words = shlex.split(line + close)
        except ValueError:
            continue
        return [*words, ""] if not words or line[-1:].isspace() else words
    return [""]


def _given(words: Sequence[str], option: str) -> list[str]:
    """The values that an option has in these words."""
    joined = [word.partition("=")[2] for word in words if word.startswith(f"{option}=")]
    return joined + [value for word, value in pairwise(words) if word == option]


def _on_cluster(
    ask: "Callable[[Cluster], Iterable[str]]",
) -> "Callable[[Sequence[str], Environment], Iterable[str]]":
    """What the cluster that the words name says to `ask`."""

    def values(words: Sequence[str], environment: "Environment") -> Iterable[str]:
        from kipctl.transport.request import Cluster

        for option, name in _CONNECTING.items():
            if given := _given(words, option):
                environment.connecting[name] = given if name == "map" else given[-1]
        servers = _given(words, "--bootstrap-server")
        access = environment.access(servers[-1] if servers else None)
        with _at_most(PATIENCE_S), Cluster(access, timeout_s=PATIENCE_S) as cluster:
            return list(ask(cluster))

    return values


def _topics(cluster: "Cluster") -> Iterable[str]:
    return (topic.name for topic in cluster.metadata().topics if topic.name)


def _brokers(cluster: "Cluster") -> Iterable[str]:
    return (str(broker.node_id) for broker in cluster.metadata(()).brokers)


def _partitions(cluster: "Cluster") -> Iterable[str]:
    topics = (topic for topic in cluster.metadata().topics if topic.name)
    return (f"{topic.name}:{part.partition_index}" for topic in topics for part in topic.partitions)


def _racks(cluster: "Cluster") -> Iterable[str]:
    return (broker.rack for broker in cluster.metadata(()).brokers if broker.rack)


def _entries(cluster: "Cluster") -> Iterable[str]:
    from kipctl.changes.journal.journal import ignore_damaged, journal
    from kipctl.roll.record import rolls

    kept = journal(cluster.metadata(()).cluster_id or "")
    yield from (record.id for record in rolls(kept, ignore_damaged))
    yield from (entry.id for entry in kept.entries() if not entry.origin.part_of)


def _runs(words: Sequence[str], environment: "Environment") -> Iterable[str]:
    from kipctl.trace.stored_runs import runs_folder

    return (path.name for path in runs_folder(environment.variables).iterdir() if path.is_dir())


def _labs(words: Sequence[str], environment: "Environment") -> Iterable[str]:
    from kipctl.lab.cluster import labs

    return (lab.name for lab in labs())


def _nodes(words: Sequence[str], environment: "Environment") -> Iterable[str]:
    from kipctl.cli.commands.lab import lab_of

    lab = lab_of([None, *_given(words, "--name")][-1])
    return (str(node.id) for node in lab.nodes)


def _clusters(words: Sequence[str], environment: "Environment") -> Iterable[str]:
    from kipctl.transport.clusters import clusters_file, named_clusters

    return named_clusters(clusters_file(environment.variables))


def _arms(words: Sequence[str], environment: "Environment") -> Iterable[str]:
    from kipctl.experiments.arms.names import ARMS

    return ARMS


def _clients(words: Sequence[str], environment: "Environment") -> Iterable[str]:
    from kipctl.experiments.metadata.experiment import CLIENTS

    return CLIENTS


def _findings(words: Sequence[str], environment: "Environment") -> Iterable[str]:
    from kipctl.client_behaviour.findings.catalogue import ANY, FINDINGS

    return *FINDINGS, ANY


def _pages(words: Sequence[str], environment: "Environment") -> Iterable[str]:
    from kipctl.report.pages import findings, other_pages

    return [*findings(), *other_pages()]


def _states(words: Sequence[str], environment: "Environment") -> Iterable[str]:
    from kipctl.changes.wait_conditions import Condition

    return Condition


def _keys(words: Sequence[str], environment: "Environment") -> Iterable[str]:
    from kipctl.pipeline.keys import LOG_KEYS, RUN_KEYS

    return LOG_KEYS if "request-log" in words else RUN_KEYS


WORDS: Mapping[str, Callable[[Sequence[str], "Environment"], Iterable[str]]] = {
    "TOPIC": _on_cluster(_topics),
    "TOPIC:PARTITION": _on_cluster(_partitions),
    "BROKER": _on_cluster(_brokers),
    "RACK": _on_cluster(_racks),
    "ENTRY": _on_cluster(_entries),
    "RUN": _runs,
    "A": _runs,
    "B": _runs,
    "LAB": _labs,
    "NODE": _nodes,
    "CLUSTER": _clusters,
    "ARM": _arms,
    "CLIENT": _clients,
    "FINDING": _findings,
    "PAGE": _pages,
    "STATE": _states,
    "KEY": _keys,
    "ACTION": lambda *_: ("rotate", "elect", "reassign"),
}
"""Where the values come from that these words stand for in help."""
