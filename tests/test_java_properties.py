"""Properties files, as java.util.Properties reads and writes them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kipctl.errors import UsageError
from kipctl.java_properties import parse, read, text


@pytest.mark.parametrize(
    ("written", "properties"),
    [
        ("# a comment\n! another\n\nacks=1\n linger.ms = 5 \n", {"acks": "1", "linger.ms": "5 "}),
        ("client.id=a=b\r\nb:c\rd e f", {"client.id": "a=b", "b": "c", "d": "e f"}),
        ("long = one, \\\n    two\\\n\\\n three\nnext=1", {"long": "one, twothree", "next": "1"}),
        ("path=C:\\\\x\nname=\\u00e9\\ud83d\\ude00\ntabs=\\t\\n", {
            "path": "C:\\x", "name": "é😀", "tabs": "\t\n"}),
        ("a\\ b=1\na\\=b=2\nbare\nempty=", {"a b": "1", "a=b": "2", "bare": "", "empty": ""}),
        ("odd=\\q\nends\\\\=x\\\\\n", {"odd": "q", "ends\\": "x\\"}),
        ("a=1\n#b=2\\\nc=3", {"a": "1", "c": "3"}),
        ("last=\\", {"last": ""}),
    ],
)  # fmt: skip
def test_what_java_reads(written: str, properties: dict[str, str]) -> None:
    assert parse(written) == properties


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("application.yml", "acks: all"),
        ("application.yaml", ""),
        ("config", "spring:\n  kafka:\n    security:\n      protocol: SSL\n"),
        ("values", "brokers:\n# these\n- a:1\n"),
    ],
)
def test_yaml_is_told_from_properties(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UsageError, match="is YAML, and kipctl reads Java's properties"):
        read(tmp_path / name)
    (tmp_path / "client.properties").write_text("acks: all\nempty:\n# spring:\nb=1\n")
    assert read(tmp_path / "client.properties") == {"acks": "all", "empty": "", "b": "1"}


@pytest.mark.parametrize(
    ("properties", "written"),
    [
        ({"acks": "all"}, "acks=all\n"),
        ({"sasl.jaas.config": 'a required b="c";'}, 'sasl.jaas.config=a\\ required\\ b\\="c";\n'),
        ({"path": r"C:\x"}, "path=C\\:\\\\x\n"),
        ({"lines": "a\nb"}, "lines=a\\nb\n"),
        ({"name": "é😀"}, "name=\\u00e9\\ud83d\\ude00\n"),
        ({" a b": " "}, "\\ a\\ b=\\ \n"),
    ],
)
def test_what_is_written_for_java(properties: dict[str, str], written: str) -> None:
    assert text(properties) == written


@given(
    st.dictionaries(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
)
def test_what_is_written_is_read_as_it_was(properties: dict[str, str]) -> None:
    written = text(properties)
    assert written.isascii()
    assert parse(written) == properties


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read(path)
    path.write_text("name=\\u12")
    with pytest.raises(UsageError, match="four hexadecimal digits"):
        read(path)
    path.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="cannot be read"):
        read(path)
