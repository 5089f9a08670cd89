"""What `kipctl request-log pack` prints."""

from kipctl.counts import counted, format_bytes
from kipctl.documents.analysis import PackDocument
from kipctl.next_step import Command
from kipctl.report.tables import Report, paragraphs, table_of


def pack_report(document: PackDocument) -> Report:
    """What was packed, and the command that analyses it."""
    packed, where = document["files_packed"], document["pack"]
    said = (
        f"{counted(packed, 'file')} of {format_bytes(document['bytes_read'])}"
        f" ({counted(document['lines_packed'], 'line')}) packed into {where}."
        if packed
        else f"Nothing new to pack into {where}."
    )
    table = table_of(
        "Files",
        (document,),
        {
            "packed now": "files_packed",
            "as they were": "files_unchanged",
            "renamed": "files_renamed",
            "in the pack": "files_in_pack",
        },
        name="files",
    )
    opening = paragraphs(said, "Analyse it: " + Command("analyze request-log", where))
    return Report("request-log pack", document, (table,), opening=opening)
