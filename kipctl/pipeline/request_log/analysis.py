"""What a request log says of a fleet: the tables that its document is made of."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kipctl.documents.analysis import RequestLogAnalysis
from kipctl.errors import UsageError
from kipctl.pipeline.analysis import Make, collected
from kipctl.pipeline.checkpoint import checkpointed
from kipctl.pipeline.clients import (
    SOFTWARE,
    api_counts,
    client_counts,
    error_counts,
    metadata_counts,
    read_counts,
)
from kipctl.pipeline.columns import columns_of
from kipctl.pipeline.keys import LOG_KEYS
from kipctl.pipeline.redirect_episodes import episodes
from kipctl.pipeline.request_lines.times import BY_KEYS
from kipctl.pipeline.request_log.behaviours import (
    behaviour_counts,
    with_clocks,
    with_coverage,
    with_namesakes,
    with_software,
)
from kipctl.pipeline.request_log.clocks import clock_differences
from kipctl.pipeline.request_log.document import document_of
from kipctl.pipeline.request_log.findings import episode_facts, metadata_facts
from kipctl.pipeline.request_log.log import RequestLog
from kipctl.pipeline.request_log.metadata import metadata_requests
from kipctl.pipeline.request_log.redirected import attempts
from kipctl.pipeline.request_log.saved import saved_answers
from kipctl.pipeline.request_log.summary import has_leader_error
from kipctl.pipeline.request_log.took import took
from kipctl.pipeline.request_log.traffic import (
    deprecated_counts,
    principal_counts,
    talker_counts,
)
from kipctl.pipeline.saving import save, written

ROWS_SHOWN = 1000
"""Of each cluster so many clients, software and rows of other tables that grow with the fleet are
named: those of the most requests, or bytes."""
FACTS_READ = 20_000
"""Of each cluster: of a few hundred counts each, those of the most frequent."""
_COLUMNS_OF = {"client_id": ("client",), "software": SOFTWARE}


@dataclass(frozen=True, slots=True)
class LogQuestion:
    """What `apis` is to be broken down by besides (of LOG_KEYS), and what a GB (10^9 bytes) across
    racks costs. Raises UsageError for what they lack."""

    by: tuple[str, ...] = ()
    price_per_gb: float | None = None

    def __post_init__(self) -> None:
        if unknown := [name for name in self.by if name not in LOG_KEYS]:
            raise UsageError(
                f"--by {', '.join(unknown)}: there is no table by that.",
                f"Known: {', '.join(LOG_KEYS)}.",
            )

    @property
    def keys(self) -> list[str]:
        """The columns that `by` stands for."""
        return columns_of(self.by, _COLUMNS_OF)


def analyse(
    log: RequestLog, question: LogQuestion = LogQuestion(), save_to: str | None = None
) -> RequestLogAnalysis:
    """The document of `analyze request-log --output json`; docs/request-log.md describes it.

    With `save_to`, which `saving.make_new` has made, its tables are written there, each as a folder
    of Parquet; `clients` and `apis` whole.

    Every list has one order: it does not depend on how Spark divided the work.
    """
    spark = log.rows.sparkSession
    whole = {
        "clients": client_counts(log.calls).filter("is_client").drop("is_client"),
        "apis": api_counts(log.calls, "cluster", *question.keys).drop("first_us", "last_us"),
    }
    answers = collected(_tables(log, whole["apis"]))
    rows = {name: answer.rows for name, answer in answers.items()}
    document = document_of(log, rows, question.price_per_gb)
    if save_to:
        save(spark, saved_answers(document), save_to)
        for name, table in whole.items():
            written(table, f"{save_to.rstrip('/')}/{name}")
    return document


def _tables(log: RequestLog, apis: DataFrame) -> dict[str, Make]:
    """How the tables are made; of those that grow with the fleet, what has the most requests."""
    by_most = F.col("requests").desc()
    of_software = ("cluster", *SOFTWARE, "origin")
    # Three tables come of it, and it is several windows over each other.
    metadata = metadata_requests(log.calls).transform(checkpointed)
    principals, deprecated = principal_counts(log.calls), deprecated_counts(log.calls)
    tables: dict[str, Make] = {
        "took": lambda: _first(took(log), ROWS_SHOWN, ["cluster", "by"], [by_most, *BY_KEYS]),
        "usage": lambda: api_counts(log.calls, *of_software),
        "apis": lambda: _first(apis, ROWS_SHOWN, ["cluster"], [by_most, *apis.columns]),
        "clients": lambda: _first(
            client_counts(log.calls),
            ROWS_SHOWN,
            ["cluster", "is_client"],
            [by_most, *of_software, "client"],
        ),
        "errors": lambda: error_counts(log.calls),
        "storms": lambda: _first_facts(metadata_facts(metadata)),
        "metadata": lambda: _first(
            metadata_counts(metadata),
            ROWS_SHOWN,
            ["cluster", "is_client"],
            [by_most, *SOFTWARE, "cause", "client", "host"],
        ),
        "principals": lambda: _first(
            principals, ROWS_SHOWN, ["cluster"], [by_most, *principals.columns]
        ),
        "talkers": lambda: _first(
            talker_counts(log.calls),
            ROWS_SHOWN,
            ["cluster", "is_client"],
            [F.col("bytes").desc(), *SOFTWARE, "client", "rack"],
        ),
        "deprecated": lambda: _first(
            deprecated, ROWS_SHOWN, ["cluster"], [by_most, *deprecated.columns]
        ),
        "reads": lambda: read_counts(
            log.calls.filter((F.col("origin") == "client") & F.col("rack").isNotNull())
        ),
    }
    if log.refused_slots:
        tried = attempts(log).transform(checkpointed)
        clocks = clock_differences(tried).transform(checkpointed)
        judged = _judged(log, tried).transform(checkpointed).transform(with_clocks, clocks)
        tables["behaviours"] = lambda: _first(
            behaviour_counts(judged),
            ROWS_SHOWN,
            ["cluster", F.col("client").isNull()],
            [F.col("errors").desc(), *SOFTWARE, "client"],
        )
        tables["facts"] = lambda: _first_facts(episode_facts(judged, metadata, log))
        tables["clocks"] = lambda: clocks
    return tables


def _first_facts(facts: DataFrame) -> DataFrame:
    """Those of all clients together, and of those of single clients the most frequent."""
    keys: list[Column | str] = ["cluster", F.col("client").isNull()]
    return _first(facts, FACTS_READ, keys, [F.col("times").desc(), *SOFTWARE, "client"])


def _first(
    table: DataFrame, rows: int, keys: Sequence[Column | str], order: Sequence[Column | str]
) -> DataFrame:
    """So many rows of each group, by the order. Spark ranks them where they are, before it moves
    any (`WindowGroupLimit`)."""
    turn = F.row_number().over(Window.partitionBy(*keys).orderBy(*order))
    return table.withColumn("_turn", turn).filter(F.col("_turn") <= rows).drop("_turn")


def _judged(log: RequestLog, tried: DataFrame) -> DataFrame:
    """The episodes, with all that is to be known to count them, but clocks."""
    return (
        episodes(tried)
        .transform(with_software, _owners(log))
        .transform(with_namesakes, tried)
        .transform(with_coverage, log)
    )


def _owners(log: RequestLog) -> DataFrame:
    """`cluster`, `connection` and the software of connections on which clients met leader errors.

    A client id may be of two versions, one after the other: of a connection there is one.
    """
    refused = log.calls.filter(has_leader_error()).filter(F.col("origin") == "client")
    return refused.select("cluster", "connection", *SOFTWARE).distinct()
