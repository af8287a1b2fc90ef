"""`headwater feeds import` and `export`: subscription lists as OPML."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from headwater.cli.console.command import command
from headwater.cli.console.inputs import read_bytes, write_bytes
from headwater.cli.console.options import wants_json
from headwater.cli.console.output import EXIT_STOPPED, fail, format_count, out, show_progress
from headwater.cli.views.feeds import import_as_json, render_import
from headwater.errors import InputError
from headwater.store.content.feeds import AddedFeed, NewFeed, list_feeds

if TYPE_CHECKING:  # imported by the commands: a list of feeds must not wait for the parsers
    from headwater.formats.opml import FeedList, Outline
    from headwater.store.store import Store

MAX_LIST_BYTES = 1024 * 1024 * 1024


def add_commands(feeds: typer.Typer) -> None:
    """Add import and export to the group `feeds`."""
    command(
        feeds,
        "import",
        view=render_import,
        as_json=import_as_json,
        example="headwater feeds import *.opml  ·  headwater feeds import - < LIST.opml",
    )(import_opml)
    command(
        feeds, "export", example="headwater feeds export > LIST.opml  ·  headwater feeds export --tag news news.opml"
    )(export_opml)


async def import_opml(
    store: Store,
    files: Annotated[list[str], typer.Argument(metavar="FILE.opml|-…", help="OPML lists, or addresses line by line.")],
    tag: Annotated[list[str] | None, typer.Option(help="A tag for all of them; may be repeated.")] = None,
) -> tuple[FeedList, list[AddedFeed]]:
    """Add all feeds of one or more lists; folders become tags. All of them, or none if something goes wrong."""
    from headwater.formats.opml import merge_lists

    lists = merge_lists([_read_list(file) for file in files])
    new = [NewFeed(one.url, one.title, link=one.link, tags=(*one.tags, *(tag or ()))) for one in lists.feeds]
    try:
        with show_progress("importing") as progress:
            return lists, await import_feeds(store, new, lambda done: progress(done, len(new)))
    except ImportStopped:
        fail("Stopped: nothing was imported.", EXIT_STOPPED)


async def import_feeds(store: Store, new: list[NewFeed], progress: Callable[[int], None]) -> list[AddedFeed]:
    """Add all feeds in one transaction. Ctrl-C rolls it back and raises ImportStopped."""
    from headwater.store.readers.subscriptions import add_and_subscribe

    stopped = False

    def report(done: int) -> None:
        if stopped:
            raise ImportStopped
        progress(done)

    adding = asyncio.ensure_future(store.write(add_and_subscribe, new, time.time(), progress=report))
    try:
        return await asyncio.shield(adding)
    except asyncio.CancelledError:
        stopped = True  # a thread writes: only an exception inside it ends the transaction
        return await adding  # if it was too late for that, everything is written and reported


class ImportStopped(Exception):
    """Ends the transaction from inside."""


async def export_opml(
    store: Store,
    file: Annotated[
        str, typer.Argument(metavar="[FILE.opml|-]", help="The file to write; - is standard output.")
    ] = "-",
    tag: Annotated[str | None, typer.Option(help="Only feeds with this tag.")] = None,
) -> list[Outline] | None:
    """Write the feeds as an OPML list for any reader."""
    from headwater.formats.opml import Outline
    from headwater.formats.write import write_opml

    feeds = [Outline(one.url, one.title, one.link, one.tags) for one in await store.read(list_feeds, tag=tag)]
    if file == "-" and not wants_json():
        sys.stdout.buffer.write(write_opml(feeds))
        return None
    if file != "-":
        write_bytes(file, write_opml(feeds))
        if not wants_json():
            out.print(f"{format_count(len(feeds), 'feed')} written to {escape(file)}.")
    return feeds


def _read_list(file: str) -> FeedList:
    from headwater.formats.opml import read_opml

    name, body = "standard input" if file == "-" else file, read_bytes(file, MAX_LIST_BYTES)
    try:
        found = read_opml(body)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    return replace(found, problems=tuple(f"{name}: {one}" for one in found.problems))
