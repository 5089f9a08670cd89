"""Sizes of Metadata messages on the wire, from their JSON: the log does not tell them.

The fields and the versions they came with are those of Kafka's MetadataRequest.json and
MetadataResponse.json; from version 9 on lengths are varints and every structure ends with its
tagged fields, of which there are none.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F


def metadata_response_bytes(response: str = "response", version: str = "api_version") -> Column:
    """The bytes (bigint) of a Metadata answer with its 4-byte length, header and body."""
    flexible = f"({version} >= 9)"

    def since(first: int, size: int, last: int = 99) -> str:
        return f"if({version} between {first} and {last}, {size}, 0)"

    def length(number: str) -> str:
        """Of a length field: 4 bytes, or a varint of the length plus one."""
        return f"if({flexible}, {_varint(f'{number} + 1')}, 4)"

    def string(text: str) -> str:
        size = f"coalesce(octet_length({text}), 0)"
        varint = f"if({text} is null, 1, {_varint(f'{size} + 1')})"
        return f"(if({flexible}, {varint}, 2) + {size})"

    def array(items: str, each: str) -> str:
        total = f"aggregate({items}, 0, (sum, item) -> sum + {each})"
        return f"({length(f'size({items})')} + coalesce({total}, 0))"

    def ids(items: str) -> str:
        return f"({length(f'coalesce(size({items}), 0)')} + 4 * coalesce(size({items}), 0))"

    tags = f"if({flexible}, 1, 0)"
    broker = f"8 + {string('b.host')} + if({version} >= 1, {string('b.rack')}, 0) + {tags}"
    offline = f"if({version} >= 5, {ids('p.offlineReplicas')}, 0)"
    partition = (
        f"10 + {since(7, 4)} + {ids('p.replicaNodes')} + {ids('p.isrNodes')} + {offline} + {tags}"
    )
    partitions = array("t.partitions", f"({partition})").replace("item", "p").replace("sum", "u")
    topic = (
        f"2 + {string('t.name')} + {since(10, 16)} + {since(1, 1)} + {partitions} + {since(8, 4)} "
        f"+ {tags}"
    )
    brokers = array(f"{response}.brokers", f"({broker})").replace("item", "b")
    topics = array(f"{response}.topics", f"({topic})").replace("item", "t")
    cluster = f"if({version} >= 2, {string(f'{response}.clusterId')}, 0)"
    return F.expr(
        f"cast(8 + {tags} + {since(3, 4)} + {brokers} + {cluster} + {since(1, 4)} + {topics} "
        f"+ {since(8, 4, 10)} + {since(13, 2)} + {tags} as bigint)"
    )


def _varint(number: str) -> str:
    """The bytes of an unsigned varint."""
    steps = " ".join(f"when {number} < {1 << (7 * size)} then {size}" for size in (1, 2, 3, 4))
    return f"(case {steps} else 5 end)"
