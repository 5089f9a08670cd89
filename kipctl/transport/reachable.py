"""Whether a cluster lets a client in, and its brokers can be reached, asked before it matters."""

from kipctl.errors import KipctlError, RefusedError
from kipctl.next_step import Command
from kipctl.protocol.address import Address
from kipctl.transport.access import Access
from kipctl.transport.address_map import suggested_map
from kipctl.transport.each_broker import ask_each
from kipctl.transport.request import Cluster

_WITHIN_S = 8.0
"""For all bootstrap servers together, one after the other."""


def require_reachable(access: Access) -> None:
    """Raise the one error that says why a client would not get in, if it would not.

    Other clients try again and again, and take tens of seconds to say less: Java's for
    `request.timeout.ms` and more, librdkafka's until somebody asks what became of a record. It is
    not asked through a tap, which would record it as a client. Raises KipctlError within about
    8 s.
    """
    if access.is_behind_tap:
        return
    timeout_s = _WITHIN_S / len(access.bootstrap)
    with Cluster(access, timeout_s=timeout_s) as cluster:
        cluster.metadata(())


def require_a_broker_in_reach(cluster: Cluster, command: str) -> None:
    """Raise RefusedError where the bootstrap servers answer, and no broker at its own address.

    As behind one port-forward: a change would be made, and nobody could see what became of it.
    `command` is what goes on with --map.
    """
    at = [Address(node.host, node.port) for node in cluster.nodes.values()]
    if not set(at).isdisjoint(cluster.bootstrap):
        return
    answers = ask_each(cluster, cluster.nodes, lambda _, broker: broker.api_versions, _WITHIN_S)
    refused = [answer for answer in answers.values() if isinstance(answer, KipctlError)]
    if refused and len(refused) == len(answers):
        raise RefusedError(
            "No broker can be reached where the cluster lists it, so whether they know their new"
            f" leaders could not be seen. {refused[0].what}",
            "Nothing was changed. Behind tunnels say where they are, or insist with --force: "
            + Command(command, map=suggested_map(at, cluster.bootstrap[0])),
        )
