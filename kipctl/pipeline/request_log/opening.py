"""Lines out of their envelopes, by Spark's own functions: pieces of one may be in several tasks.

Of files that hold envelopes all lines are opened: out of every JSON string that holds the marker,
whatever its field is called and however deep it is wrapped; pieces into which runtimes cut long
lines are put together again; documents that are printed over several lines are joined first.

Where the line itself tells no time, the envelope's is put before it.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kipctl.pipeline.request_lines.envelope import (
    COLOUR,
    DOCUMENTS,
    END,
    ENTRIES,
    EPOCH,
    ESCAPED,
    INNER_DOCUMENTS,
    LINES,
    MARKER,
    PREFIXES,
    TIME,
    Way,
)

LITERAL = r'[^"\\]*+(?:\\.[^"\\]*+)*+'
"""What a JSON string holds. Possessive: Java's matcher would run out of stack on long ones."""
_FIELDS = (
    "log|message|MESSAGE|msg|line|short_message|full_message|textPayload|stringValue|_raw|event"
    "|original|event.original|body|LogEntry"
)
_FIELD = rf'(?:[{{,]\s*"(?:{_FIELDS})"\s*:|\[\s*"\d{{16,19}}"\s*,)\s*"({LITERAL})"'
"""Where the text of a record is that does not hold the marker; Loki's pairs have no names."""
_BETWEEN_RECORDS = r'(?<=\}),?\s*(?=\{\s*")|(?<=\]),\s*(?=\[\s*"\d)'
"""In a string the quote would be escaped."""
_ISO_FIELDS = "@timestamp|timestamp|_time|time|datetime|date|ts|eventTime|TimeGenerated"
_EPOCH_FIELDS = (
    "timeMillis|timestamp|@timestamp|time|ts|date|_time|timeUnixNano"
    "|_SOURCE_REALTIME_TIMESTAMP|__REALTIME_TIMESTAMP"
)
_SECONDS = r"[1-9]\d{9}(?:\.?\d{1,9})?"
_TIMES = (
    rf'"(?:{_ISO_FIELDS})"\s*:\s*"({TIME})"',
    rf'"(?:{_EPOCH_FIELDS})"\s*:\s*"?({_SECONDS})\b',
    rf'\[\s*"({_SECONDS})"',
    rf"\b_?_(?:SOURCE_)?REALTIME_TIMESTAMP=({_SECONDS})\b",
    rf"({TIME})",
)
"""Where an envelope tells the time: by field, then in Loki's pairs, then wherever one stands."""
_CONTAINER = (
    r'"(?:stream|container|container_?id|container_?name|docker_id|pod|pod_?name|instance|host'
    r'|hostname|_HOSTNAME|filename|path|logStreamName|tag)"\s*:\s*"[^"]*"'
)
"""What tells apart the containers whose pieces are mixed in one file."""
_PARTS = r'"(?:partial_message|CONTAINER_PARTIAL_MESSAGE)"\s*:\s*"?true'
_LAST_PART = r'"partial_last"\s*:\s*"?true'
_NAMES = (
    ("docker json-file", r'^[^"]*\{\s*"log"\s*:'),
    ("journald", r'"__REALTIME_TIMESTAMP"'),
    ("CloudWatch", r'"(?:logStreamName|ingestionTime|logGroup)"'),
    ("Loki", r'"(?:labels|resultType|values)"\s*:|^[^"]*\[\s*"\d{16,19}"'),
    ("JSON layout", r'"(?:logger|loggerName|logger_name|log\.logger)"\s*:'),
    ("JSON", r""),
)
"""What a JSON envelope is called, by what else it holds."""
_STRUCTURE = r'[{}\],"]|\[\s*(?:$|["{\[])|$'
_SCALAR = r"(?:-?\d[\d.eE+-]*|true|false|null),?\s*$"
"""How lines of JSON begin, or what they are; of logs that are no JSON lines begin otherwise."""
_DOCKER = _NAMES[0][1]
_CUT_AT = 16_000
"""Runtimes cut at 16 KiB, journald at 48. A text as long as that goes on if it does not end."""


def opened(text: DataFrame, how: Mapping[str, Way]) -> DataFrame:
    """The lines of `text` (`value`, `file`, `block`, `id`) without envelopes, and `envelope`: what
    was cut off, null where nothing was looked for.

    Of a line that was put together, `block` and `id` are those of its first piece.
    """
    if not how:
        return text
    is_opened = F.col("file").isin(sorted(how))
    frames = [text.filter(~is_opened).withColumn("envelope", F.lit(None).cast("string"))]
    for way in sorted(set(how.values())):
        files = sorted(file for file, file_way in how.items() if file_way == way)
        of_way = text.filter(F.col("file").isin(files))
        frames.append(_opened(of_way, way).select(frames[0].columns))
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame)
    return whole


def _opened(text: DataFrame, way: Way) -> DataFrame:
    lines = _entries(text) if way.how == ENTRIES else text
    nothing = F.lit(None).cast("string")
    lines = lines.select(
        "file",
        "block",
        "id",
        F.array().cast("array<int>").alias("place"),
        F.col("value").alias("text"),
        F.lit("").alias("key"),
        F.lit(None).cast("boolean").alias("ended"),
        nothing.alias("time"),
        F.array().cast("array<string>").alias("names"),
    )
    in_pieces = way.how != LINES
    if way.how == DOCUMENTS:
        lines = lines.transform(_documents)
    for level in range(way.depth + (way.how == ENTRIES) + 1):
        # A runtime cuts what it was given, with all envelopes that are in it.
        lines = lines.transform(_out_of_json) if level else lines
        lines = lines.transform(_without_prefix)
        lines = lines.transform(_put_together) if in_pieces else lines
        if way.how == INNER_DOCUMENTS and level == min(1, way.depth - 1):
            lines = lines.transform(_documents)
    lines = lines.transform(_request_joined) if in_pieces else lines
    bare = F.regexp_replace("text", rf"{COLOUR}|\s+$", "")
    bare = F.when(
        bare.contains(MARKER + '{""'), F.replace(bare, F.lit('""'), F.lit('"'))
    ).otherwise(bare)
    stamp = F.substring_index("text", MARKER, 1)
    # An array's brackets on lines of their own are no lines of a log.
    is_bracket = F.col("text").rlike(r"^\s*[\[\]{},][\s\[\]{},]*$") & F.lit(way.depth > 0)
    has_time = stamp.rlike(TIME) | stamp.rlike(EPOCH)
    is_request = F.contains("text", F.lit(MARKER))
    return (
        lines.filter(~is_bracket)
        .select("*", bare.alias("bare"))
        .drop("text")
        .withColumnRenamed("bare", "text")
        .select(
            "file",
            "block",
            "id",
            F.when(
                is_request & ~has_time & F.col("time").isNotNull(), F.concat_ws(" ", "time", "text")
            )
            .otherwise(F.col("text"))
            .alias("value"),
            F.nullif(F.array_join(F.reverse("names"), " in "), F.lit("")).alias("envelope"),
        )
    )


def _without_prefix(lines: DataFrame) -> DataFrame:
    """Cut off what stands before the text, if it is one of PREFIXES."""
    text = F.col("text")
    _, cri = PREFIXES[0]
    prefix = F.when(text.rlike(cri), F.regexp_extract(text, cri, 0))
    name = F.when(text.rlike(cri), PREFIXES[0][0])
    for label, pattern in PREFIXES[1:]:
        prefix = prefix.when(text.rlike(pattern), F.regexp_extract(text, pattern, 0))
        name = name.when(text.rlike(pattern), label)
    tag = F.regexp_extract("_prefix", r"std(?:out|err) ([PF])(?::\S*)? ?$", 1)
    known = F.col("_prefix").isNotNull()
    without_time = F.regexp_replace("_prefix", rf"{TIME}|{COLOUR}| [PF](?::\S*)? ?$", "")
    told = F.nullif(F.regexp_extract("_prefix", TIME, 0), F.lit(""))
    return lines.select("*", prefix.alias("_prefix"), name.alias("_name")).select(
        "file",
        "block",
        "id",
        "place",
        F.when(known, F.expr("substr(text, length(_prefix) + 1)")).otherwise(text).alias("text"),
        F.when(known, F.concat("key", without_time)).otherwise(F.col("key")).alias("key"),
        F.when(tag == "F", True).when(tag == "P", False).otherwise(F.col("ended")).alias("ended"),
        F.coalesce(told, "time").alias("time"),
        F.when(known, F.array_append("names", F.col("_name")))
        .otherwise(F.col("names"))
        .alias("names"),
    )


def _out_of_json(lines: DataFrame) -> DataFrame:
    """A row for each record of a line that is JSON; others as they are."""
    text = F.col("text")
    has_marker = F.contains(text, F.lit(MARKER))
    mark = F.when(has_marker, F.lit(MARKER)).otherwise(F.lit(_FIELD))
    of_several = F.regexp_count(text, mark) > 1
    segments = F.when(of_several, F.split(text, _BETWEEN_RECORDS)).otherwise(F.array(text))

    def records(segment: Column) -> Column:
        literals = F.filter(
            F.regexp_extract_all(segment, F.lit(f'"({LITERAL})"'), F.lit(1)),
            lambda literal: literal.contains(MARKER),
        )
        # What shippers hand on as it was, and in a field of their own besides, is one request.
        each_once = F.filter(
            literals,
            lambda literal, at: (
                ~F.exists(
                    F.slice(literals, F.lit(1), at),
                    lambda earlier: _request_in(earlier) == _request_in(literal),
                )
            ),
        )
        other = F.nullif(F.regexp_extract(segment, _FIELD, 1), F.lit(""))
        return F.transform(
            # A string without an end is broken, and is not to be lost.
            F.when(segment.contains(MARKER) & (F.size(literals) == 0), F.array(segment))
            .when(segment.contains(MARKER), each_once)
            .when(segment.rlike(_FIELD), F.array(F.coalesce(other, F.lit(""))))
            .otherwise(F.array().cast("array<string>")),
            lambda literal: F.struct(
                literal.alias("literal"),
                F.when(literal == "", segment)
                .otherwise(F.replace(segment, literal, F.lit("")))
                .alias("around"),
            ),
        )

    no_record = F.lit(None).cast("struct<literal: string, around: string>")
    each = F.when(_is_json(text), F.flatten(F.transform(segments, records))).otherwise(
        F.array(no_record)
    )
    found_in = lines.select("*", F.posexplode(each).alias("_at", "_record"))
    around, literal = F.col("_record.around"), F.col("_record.literal")
    unescaped = F.from_json(F.concat(F.lit('{"t":"'), literal, F.lit('"}')), "t string")["t"]
    name = F.when(around.rlike(_NAMES[0][1]), _NAMES[0][0])
    for label, pattern in _NAMES[1:]:
        name = name.when(around.rlike(pattern), label)
    told = [F.nullif(F.regexp_extract(around, pattern, 1), F.lit("")) for pattern in _TIMES]
    second = F.regexp_extract(around, r'"epochSecond"\s*:\s*(\d{10})\b', 1)
    nanos = F.regexp_extract(around, r'"nanoOfSecond"\s*:\s*(\d{1,9})\b', 1)
    instant = F.when(second != "", F.concat(second, F.lpad(nanos, 9, "0")))
    ended = (
        F.when(around.rlike(_PARTS), around.rlike(_LAST_PART))
        .when(around.rlike(r'"(?:logtag|_p|flags)"\s*:\s*"P"'), False)
        .when(literal.endswith(r"\n"), True)
        .when(around.rlike(_DOCKER) & (F.octet_length(literal) >= _CUT_AT), False)
    )
    is_record = F.col("_record").isNotNull()
    keys = F.array_join(F.regexp_extract_all(around, F.lit(_CONTAINER), F.lit(0)), "")
    return found_in.select(
        "file",
        "block",
        "id",
        F.array_append("place", F.col("_at")).alias("place"),
        F.when(is_record, F.coalesce(unescaped, literal)).otherwise(text).alias("text"),
        F.when(is_record, F.concat("key", keys)).otherwise(F.col("key")).alias("key"),
        F.when(is_record, F.coalesce(ended, "ended")).otherwise(F.col("ended")).alias("ended"),
        F.when(is_record, F.coalesce(instant, *told, "time"))
        .otherwise(F.col("time"))
        .alias("time"),
        F.when(is_record, F.array_append("names", name)).otherwise(F.col("names")).alias("names"),
    )


def _is_json(text: Column) -> Column:
    """Whether the text holds JSON strings that hold lines."""
    return text.rlike(ESCAPED) | (~F.contains(text, F.lit(MARKER)) & text.rlike(_FIELD))


def _request_in(literal: Column) -> Column:
    """The request, up to where texts of the same one may end differently."""
    return F.substring_index(F.substring_index(literal, MARKER, -1), "clientInformation", 1)


def _put_together(lines: DataFrame) -> DataFrame:
    """Pieces of one line in one row.

    A piece is one that says so; or that is as long as pieces are, and holds no end. What holds the
    marker begins a line in any case.
    """
    text = F.col("text")
    has_marker = F.contains(text, F.lit(MARKER))
    is_closed = text.rlike(rf'{MARKER}{LITERAL}"') & text.rlike(ESCAPED)
    is_json = F.when(has_marker, is_closed).otherwise(text.rlike(_FIELD))
    goes_on = (F.octet_length(text) >= _CUT_AT) & ~F.contains(text, F.lit(END)) & ~is_json
    in_order = Window.partitionBy("file", "key").orderBy("block", "id", "place")
    ended = F.coalesce("ended", ~goes_on)
    begins = has_marker | F.lag(ended, 1, True).over(in_order)
    whole = _joined(lines.select("*", begins.alias("begins")), ("file", "key"), "")
    return whole.withColumn("ended", F.lit(None).cast("boolean"))


def _request_joined(lines: DataFrame) -> DataFrame:
    """A request that is printed over several lines in one row."""
    text = F.col("text")
    has_marker = F.contains(text, F.lit(MARKER))
    in_order = Window.partitionBy("file", "key").orderBy("block", "id", "place")
    # Jackson's and jq's way: what is within is indented, and the last brace is not.
    opens = text.rlike(MARKER + r"\s*\{\s*$")
    is_within = text.rlike(r"^(?:\s|\}|$)")
    spread = F.last(F.when(has_marker, opens).when(~is_within, False), ignorenulls=True).over(
        in_order
    )
    closed = F.lag(text.rlike(r"^\}"), 1, False).over(in_order)
    begins = has_marker | ~F.coalesce(spread, F.lit(False)) | closed
    return _joined(lines.select("*", begins.alias("begins")), ("file", "key"), "\n")


def _joined(lines: DataFrame, keys: tuple[str, ...], between: str) -> DataFrame:
    """The lines from one that `begins` to the next in one row: the first one's, but for `text`."""
    order = ("block", "id", "place")
    in_order = Window.partitionBy(*keys).orderBy(*order)
    number = F.sum(F.col("begins").cast("int")).over(in_order)
    others = [name for name in lines.columns if name not in (*keys, *order, "text", "begins")]
    texts = F.transform(
        F.array_sort(F.collect_list(F.struct(*order, "text"))), lambda row: row["text"]
    )
    return (
        lines.select("*", number.alias("_number"))
        .groupBy(*keys, "_number")
        .agg(
            F.min(F.struct(*order, *others)).alias("_first"),
            F.array_join(texts, between).alias("text"),
        )
        .select(*keys, "_first.*", "text")
    )


def _entries(text: DataFrame) -> DataFrame:
    """The entries of journald's export, each in one row: its time, and its message."""
    in_order = Window.partitionBy("file").orderBy("block", "id")
    lines = text.select(
        "file",
        "block",
        "id",
        F.array().cast("array<int>").alias("place"),
        F.col("value").alias("text"),
        F.coalesce(F.lag("value").over(in_order) == "", F.lit(True)).alias("begins"),
    )
    joined = _joined(lines, ("file",), "\n").withColumnRenamed("text", "value")
    time = F.regexp_extract("value", r"(?m)^__REALTIME_TIMESTAMP=(\d{16})$", 1)
    message = F.regexp_extract("value", r"(?m)^MESSAGE=(.*)$", 1)
    text_of = F.regexp_replace(F.to_json(F.struct(message.alias("MESSAGE"))), r"^\{", "")
    record = F.concat(F.lit('{"__REALTIME_TIMESTAMP":"'), time, F.lit('",'), text_of)
    return joined.filter(F.trim("value") != "").withColumn(
        "value", F.when(time != "", record).otherwise(F.col("value"))
    )


def _documents(lines: DataFrame) -> DataFrame:
    """JSON documents that are printed over several lines, each in one row.

    Between two that hold the marker, the lines that are indented least are those between records.
    """
    text = F.col("text")
    window = Window.partitionBy("file", "key")
    in_order = window.orderBy("block", "id", "place")
    has_marker = F.contains(text, F.lit(MARKER))
    indent = F.length(F.regexp_extract(text, r"^\s*", 0))
    lines = lines.select(
        "*",
        indent.alias("_indent"),
        F.sum(F.when(has_marker, 1).otherwise(0)).over(in_order).alias("_gap"),
    ).select(
        "*",
        F.min(F.when(~has_marker & (F.trim(text) != ""), F.col("_indent")))
        .over(Window.partitionBy("file", "key", "_gap"))
        .alias("_least"),
        F.max("_gap").over(window).alias("_gaps"),
    )
    is_between = (F.col("_gap") > 0) & (F.col("_gap") < F.col("_gaps"))
    lines = lines.select(
        "*", F.max(F.when(is_between, F.col("_least"))).over(window).alias("_separate")
    )
    begins = text.rlike(r"^\s*[\[{}\]]") & (F.col("_indent") <= F.col("_separate"))
    begins = F.coalesce(begins, F.lit(False)) | ~text.rlike(rf"^\s*(?:{_STRUCTURE}|{_SCALAR})")
    kept = lines.select("*", begins.alias("begins")).drop(
        "_indent", "_gap", "_least", "_gaps", "_separate"
    )
    # What is left of JSON is what stands around records.
    is_structure = text.rlike(rf"^\s*(?:{_STRUCTURE})")
    return _joined(kept, ("file", "key"), "\n").filter(
        has_marker | text.rlike(_FIELD) | ~is_structure
    )
