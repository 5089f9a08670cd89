"""The one way out to a terminal: what comes from outside commands nothing, and hides nothing."""

import io
import sys
import unicodedata

import pytest
from rich.live import Live
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from kipctl.report.printable import on_one_line, printable
from kipctl.report.terminal import console_on, printable_stream


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("\x1b[2Jgone\x07\x9b31m\r", r"\x1b[2Jgone\x07\x9b31m\r"),
        ("\u202egnp.exe\u2066", r"\u202egnp.exe\u2066"),
        ("one\u2028two\x85three", r"one\u2028two\x85three"),
        ("pay\u200bments\xad\xa0", r"pay\u200bments\xad\xa0"),
        ("half \ud83d", r"half \ud83d"),
        ("\U000e0041", r"\U000e0041"),
        ("two\nlines\tand é 中😀 ━▁·", "two\nlines\tand é 中😀 ━▁·"),
    ],
)
def test_what_is_not_seen_is_shown_as_python_writes_it(said: str, shown: str) -> None:
    assert printable(said) == shown
    assert printable(shown) == shown
    assert on_one_line(said) == shown.replace("\n", r"\n").replace("\t", r"\t")


def test_no_character_that_is_obeyed_or_not_seen_is_left() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    kinds = {unicodedata.category(character) for character in set(printable(every)) - {"\n", "\t"}}
    assert not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert not {"\n", "\t"} & set(on_one_line(every))


EVIL = "\x1b[8m\x9b8m\u202e"


def test_a_stream_lets_no_escape_sequence_pass() -> None:
    below = io.StringIO()
    stream = printable_stream(below)
    stream.write(EVIL)
    stream.writelines([EVIL, "\n"])
    print(EVIL, file=stream)
    assert below.getvalue() == r"\x1b[8m\x9b8m\u202e" * 2 + "\n" + r"\x1b[8m\x9b8m\u202e" + "\n"
    assert printable_stream(stream) is stream


def test_what_rich_draws_has_its_own_sequences_and_no_other() -> None:
    """Whatever it is that rich draws, and whether or not it is drawn in place of another."""
    table = Table(EVIL)
    table.add_row(EVIL)
    for drawn in (EVIL, Text(EVIL, "bold"), table, Markdown(f"# {EVIL}\n\n- **{EVIL}**")):
        below = io.StringIO()
        console = console_on(
            printable_stream(below), force_terminal=True, width=80, highlight=False
        )
        console.print(drawn, style="red")
        with Live(console=console, auto_refresh=False) as live, console.status(EVIL):
            live.update(drawn, refresh=True)
            console.print(drawn)
        assert not {"\x9b", "\u202e"} & set(below.getvalue())
        assert "\x1b[8m" not in below.getvalue()
        assert below.getvalue().count(r"\x1b[") >= 3
        assert "31m" in below.getvalue(), "its own colours are lost"


def test_a_reader_that_has_gone_is_known_to_who_draws() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        console_on(Gone()).print("a line")
