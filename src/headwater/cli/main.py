"""The `headwater` command: collects the groups and turns errors raised on purpose into one sentence.

Only the module of the command that was asked for is imported: a short command must not wait for the lab's libraries.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module

import typer

from headwater import __version__
from headwater.cli.console.command import EXIT_STOPPED, add_command, fail, make_group, out, print_json, wants_json
from headwater.errors import HeadwaterError

# Each module has a function `register(app)` that adds its commands.
COMMANDS = {
    "feeds": "headwater.cli.commands.feeds",
    "read": "headwater.cli.commands.read",
    "serve": "headwater.cli.commands.serve",
    "demo": "headwater.cli.commands.serve",
    "quality": "headwater.cli.commands.quality",
    "query": "headwater.cli.commands.queries",
    "publish": "headwater.cli.commands.publish",
    "deliveries": "headwater.cli.commands.deliveries",
    "users": "headwater.cli.commands.users",
    "removed": "headwater.cli.commands.trash",
    "export": "headwater.cli.commands.export",
    "backup": "headwater.cli.commands.database",
    "restore": "headwater.cli.commands.database",
    "lab": "headwater.cli.commands.lab",
    "farm": "headwater.cli.commands.farm",
    "cluster": "headwater.cli.commands.cluster",
    "db": "headwater.cli.commands.database_move",
    "web": "headwater.cli.commands.serve",
    "controller": "headwater.cli.commands.roles",
    "terminal": "headwater.cli.commands.roles",
    "storer": "headwater.cli.commands.roles",
    "processor": "headwater.cli.commands.roles",
    "publisher": "headwater.cli.commands.roles",
}

# What each of them says of itself, so that an overview need not load them all.
SUMMARIES = {
    "version": "Print the version.",
    "feeds": "The feeds we watch.",
    "read": "Show what we understand of a feed document.",
    "serve": "Run the server: refresh the feeds within the budget and show what happens on a page.",
    "demo": "Start a farm of lively feeds and a server that watches them: everything to see without the internet.",
    "quality": "Show how complete, fresh and quick the watching is, what it costs, and which feeds lose items.",
    "query": "Standing queries: feeds made of other feeds.",
    "publish": "Who may read what is published.",
    "deliveries": "Mails, web hooks and notifications of query feeds.",
    "users": "Who may use the server.",
    "removed": "What was removed and can be brought back, for a day.",
    "export": "Write items, refreshes or a query feed to a file.",
    "backup": "Write the whole database as of this moment to one file, also while the server runs.",
    "restore": "Make a database of a backup: a new SQLite file in --data, or in the empty database --database.",
    "db": "The database as a whole.",
    "lab": "Measure strategies on synthetic and real traces, and reproduce the papers' tables.",
    "farm": "Run a farm of feeds that publish by a seed, for trying things out, tests and benchmarks.",
    "cluster": "Several machines: what they are doing.",
    "web": "Serve the pages of a cluster from a process of their own; refreshing is done elsewhere.",
    "controller": "Decide what to refresh and hand the jobs out; of several, one leads and the others stand by.",
    "terminal": "Fetch and read feeds for the cluster.",
    "storer": "Judge and store what terminals bring, and pass new items on.",
    "processor": "Match new items with the standing queries; of several, one does and the others stand by.",
    "publisher": "Send what queries deliver: mails, web hooks, notices.",
}
OPTIONS_WITH_VALUE = ("--data", "--database")  # options before a command's name that have a value
_SURROGATES = re.compile("[\ud800-\udfff]")
_ABOUT = "Headwater watches many web feeds under a budget and loses as few items as possible."


def build_app(arguments: Sequence[str] = ()) -> typer.Typer:
    """The application for these arguments; with all commands where none of them is named."""
    app = make_group(_ABOUT)
    asked = find_command(arguments)
    add_command(app, "version")(print_version)
    if asked == "version":
        return app
    for module in dict.fromkeys(COMMANDS.values() if asked is None else [COMMANDS[asked]]):
        import_module(module).register(app)
    return app


def find_command(arguments: Sequence[str]) -> str | None:
    """The command that the arguments name, if any: their first word that belongs to no option.

    >>> find_command(["--data", "lab", "feeds", "list"])  # a folder may be called like a add_command
    'feeds'
    """
    words = iter(arguments)
    for word in words:
        if word in OPTIONS_WITH_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            return word if word in COMMANDS or word == "version" else None
    return None


def build_overview() -> typer.Typer:
    """What there is, for those who have named no command: names and sayings, nothing that could be run."""
    app = make_group(_ABOUT)
    for name, saying in SUMMARIES.items():
        app.command(name, help=saying)(lambda: None)
    return app


def print_version() -> None:
    """Print the version."""
    if wants_json():
        print_json({"version": __version__, "compiled": False})  # nothing is compiled; scripts may read the field
    else:
        out.print(__version__)


def main() -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal of another encoding shows a question mark
    arguments: list[str] = []
    try:
        arguments = ["version" if word == "--version" else word for word in sys.argv[1:2]] + sys.argv[2:]
        completing = any(name.endswith("_COMPLETE") for name in os.environ)  # a shell asks for what could follow
        (build_app(arguments) if find_command(arguments) or completing else build_overview())(arguments)
    except HeadwaterError as error:
        fail(str(error))
    except UnicodeEncodeError:
        if not any(_SURROGATES.search(word) for word in arguments):
            raise
        fail("A word of the command is no text: its bytes are not UTF-8.", 2)
    except KeyboardInterrupt:
        fail("Stopped.", EXIT_STOPPED)
