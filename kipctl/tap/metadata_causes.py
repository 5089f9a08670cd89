"""Why a client sent a Metadata request, as far as the wire shows it (KIP-526)."""

from collections.abc import Collection

from kipctl.trace.codes import MetadataCause


def cause_of(
    asked: Collection[str] | None,
    is_first: bool,
    shown: Collection[str],
    leader_error: bool,
    trouble: bool,
) -> MetadataCause:
    """The cause of a request for those topics (None: for all of them).

    `shown` are the topics that answers have shown this client; since its last request a broker
    told it of a `leader_error`, or there was `trouble`: a connection was lost, or the last
    answer had an error. A client does not say why it asks. A request for a topic never shown
    is for a new one; one for some of the topics shown, without any error, for those that the
    client has dropped and needs again; what is left is the age of what the client knows.
    """
    if is_first:
        return MetadataCause.START
    if asked is not None and any(topic not in shown for topic in asked):
        return MetadataCause.NEW_TOPIC
    if leader_error:
        return MetadataCause.LEADER_CHANGE
    if trouble:
        return MetadataCause.ERROR_RETRY
    if asked and len(asked) < len(shown):
        return MetadataCause.IDLE_EVICTION
    return MetadataCause.MAX_AGE
