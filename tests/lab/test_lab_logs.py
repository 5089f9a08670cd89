"""Reading the nodes' logs: the last error, the last lines, new lines."""

from pathlib import Path

import pytest

from kipctl.lab.logs import follow, last_error, tail

FATAL = """\
[2026-11-20 20:38:25,053] INFO starting (kafka.server.KafkaRaftServer)
[2026-11-20 20:38:25,100] ERROR Exiting Kafka due to fatal exception (kafka.Kafka$)
java.lang.RuntimeException: wrapped
\tat kafka.Kafka.main(Kafka.scala:1)
Caused by: org.apache.kafka.common.config.ConfigException: Invalid value -3
\tat kafka.server.KafkaConfig.<init>(KafkaConfig.scala:1)
"""


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", None),
        ("[2026-11-20 20:38:25,053] INFO fine (a.B)\n", None),
        (
            "[2026-11-20 20:38:25,053] ERROR one (a.B)\n"
            "[2026-11-20 20:38:26,053] FATAL two (a.C)\n",
            "two",
        ),
        (
            FATAL,
            "Exiting Kafka due to fatal exception: "
            "org.apache.kafka.common.config.ConfigException: Invalid value -3",
        ),
        # An exception that was only warned of, after the error, is not its cause.
        (
            "[2026-11-20 20:38:25,053] ERROR disk full (a.B)\n"
            "[2026-11-20 20:38:26,053] WARN retrying (a.B)\njava.io.IOException: later\n",
            "disk full",
        ),
        (
            "Error: Could not create the Java Virtual Machine.\n",
            "Error: Could not create the Java Virtual Machine.",
        ),
        ("Unrecognized VM option 'Foo'\nError: Could not", "Unrecognized VM option 'Foo'"),
    ],
)
def test_last_error(text: str, error: str | None) -> None:
    assert last_error(text) == error


def test_tail(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    assert tail(log, 2) == []
    log.write_text("one\ntwo\nthree\n")
    assert tail(log, 2) == ["two", "three"]
    assert tail(log, 0) == []


def test_follow_goes_on_with_whole_new_lines_also_after_the_file_was_rolled(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("an old line\nand a long one before the last\nthe last\n")
    lines = follow([log], lines=1, interval_s=0.001)
    assert next(lines) == (log, "the last")
    with log.open("a") as appended:
        appended.write("whole\nhalf of a")
    assert next(lines) == (log, "whole")
    with log.open("a") as appended:
        appended.write(" line\n")
    assert next(lines) == (log, "half of a line")
    log.write_text("rolled\n")
    assert next(lines) == (log, "rolled")


def test_follow_waits_for_a_log_that_is_not_there_yet(tmp_path: Path) -> None:
    log, other = tmp_path / "server.log", tmp_path / "other.log"
    other.write_text("here\n")
    lines = follow([log, other], lines=5, interval_s=0.001)
    assert next(lines) == (other, "here")
    log.write_text("first\n")
    assert next(lines) == (log, "first")
