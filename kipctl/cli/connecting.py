"""Options that say how to connect, the same wherever there is a --bootstrap-server."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from kipctl.cli.environment import Environment
from kipctl.cli.help import commands

_FROM = "bootstrap_server"
"""The parameter of commands that connect."""


def _options(
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="CLUSTER",
            help="One of clusters.toml. Default: KIPCTL_CLUSTER.",
        ),
    ] = None,
    command_config: Annotated[
        str | None,
        typer.Option(
            "--command-config",
            metavar="FILE",
            help="Java's properties for TLS and SASL. Default: KIPCTL_COMMAND_CONFIG.",
        ),
    ] = None,
    expect_cluster: Annotated[
        str | None,
        typer.Option("--expect-cluster", metavar="ID", help="Refuse a cluster of another id."),
    ] = None,
    map: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="HOST:PORT=HOST:PORT",
            help="Reach a broker there, as by a tunnel; repeatable. * is any text, or its port.",
        ),
    ] = None,
) -> None:
    """Only for its options."""


def with_connecting_options(root: TyperGroup) -> TyperGroup:
    """Give the options to every command below that connects, beside its own."""
    app = typer.Typer(add_completion=False)
    app.command()(_options)
    options = typer.main.get_command(app).params
    for option in options:
        option.expose_value = False
        option.callback = _keep
    for _, command in commands(root):
        names = [parameter.name for parameter in command.params]
        if _FROM in names:
            at = names.index(_FROM) + 1
            command.params[at:at] = [option for option in options if option.name not in names]
    return root


def _keep(context: Any, parameter: Any, value: Any) -> None:
    """Note what an option says, for `Environment.access`."""
    context.ensure_object(Environment).connecting[parameter.name] = value
