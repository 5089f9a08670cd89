"""`kipctl experiment`: what the KIPs claim, and how to move leaders, measured on real brokers."""

from kipctl.cli.commands.experiment_batch import batch
from kipctl.cli.commands.experiment_closest_replica import closest_replica
from kipctl.cli.commands.experiment_metadata import metadata
from kipctl.cli.commands.experiment_redirect import redirect
from kipctl.cli.commands.experiment_roll import roll
from kipctl.cli.commands.experiment_run import run
from kipctl.cli.grouped import Commands

app = Commands()
app.add(redirect, roll, closest_replica, metadata, batch, run)
