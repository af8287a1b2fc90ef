"""`headwater feeds import` and `export`: whole subscription lists, as OPML."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from headwater.cli.console.command import (
    EXIT_STOPPED,
    add_command,
    current_settings,
    err,
    fail,
    format_count,
    out,
    print_json,
    wants_json,
)
from headwater.cli.console.resources import open_store, run_async
from headwater.errors import InputError
from headwater.formats.opml import FeedList, Outline, merge_lists, read_opml
from headwater.formats.write import write_opml
from headwater.store.content.feeds import AddedFeed, NewFeed, list_feeds, sort_added
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store

MAX_LINES = 10  # lines of a report before it is cut


def register_opml(app: typer.Typer) -> None:
    add_command(
        app, "import", epilog="Examples:  headwater feeds import *.opml  ·  headwater feeds import - < LIST.opml"
    )(import_opml)
    add_command(
        app,
        "export",
        epilog="Examples:  headwater feeds export > LIST.opml  ·  headwater feeds export --tag news news.opml",
    )(export_opml)


def import_opml(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE.opml|-…", help="OPML lists, or addresses line by line."),
    ],
    tag: Annotated[list[str] | None, typer.Option(help="A tag for all of them; may be given several times.")] = None,
) -> None:
    """Add all feeds of one or more lists; folders become tags. All of it or, where something goes wrong, nothing."""
    lists = merge_lists([_read_list(file) for file in files])
    new = [NewFeed(one.url, one.title, link=one.link, tags=(*one.tags, *(tag or ()))) for one in lists.feeds]
    try:
        added = run_async(_add_with_progress(new))
    except ImportStopped:
        fail("Stopped: nothing was imported.", EXIT_STOPPED)
    _report_import(lists, added)


async def _add_with_progress(new: list[NewFeed]) -> list[AddedFeed]:
    columns = (TextColumn("importing"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    async with open_store(current_settings()) as store:
        with Progress(*columns, console=err, transient=True, disable=wants_json() or not err.is_terminal) as progress:
            bar = progress.add_task("importing", total=len(new))
            return await import_feeds(store, new, lambda done: progress.update(bar, completed=done))


async def import_feeds(store: Store, new: list[NewFeed], progress: Callable[[int], None]) -> list[AddedFeed]:
    """Add them all. Ctrl-C takes back what is written so far, which a thread would go on writing: raises Stopped."""
    stopped = False

    def told(done: int) -> None:
        if stopped:
            raise ImportStopped
        progress(done)

    adding = asyncio.ensure_future(store.write(add_and_subscribe, new, time.time(), progress=told))
    try:
        return await asyncio.shield(adding)
    except asyncio.CancelledError:
        stopped = True
        return await adding  # or, where it is too late for that, all of it is there and is reported


class ImportStopped(Exception):
    """Ends the transaction from inside."""


def _report_import(lists: FeedList, added: list[AddedFeed]) -> None:
    created, before, twice = sort_added(added)
    there = [added[place].feed.url for place in before]
    duplicates = [*lists.duplicates, *(lists.feeds[place].url for place in twice)]
    if wants_json():
        print_json(
            {
                "added": len(created),
                "already_there": there,
                "duplicates": duplicates,
                "refused": [{"url": url, "reason": reason} for url, reason in lists.refused],
                "problems": lists.problems,
            }
        )
        return
    out.print(
        f"{format_count(len(created), 'feed')} added, {len(there):,} {'was' if len(there) == 1 else 'were'} there already."
    )
    refused = [f"{url}: {reason}" for url, reason in lists.refused]
    for what, lines in (
        (f"{len(duplicates):,} stood in the list twice:", duplicates),
        (f"{len(refused):,} {'was' if len(refused) == 1 else 'were'} refused:", refused),
        (f"{format_count(len(lists.problems), 'note')}:", lists.problems),
    ):
        if lines:
            out.print(what)
            for line in lines[:MAX_LINES]:
                out.print(f"  {escape(line)}")
            if len(lines) > MAX_LINES:
                out.print(f"  … and {len(lines) - MAX_LINES:,} more (--json shows all)")


def export_opml(
    file: Annotated[str, typer.Argument(metavar="[FILE.opml|-]", help="Where to write; - is standard output.")] = "-",
    tag: Annotated[str | None, typer.Option(help="Only feeds with this tag.")] = None,
) -> None:
    """Write the feeds as an OPML list that any reader takes."""

    async def work() -> list[Outline]:
        async with open_store(current_settings()) as store:
            return [Outline(one.url, one.title, one.link, one.tags) for one in await store.read(list_feeds, tag=tag)]

    feeds = run_async(work())
    if file == "-":
        if wants_json():
            print_json(feeds)
        else:
            sys.stdout.buffer.write(write_opml(feeds))
        return
    try:
        Path(file).write_bytes(write_opml(feeds))
    except OSError as error:
        raise InputError(f"{file} cannot be written: {error.strerror or error}.") from error
    if wants_json():
        print_json(feeds)
    else:
        out.print(f"{format_count(len(feeds), 'feed')} written to {escape(file)}.")


def _read_list(file: str) -> FeedList:
    name, body = "standard input" if file == "-" else file, _read_file(file)
    try:
        found = read_opml(body)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    return replace(found, problems=tuple(f"{name}: {one}" for one in found.problems))


def _read_file(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror or error}.") from error
