"""Sizes of Metadata messages on the wire, from their JSON: the log does not report them.

The fields and the versions they came with are those of Kafka's MetadataRequest.json and
MetadataResponse.json; from version 9 on lengths are varints and every structure ends with its
tagged fields, of which there are none.
"""

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F


def metadata_response_bytes(response: str = "response", version: str = "api_version") -> Column:
    """The bytes (bigint) of a Metadata answer with its 4-byte length, header and body."""
    return F.expr(_answer(response, version)).cast("bigint")


def _answer(response: str, version: str) -> str:
    """The size as SQL: its hundred terms would be a thousand calls of the JVM, Column by Column."""
    is_flexible = f"({version} >= 9)"
    tags = f"if({is_flexible}, 1, 0)"

    def of_versions(first: int, size: int, last: int = 99) -> str:
        return f"if({version} between {first} and {last}, {size}, 0)"

    def length(number: str) -> str:
        """Of a length field: 4 bytes, or a varint of the length plus one."""
        return f"if({is_flexible}, {_varint(f'{number} + 1')}, 4)"

    def string(text: str) -> str:
        size = f"coalesce(octet_length({text}), 0)"
        varint = f"if({text} is null, 1, {_varint(f'{size} + 1')})"
        return f"(if({is_flexible}, {varint}, 2) + {size})"

    def array(items: str, item: str, size_of: Callable[[str], str]) -> str:
        """`item` is the name by which `size_of` is to call each of the items."""
        total = f"{item}_total"
        sizes = f"aggregate({items}, 0, ({total}, {item}) -> {total} + {size_of(item)})"
        return f"({length(f'size({items})')} + coalesce({sizes}, 0))"

    def ids(items: str) -> str:
        return f"({length(f'coalesce(size({items}), 0)')} + 4 * coalesce(size({items}), 0))"

    def broker(name: str) -> str:
        rack = f"if({version} >= 1, {string(f'{name}.rack')}, 0)"
        return f"(8 + {string(f'{name}.host')} + {rack} + {tags})"

    def partition(name: str) -> str:
        offline = f"if({version} >= 5, {ids(f'{name}.offlineReplicas')}, 0)"
        replicas = f"{ids(f'{name}.replicaNodes')} + {ids(f'{name}.isrNodes')} + {offline}"
        return f"(10 + {of_versions(7, 4)} + {replicas} + {tags})"

    def topic(name: str) -> str:
        partitions = array(f"{name}.partitions", "partition", partition)
        flags = f"{of_versions(10, 16)} + {of_versions(1, 1)} + {of_versions(8, 4)}"
        return f"(2 + {string(f'{name}.name')} + {flags} + {partitions} + {tags})"

    cluster = f"if({version} >= 2, {string(f'{response}.clusterId')}, 0)"
    return (
        f"8 + {tags} + {of_versions(3, 4)} + {array(f'{response}.brokers', 'broker', broker)} "
        f"+ {cluster} + {of_versions(1, 4)} + {array(f'{response}.topics', 'topic', topic)} "
        f"+ {of_versions(8, 4, 10)} + {of_versions(13, 2)} + {tags}"
    )


def _varint(number: str) -> str:
    """The bytes of an unsigned varint."""
    steps = " ".join(f"when {number} < {1 << (7 * size)} then {size}" for size in (1, 2, 3, 4))
    return f"(case {steps} else 5 end)"
