"""951-1: a hint is followed at once."""

from kipctl.conform.rules.hints import Moved


class Follow(Moved):
    """Broker 1 has given its replica away: it refuses with a newer leader and its endpoint."""

    id = "951-1"
    title = "a newer leader that is named is asked at once"
    says = (
        "A batch that was refused with a leader that advances the client's view is retried there"
        " without waiting out retry.backoff.ms, and without waiting for Metadata."
    )
    why = "Each moved leader costs a backoff (100 ms), or as long as Metadata is stale."
