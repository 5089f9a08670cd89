"""`kipctl` alone: what it says of each state of the world, by table."""

import pytest

from kipctl.cli.overview import Health, Overview, next_commands, sentences

WELL = Health(3, 2, 24, 0, 0, 0, 0)
UNWELL = Health(3, 2, 24, 1, 4, 5, 6)


@pytest.mark.parametrize(
    ("seen", "said", "first"),
    [
        (Overview("", "No lab runs.", None, ""), ["No lab runs."], "kipctl demo"),
        (
            Overview("a:1", "Nobody answers.", None, ""),
            ["Cluster a:1: Nobody answers."],
            "kipctl clusters test --help",
        ),
        (
            Overview("a:1", "", WELL, "before"),
            [
                "Cluster a:1: 3 brokers, 2 topics, 24 partitions.",
                "Every partition is as it should be.",
                "Last recorded run: before.",
            ],
            "kipctl inspect brokers",
        ),
        (
            Overview("a:1", "", UNWELL, ""),
            [
                "Cluster a:1: 3 brokers, 2 topics, 24 partitions.",
                "Of them 1 have no leader, 4 are under-replicated, 6 are being reassigned, 5 are"
                " not led by their preferred replica.",
            ],
            "kipctl inspect brokers",
        ),
        (
            Overview("a:1", "", Health(3, 2, 24, 0, 0, 5, None), ""),
            [
                "Cluster a:1: 3 brokers, 2 topics, 24 partitions.",
                "Of them 5 are not led by their preferred replica.",
            ],
            "kipctl elect preferred --all --dry-run",
        ),
    ],
)
def test_a_state_and_what_to_type_next(seen: Overview, said: list[str], first: str) -> None:
    assert list(sentences(seen)) == said
    commands = [command for command, _ in next_commands(seen)]
    assert commands[0] == first
    assert len(set(commands)) == len(commands) <= 3


def test_the_last_run_is_among_what_to_type_next() -> None:
    commands = [command for command, _ in next_commands(Overview("a:1", "", WELL, "before"))]
    assert "kipctl runs show before" in commands
