"""What comes from a broker or a client does not command the terminal."""

from io import StringIO

import pytest

from kipctl.cli.environment import Environment
from kipctl.report.formats import OutputFormat, write
from kipctl.report.printable import printable
from kipctl.report.tables import Report, Table

EVIL = "\x1b[2Jgone\x07\x9b31m\r"
SHOWN = r"\x1b[2Jgone\x07\x9b31m\x0d"


@pytest.mark.parametrize(
    ("text", "shown"), [(EVIL, SHOWN), ("two\nlines\tand é 中😀", "two\nlines\tand é 中😀")]
)
def test_control_characters_are_shown(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize("output", [OutputFormat.PLAIN, OutputFormat.TABLE, OutputFormat.JSON])
def test_no_report_sends_them_to_a_terminal(output: OutputFormat) -> None:
    table = Table(EVIL, ("who",), ((EVIL,),), (EVIL,))
    stream = StringIO()
    write(Report("x", {"who": EVIL}, (table,), (EVIL,)), output, stream, is_terminal=False)
    assert not set(stream.getvalue()) & set("\x1b\x07\x9b\r")


def test_no_message_sends_them_either() -> None:
    stderr = StringIO()
    Environment(stderr=stderr).message(f"Broker said: {EVIL}")
    assert stderr.getvalue() == f"Broker said: {SHOWN}\n"
