"""Which product answers. What could not be run is after the products' own sources and docs."""

import pytest

from kipctl.transport.product import LIMITS, Product, limits, product_of

KAFKAS_APIS = tuple(range(93))


@pytest.mark.parametrize(
    ("cluster_id", "host", "more_apis", "product"),
    [
        ("XcOvB8WcRtqyl1nS1Fa2Sg", "kafka1.example", (), Product.KAFKA),
        ("", "10.0.0.1", (), Product.KAFKA),
        # A name that somebody gave to a cluster of Kafka's.
        ("redpanda", "lkc-1.example", (), Product.KAFKA),
        ("redpanda.be267958-279d-49cd-ae86-98fc7ed2de48", "10.0.0.1", (), Product.REDPANDA),
        ("redpanda.initializing", "10.0.0.1", (), Product.REDPANDA),
        ("XcOvB8WcRtqyl1nS1Fa2Sg", "10.0.0.1", (501, 515, 602), Product.AUTOMQ),
        (
            "XcOvB8WcRtqyl1nS1Fa2Sg",
            "b-1.mine.abc123.c2.kafka.eu-west-1.amazonaws.com",
            (),
            Product.MSK,
        ),
        (
            "XcOvB8WcRtqyl1nS1Fa2Sg",
            "boot-wb8m0ws8.c3.kafka-serverless.us-east-1.amazonaws.com.",
            (),
            Product.MSK_SERVERLESS,
        ),
        ("lkc-1a2b3", "b0-pkc-x.eu-west-1.aws.confluent.cloud", (), Product.CONFLUENT_CLOUD),
        ("lkc-1a2b3", "proxy.example", (), Product.CONFLUENT_CLOUD),
        ("other", "B0-PKC-X.eu-west-1.aws.confluent.cloud", (), Product.CONFLUENT_CLOUD),
        ("vci_1d4930d7_8e6d_4ad9_b27a_654ed4aaa3ee", "10.0.0.1", (), Product.WARPSTREAM),
        ("mine.servicebus.windows.net", "mine.servicebus.windows.net", (), Product.EVENT_HUBS),
        ("kfake", "127.0.0.1", (), Product.KFAKE),
    ],
)
def test_a_product_is_known_by_what_it_answers(
    cluster_id: str, host: str, more_apis: tuple[int, ...], product: Product
) -> None:
    assert product_of(cluster_id, ["127.0.0.1", host], (*KAFKAS_APIS, *more_apis)) is product


@pytest.mark.parametrize(
    ("product", "command", "said"),
    [
        (Product.KAFKA, "reassign", ""),
        (Product.REDPANDA, "reassign", "does not move the leader"),
        (Product.REDPANDA, "inspect hints", ""),
        (Product.AUTOMQ, "inspect hints", "zone router"),
        (Product.AUTOMQ, "inspect", ""),
        (Product.MSK_SERVERLESS, "elect preferred", "has no AlterPartitionReassignments"),
        (Product.CONFLUENT_CLOUD, "request-log on", "ALTER the cluster"),
        (Product.WARPSTREAM, "inspect leaders -o", "any agent serves any partition"),
        (Product.WARPSTREAM, "inspect leader", ""),
        (Product.WARPSTREAM, "perf produce", ""),
    ],
)
def test_what_a_command_cannot_do_there_is_said_with_its_source(
    product: Product, command: str, said: str
) -> None:
    sentences = " ".join(limits(product, command))
    assert said in sentences
    assert bool(sentences) is bool(said)


def test_every_limit_is_of_commands_that_there_are() -> None:
    from kipctl.cli.app import COMMANDS, root_command

    words = {words for several in LIMITS.values() for limit in several for words in limit.commands}
    for command in words:
        first, _, rest = command.partition(" ")
        assert first in COMMANDS
        if rest:
            assert rest in getattr(root_command().commands[first], "commands", {})
