"""Options of `kipctl inspect replica-selection`."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from kipctl.cli.combinations import combined
from kipctl.cli.options import duration_option, finite
from kipctl.durations import Duration


class StockClient(StrEnum):
    """A client that may be let read."""

    LIBRDKAFKA = "librdkafka"


_SUMMED = ("--rate-over", "--price-per-gb", "--require-local", "--client")


@combined(
    exclusive=(
        ("--explain", "--watch"),
        ("--explain", "--topic"),
        *(("--explain", option) for option in _SUMMED),
        *(("--watch", option) for option in _SUMMED),
    ),
    needs={"--for": "--watch", "--price-per-gb": "--rate-over"},
)
@dataclass(frozen=True)
class SelectionOptions:
    """Of whom it is asked, and what of it is shown."""

    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", metavar="TOPIC", help="A topic, a glob or TOPIC:PARTITION; repeatable."
        ),
    ] = None
    client_rack: Annotated[
        list[str] | None,
        typer.Option(
            "--client-rack", metavar="RACK", help="The reader's rack; repeatable. Default: each."
        ),
    ] = None
    explain: Annotated[
        str | None,
        typer.Option(
            "--explain", metavar="TOPIC:PARTITION", help="Walk one choice through rule by rule."
        ),
    ] = None
    watch: Annotated[
        bool, typer.Option("--watch", help="Tell each change as it happens, until Ctrl-C.")
    ] = False
    period: Annotated[Duration | None, duration_option("--for", "End --watch after so long.")] = (
        None
    )
    rate_over: Annotated[
        Duration | None, duration_option("--rate-over", "Measure for so long how much is written.")
    ] = None
    price_per_gb: Annotated[
        float | None,
        typer.Option(
            "--price-per-gb",
            min=0,
            callback=finite,
            help="Of bytes across racks; needs --rate-over.",
        ),
    ] = None
    require_local: Annotated[
        str | None,
        typer.Option(
            "--require-local",
            metavar="PERCENT",
            help="Fail when a rack serves fewer of the partitions to its readers: 95%.",
        ),
    ] = None
    client: Annotated[
        StockClient | None,
        typer.Option("--client", help="Also let this client read a few records, and watch it."),
    ] = None
