"""Options that several commands share, written once."""

from typing import Annotated

import typer

from kipctl.report.formats import OutputFormat

BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        metavar="HOST:PORT,...",
        help="Brokers to ask first. Default: KIPCTL_BOOTSTRAP_SERVER, else the running lab.",
    ),
]
OutputOption = Annotated[
    OutputFormat,
    typer.Option("--output", "-o", help="auto is table on a terminal and plain elsewhere."),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before changing things.")]
MasterOption = Annotated[
    str,
    typer.Option(
        "--master", metavar="URL", help="Where Spark runs: local[N], spark://HOST:PORT, yarn, ..."
    ),
]
