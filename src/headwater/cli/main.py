"""The `headwater` command: collects the groups and turns errors raised on purpose into one sentence.

Only the module of the command that was asked for is imported: a short command must not wait for the lab's libraries.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

import typer

from headwater import __version__
from headwater.cli.common import command, fail, group, out
from headwater.errors import HeadwaterError

# Each module has a function `register(app)` that adds its commands.
COMMANDS = {
    "feeds": "headwater.cli.feeds",
    "read": "headwater.cli.read",
    "serve": "headwater.cli.serve",
    "demo": "headwater.cli.serve",
    "quality": "headwater.cli.quality",
    "query": "headwater.cli.query_live",
    "publish": "headwater.cli.publish",
    "deliveries": "headwater.cli.deliveries",
    "users": "headwater.cli.users",
    "export": "headwater.cli.export",
    "backup": "headwater.cli.backup",
    "restore": "headwater.cli.backup",
    "lab": "headwater.cli.lab",
    "farm": "headwater.cli.farm",
    "cluster": "headwater.cli.cluster",
    "web": "headwater.cli.serve",
    "controller": "headwater.cli.roles",
    "terminal": "headwater.cli.roles",
    "storer": "headwater.cli.roles",
    "processor": "headwater.cli.roles",
    "publisher": "headwater.cli.roles",
}


def build(arguments: Sequence[str] = ()) -> typer.Typer:
    """The application for these arguments; with all commands where none of them is named."""
    app = group("Headwater watches many web feeds under a budget and loses as few items as possible.")
    asked = next((word for word in arguments if word in COMMANDS or word == "version"), None)
    command(app)(version)
    if asked == "version":
        return app
    for module in dict.fromkeys(COMMANDS.values() if asked is None else [COMMANDS[asked]]):
        import_module(module).register(app)
    return app


def version() -> None:
    """Print the version."""
    out.print(__version__)


def main() -> None:
    try:
        build(sys.argv[1:])()
    except HeadwaterError as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail("Stopped.", 130)
