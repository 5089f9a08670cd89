"""Options that say how to connect, the same wherever there is a --bootstrap-server."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from kipctl.cli.environment import Environment
from kipctl.cli.grouped import grouped
from kipctl.cli.help import commands
from kipctl.cli.options import option

_FROM = "bootstrap_server"
"""The parameter of commands that connect."""


def _options(
    cluster: Annotated[
        str | None,
        option("Of clusters.toml, or a running lab. Default: KIPCTL_CLUSTER.", value="CLUSTER|LAB"),
    ] = None,
    command_config: Annotated[
        str | None,
        option("Java's properties for TLS and SASL. Default: KIPCTL_COMMAND_CONFIG.", value="FILE"),
    ] = None,
    expect_cluster: Annotated[
        str | None, option("Refuse a cluster of another id.", value="ID")
    ] = None,
    map: Annotated[
        list[str] | None,
        option(
            "Reach a broker there, as by a tunnel; repeatable. * is any text, or its port.",
            value="HOST:PORT=HOST:PORT",
        ),
    ] = None,
) -> None:
    """Only for its options."""


def with_connecting_options(root: TyperGroup) -> TyperGroup:
    """Give the options to every command below that connects, beside its own."""
    app = typer.Typer(add_completion=False)
    app.command()(grouped(_options))
    options = typer.main.get_command(app).params
    for parameter in options:
        parameter.expose_value = False
        parameter.callback = _keep
    for _, command in commands(root):
        names = [parameter.name for parameter in command.params]
        if _FROM in names:
            at = names.index(_FROM) + 1
            command.params[at:at] = [option for option in options if option.name not in names]
    return root


def _keep(context: Any, parameter: Any, value: Any) -> None:
    """Note what an option says, for `Environment.access`."""
    context.ensure_object(Environment).connecting[parameter.name] = value
