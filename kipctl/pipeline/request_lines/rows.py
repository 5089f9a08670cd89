"""The rows that lines are read into, of all kinds in one table."""

from enum import StrEnum

import pyarrow as pa


class Kind(StrEnum):
    """What a row is of."""

    PARSED = "parsed"  # lines that hold the marker and a request
    BROKEN = "broken"  # or JSON that is damaged
    OTHER = "other"  # lines without the marker
    OUTSIDE = "outside"  # outside the period, and in an envelope, which may hide their time
    BLOCK = "block"  # how many lines a block of a file has
    SHOWN = "shown"  # a broken line as it is shown
    TIMES = "times"  # where in a file the requests of a time are
    NODE = "node"  # a broker that Metadata answers name
    TOPIC = "topic"
    FOLLOWED = "followed"  # requests by which a client is followed
    TOOK = "took"  # how long requests took


SLOT_US = 10_000_000
"""Clients are followed by slots of this length."""
TURN_SLOT_US = 600_000_000
"""Of lines it is kept where the first and the last one is, for each such time: enough to see that
they go back by half an hour."""


def fields(text: str) -> list[tuple[str, pa.DataType]]:
    """Arrow's fields, each a name and Arrow's name of its type."""
    named = (field.split() for field in text.split(","))
    return [(name, pa.type_for_alias(alias)) for name, alias in named]


LINE_KEYS = "kind string, file string, envelope string"
REQUEST_KEYS = (
    "api_key int32, api string, api_version int32, client string, connection string,"
    "is_forwarded bool, address string, host string, rack string, is_deprecated bool,"
    "principal string, listener string, security_protocol string"
)
ANSWER = fields("error int32, hinted bool, appended bool, named bool, partitions int64")
NAMED = {
    Kind.NODE: fields("id int32, host string, port int32, rack string"),
    Kind.TOPIC: fields("id string, name string"),
}
OF_LINES = [
    *fields(f"{LINE_KEYS}, {REQUEST_KEYS}"),
    ("software", pa.struct(fields("name string, version string"))),
    ("answers", pa.list_(pa.struct(ANSWER))),
    (
        "metadata",
        pa.struct(
            [
                ("asked", pa.list_(pa.string())),
                *fields("error int32, bytes int64, cluster string, answer int64"),
            ]
        ),
    ),
    ("single", pa.struct(fields("us int64, took_us int64, correlation int32"))),
]
ROWS = pa.schema(
    [
        *OF_LINES,
        *fields("requests int64, first_us int64, last_us int64, record_bytes int64"),
        *((str(name), pa.struct(columns)) for name, columns in NAMED.items()),
        *fields("cluster string, block int64, id int64, last_id int64, text string"),
        *fields("slot int64, packed binary, slice int64"),
        ("slices", pa.list_(pa.struct(fields("first int64, last int64")))),
    ]
)
"""Rows of lines (PARSED, BROKEN, OTHER, OUTSIDE) count those that are alike (`requests`):

`file`; `envelope` that they are in, null of plain ones; `first_us` and `last_us`, when the first
and the last was answered (microseconds since the epoch, null where no line tells a time). Of
PARSED: `api_key`, `api`, `api_version`, `client`, `connection`, `is_forwarded`, `address` (the
broker's), `host` (the client's), `software` (null where it is not told); `is_deprecated`, whether
the broker says so of the version (KIP-896); `principal`, `listener` and `security_protocol`; the
`rack` that consumers name; `record_bytes`, those of records that are produced or fetched;
`answers`, how many partitions were answered with an error or a
preferred read replica, alike ones together (`hinted`: it names a leader, `appended`: it has a base
offset, `named`: a replica); of Metadata what was asked for and answered (`metadata`); and of
Metadata and of leader errors told to clients `single`, what tells the request from others.

BLOCK has `block` (where it begins), `id` (of its first line) and `requests`, its lines; SHOWN the
`text` of a broken line at `block` and `id`; TIMES `id` and `last_id` of the first and the last line
of a `block` within TURN_SLOT_US, and `first_us` and `last_us`; NODE and TOPIC what Metadata
answers at an `address` name of a `cluster`; FOLLOWED Produce, Fetch and Metadata of a client over a
`connection` in a `slot` of SLOT_US (`packed`), as `followed_requests` reads them; TOOK the times of
all requests of a client by API (`packed`), as `times` has them.

Where lines are counted in slices of time, `slice` is the number of the one that a row is of (since
the epoch; null where no line tells a time); NODE and TOPIC have all `slices` in which they were
named, from the first to the last of those that follow one another; BLOCK is of all times. `text` of
BLOCK tells its first line that holds the marker from others; null where there is none.
"""
