"""A page is believed only where it shows what was printed: each kind of lie is caught."""

import pytest
from blocks import Command, PageError, commands, remeasured, shown

PAGE = """
```
kipctl not run
```

```console
$ kipctl inspect leaders
Broker  Leaders

     1        2
$ kipctl perf produce \\
    --during rotate
$ echo $?
0
```
"""

TABLE = ["2 brokers lead 5 partitions.", "", "Brokers", "Broker  Rack    Leaders", "     1  a", "x"]


def test_the_commands_of_a_page() -> None:
    assert commands(PAGE) == [
        Command(7, "kipctl inspect leaders", ("Broker  Leaders", "", "     1        2")),
        Command(11, "kipctl perf produce --during rotate", ()),
        Command(13, "echo $?", ("0",)),
    ]


def test_output_of_no_command() -> None:
    with pytest.raises(PageError, match="begins with a command"):
        commands("```console\nBroker\n```")


@pytest.mark.parametrize(
    "said",
    [
        TABLE,
        ["..."],
        [*TABLE[:2], "..."],
        ["...", *TABLE[-2:]],
        ["...", "Brokers", "...", "x"],
        ["2 brokers lead 5 partitions.", "...", "     1        a", "..."],
        ["...", "2 brokers lead 5 partitions.", "..."],
    ],
)
def test_the_truth(said: list[str]) -> None:
    shown(TABLE, said)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param([], id="nothing is shown"),
        pytest.param(TABLE[:-1], id="the end is missing"),
        pytest.param(TABLE[2:], id="the beginning is missing"),
        pytest.param([*TABLE[:3], *TABLE[4:]], id="a line is missing"),
        pytest.param([*TABLE, "y"], id="a line too many"),
        pytest.param(["...", "Nodes", "..."], id="another heading"),
        pytest.param(["...", "Broker  Leaders", "..."], id="a column is missing"),
        pytest.param(["...", "Broker Rack  Leaders", "..."], id="two columns are one"),
        pytest.param(["...", "Broker  Rack  Leaders  In", "..."], id="a column too many"),
        pytest.param(["3 brokers lead 5 partitions.", "..."], id="another count"),
        pytest.param(["2 brokers have 5 partitions.", "..."], id="another word"),
        pytest.param(["...", "x", "...", "Brokers", "..."], id="another order"),
        pytest.param(["...", "x", "...", "x"], id="said twice, printed once"),
        pytest.param(["...", "Brokers", "x"], id="lines between that are not left out"),
    ],
)
def test_a_lie(said: list[str]) -> None:
    with pytest.raises(PageError):
        shown(TABLE, said)


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("every broker knew 31 ms after", "every broker knew 193 ms after"),
        ("0.20 GB at 10.0 MB/s, 12 s", "3.11 GB at 2.5 MB/s, 1 s"),
        ("at 127.0.0.1:3101  yes", "at 127.0.0.1:9092  yes"),
        ("kipctl undo 20261123T224031.101661Z", "kipctl undo 20260101T000000.000000Z"),
        (
            "(saved in /var/lib/kipctl/journal/5L6g3nShT-eMCtK--X86sw/a.json)",
            "(saved in .../a.json)",
        ),
        ("made 3 seconds ago by root@vm", "made less than a minute ago by me@host.example"),
        ("at 2026-11-24 05:49:20", "at 2025-01-01 00:00:00"),
        ("cluster 5L6g3nShT-eMCtK--X86sw", "cluster 4L6g3nShT-eMCtK--X86sx"),
        ("took 0.8 of 12 leaders", "took 1.9 of 12 leaders"),
        ("librdkafka  follows  -", "librdkafka   waits   -"),
        ("undo: --entry abc (there)", "undo: --entry ... (there)"),
    ],
)
def test_what_differs_from_run_to_run(printed: str, said: str) -> None:
    shown([printed], [said])


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("every broker knew 31 ms after", "every broker knew 31 s after"),
        ("took 1.9 of 12 leaders", "took 1.9 of 13 leaders"),
        ("broker 1 of rack-1", "broker 1 of rack-2"),
        ("topic orders-1", "topic orders-2"),
        ("1.5", "1.5  2.5"),
        ("librdkafka  ignores  -", "librdkafka  waits  -"),
        ("it waits for a broker", "it follows for a broker"),
        ("(saved in /var/a.json)", "(saved in .../b.json)"),
        ("undo: --entry abc (there)", "undo: --entry ... (here)"),
        ("KIP-951", "KIP-392"),
    ],
)
def test_what_does_not(printed: str, said: str) -> None:
    with pytest.raises(PageError):
        shown([printed], [said])


def test_numbers_of_a_measuring_command_are_shapes() -> None:
    shown(["63 of 500 were met: p99 1.2 ms"], ["1,204 of 2 were met: p99 85 ms"], measured=True)
    for lie in ("63 of 500 were seen: p99 1.2 ms", "63 of 500 were met: p50 1.2 ms", "63 of many"):
        with pytest.raises(PageError):
            shown(["63 of 500 were met: p99 1.2 ms"], [lie], measured=True)


@pytest.mark.parametrize(
    ("typed", "is_so"),
    [
        ("kipctl perf produce", True),
        ("kipctl runs compare a b", True),
        ("kipctl reassign --rotate", False),
        ("kipctl inspect brokers", False),
        ("kipctl roll --dry-run", False),
        ("kill %1; wait", True),
        ("echo $?", False),
    ],
)
def test_which_commands_measure(typed: str, is_so: bool) -> None:
    assert Command(1, typed, ()).is_measuring is is_so


def test_a_page_gets_the_figures_of_a_new_run_and_keeps_what_it_leaves_out() -> None:
    page = (
        "# A page\n\n  ```console\n  $ kipctl perf produce\n  Moved leaders: 5 of 9, p99 85 ms.\n"
        "  ...\n  saved in .../1 with 5 lines\n  name  p50 ms\n  a        1.5\n  ```\n9 in all.\n"
    )
    (command,) = commands(page)
    printed = [
        "Moved leaders: 7 of 9, p99 1.2 ms.",
        "and more",
        "saved in /tmp/1 with 7 lines",
        "name  p50 ms",
        "a       10.5",
    ]
    again = remeasured(page, command, shown(printed, command.shown, measured=True))
    assert again == page.replace("5 of 9, p99 85", "7 of 9, p99 1.2").replace("  1.5", " 10.5")
    assert remeasured(page, Command(4, "kipctl inspect brokers", command.shown), []) == page
