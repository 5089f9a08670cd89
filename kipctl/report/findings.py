"""Findings of clients in words, from the documents of the tap and of request logs."""

from kipctl.documents.common import ClientFinding


def known_in_words(finding: ClientFinding) -> str:
    """Where it is known of the client's version, and what mends it; "-" where it is only seen."""
    known = finding["known"]
    if known is None:
        return "-"
    mended = f"mended in {known['mended_in']}" if known["mended_in"] else "not mended yet"
    return f"{known['source']}, {mended}"
