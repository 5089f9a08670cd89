"""`kipctl experiment`: what the KIPs claim, and how to move leaders, measured on real brokers."""

import typer

from kipctl.cli.experiment_batch import batch
from kipctl.cli.experiment_closest_replica import closest_replica
from kipctl.cli.experiment_metadata import metadata
from kipctl.cli.experiment_redirect import redirect
from kipctl.cli.experiment_roll import roll
from kipctl.cli.experiment_run import run

app = typer.Typer(
    name="experiment", help="Reproduce what the KIPs claim, for any client.", no_args_is_help=True
)
app.command()(redirect)
app.command()(roll)
app.command()(closest_replica)
app.command()(metadata)
app.command()(batch)
app.command()(run)
