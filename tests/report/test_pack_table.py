"""What `kipctl request-log pack` prints."""

import pytest

from kipctl.documents.analysis import PackDocument
from kipctl.report.pack_table import pack_report

DOCUMENT: PackDocument = {
    "pack": "/packed",
    "files_in_pack": 5,
    "files_packed": 1,
    "files_unchanged": 1,
    "files_renamed": 2,
    "lines_packed": 845,
    "bytes_read": 82_696,
    "slice_seconds": 5.0,
}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (DOCUMENT, "1 file of 82.7 kB (845 lines) packed into /packed."),
        ({**DOCUMENT, "files_packed": 0}, "Nothing new to pack into /packed."),
    ],
)
def test_what_was_packed_and_what_to_do_next(document: PackDocument, said: str) -> None:
    report = pack_report(document)
    assert [str(paragraph.first) for paragraph in report.opening] == [
        said,
        "Analyse it: kipctl analyze request-log /packed",
    ]
    [table] = report.tables
    assert table.rows == ((document["files_packed"], 1, 2, 5),)
