"""By what `--by` breaks tables down: without Spark, as help and shells name them too."""

RUN_KEYS = (
    "run", "arm", "client", "topic", "partition", "broker", "window", "action", "brokers",
)  # fmt: skip
"""Of recorded runs: a table is by those that it has."""
LOG_KEYS = ("broker", "client_id", "software", "origin")
"""Of requests by API in a request log."""
