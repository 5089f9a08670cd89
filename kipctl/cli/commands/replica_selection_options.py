"""Options of `kipctl inspect replica-selection`."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from kipctl.cli.combinations import combined
from kipctl.cli.options import duration_option, finite, option
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
        list[str] | None, option("A topic, a glob or TOPIC:PARTITION; repeatable.", value="TOPIC")
    ] = None
    client_rack: Annotated[
        list[str] | None, option("The reader's rack; repeatable. Default: each.", value="RACK")
    ] = None
    explain: Annotated[
        str | None, option("Walk one choice through rule by rule.", value="TOPIC:PARTITION")
    ] = None
    watch: Annotated[bool, option("Tell each change as it happens, until Ctrl-C.")] = False
    period: Annotated[Duration | None, duration_option("--for", "End --watch after so long.")] = (
        None
    )
    rate_over: Annotated[
        Duration | None, duration_option("Measure for so long how much is written.")
    ] = None
    price_per_gb: Annotated[
        float | None, option("Of bytes across racks; needs --rate-over.", min=0, callback=finite)
    ] = None
    require_local: Annotated[
        str | None,
        option(
            "Fail when a rack serves fewer of the partitions to its readers: 95%.", value="PERCENT"
        ),
    ] = None
    client: Annotated[
        StockClient | None, option("Also let this client read a few records, and watch it.")
    ] = None
