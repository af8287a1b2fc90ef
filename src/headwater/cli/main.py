"""Finds the module of a command, imports only that, and turns errors into one sentence.

A short command must not wait for the libraries of the lab, so every other module stays unimported.
"""

from __future__ import annotations

import copy
import gc
import io
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module

import typer
from typer.models import TyperInfo

from headwater import __version__
from headwater.cli.console.command import command, make_group
from headwater.cli.console.output import EXIT_MALFORMED, EXIT_STOPPED, fail, find_exit_code, out
from headwater.errors import HeadwaterError

# name → (module, summary). The overview imports no module, so the first sentence of a command's help stands here too.
COMMANDS = {
    "feeds": ("feeds", "Add, list, refresh and explain feeds."),
    "read": ("read", "Parse a feed document and show the result."),
    "serve": ("serve", "Run the server: refresh feeds within the budget and serve the pages."),
    "demo": ("demo", "Start test feeds and a server that watches them, without the internet."),
    "quality": ("quality", "Show completeness, freshness, delay and cost of the running server."),
    "query": ("queries", "Write, check and manage standing queries: feeds made of other feeds."),
    "publish": ("publish", "Choose who may read published feeds, and manage their tokens."),
    "deliveries": ("deliveries", "List and resend mails, web hooks and notifications of query feeds."),
    "users": ("users", "Manage accounts."),
    "removed": ("trash", "List, restore or delete objects that were removed in the last day."),
    "export": ("export", "Write items, refreshes or a query feed to a file."),
    "backup": ("database", "Write the whole database to one file, also while the server runs."),
    "restore": (
        "database",
        "Restore a backup into a new SQLite file in --data, or into the empty database --database.",
    ),
    "db": ("database", "Move the whole database."),
    "lab": ("lab", "Measure strategies on synthetic and real traces, and reproduce the papers' tables."),
    "farm": ("farm", "Run a farm of test feeds."),
    "cluster": ("cluster", "Show the state of a cluster, or try one on this machine."),
    "web": ("serve", "Serve the pages of a cluster from a process of their own."),
    "controller": (
        "roles",
        "Decide which feeds to refresh and hand out jobs.",
    ),
    "terminal": ("roles", "Fetch and parse feeds for the cluster."),
    "storer": ("roles", "Store the results of terminals and pass new items on."),
    "processor": ("roles", "Match new items with standing queries."),
    "publisher": ("roles", "Send deliveries of query feeds: mails, web hooks, notifications."),
}
OPTIONS_WITH_VALUE = ("--data", "--database")  # options before a command's name that have a value
_SURROGATES = re.compile("[\ud800-\udfff]")
_ABOUT = "Headwater watches many web feeds under a budget and loses as few items as possible."


def build_app(arguments: Sequence[str] = ()) -> typer.Typer:
    """Build the application for these arguments; with all commands if they name none."""
    app = make_group(_ABOUT)
    command(app, "version", view=out.print, as_json=_version_as_json)(print_version)
    name = find_command(arguments)
    if name == "version":
        return app
    modules = [module for module, _ in COMMANDS.values()] if name is None else [COMMANDS[name][0]]
    for module in dict.fromkeys(modules):
        top: typer.Typer = import_module(f"headwater.cli.commands.{module}").top
        app.registered_commands += [one for one in top.registered_commands if name in (None, one.name)]
        app.registered_groups += [_prune_group(one, arguments) for one in top.registered_groups]
    return app


def _prune_group(group: TyperInfo, arguments: Sequence[str]) -> TyperInfo:
    """Keep only the command that the arguments name: Typer builds a validator for every option of every command."""
    inner = group.typer_instance
    words = _list_words(arguments)
    if inner is None or words[:1] != [group.name] or len(words) < 2:
        return group
    chosen = [one for one in inner.registered_commands if one.name == words[1]]
    if not chosen or "--help" in arguments:
        return group
    pruned, group = copy.copy(inner), copy.copy(group)
    pruned.registered_commands, group.typer_instance = chosen, pruned
    return group


def find_command(arguments: Sequence[str]) -> str | None:
    """Find the command in the arguments: the first word that does not belong to an option.

    >>> find_command(["--data", "lab", "feeds", "list"])  # a folder may have the name of a command
    'feeds'
    """
    word = next(iter(_list_words(arguments)), None)
    return word if word in COMMANDS or word == "version" else None


def _list_words(arguments: Sequence[str]) -> list[str]:
    """List the arguments that are neither options nor values of shared options; values of other options are words
    too."""
    words = []
    rest = iter(arguments)
    for word in rest:
        if word in OPTIONS_WITH_VALUE:
            next(rest, None)
        elif not word.startswith("-"):
            words.append(word)
    return words


def build_overview() -> typer.Typer:
    """Build an application that only lists the commands and their summaries."""
    app = make_group(_ABOUT)
    app.command("version", help="Print the version.")(lambda: None)
    for name, (_, summary) in COMMANDS.items():
        app.command(name, help=summary)(lambda: None)
    return app


def print_version() -> str:
    """Print the version."""
    return __version__


def _version_as_json(version: str) -> dict[str, object]:
    return {"version": version, "compiled": False}  # nothing is compiled any more; scripts may read the field


def main() -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # show a question mark on a terminal with another encoding
    arguments: list[str] = []
    try:
        arguments = ["version" if word == "--version" else word for word in sys.argv[1:2]] + sys.argv[2:]
        completing = any(name.endswith("_COMPLETE") for name in os.environ)  # shell completion
        gc.disable()  # modules stay for ever: searching them for garbage takes a tenth of a short command's time
        app = build_app(arguments) if find_command(arguments) or completing else build_overview()
        gc.freeze()
        gc.enable()
        app(arguments)
    except HeadwaterError as error:
        fail(str(error), find_exit_code(error))
    except UnicodeEncodeError:
        if not any(_SURROGATES.search(word) for word in arguments):
            raise
        fail("An argument is not valid UTF-8.", EXIT_MALFORMED)
    except KeyboardInterrupt:
        fail("Stopped.", EXIT_STOPPED)
