"""`headwater feeds add`: from an address to a feed with its first items."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.prompt import IntPrompt

from headwater.cli.console.command import (
    add_command,
    current_settings,
    err,
    fail,
    format_count,
    out,
    print_json,
    wants_json,
)
from headwater.cli.console.resources import open_fetcher, open_store, run_async
from headwater.errors import HeadwaterError, InputError

if TYPE_CHECKING:
    from headwater.fetch.discovery import FeedCandidate
    from headwater.node.new_feed import FeedAddition
    from headwater.settings import Settings

NATS_HELP = "The address of NATS, where a cluster lives on the database: its terminals ask the hosts."


def register_add(app: typer.Typer) -> None:
    example = "headwater feeds add https://a.example/  ·  headwater feeds add https://b.example/rss --tag news"
    add_command(app, "add", epilog=f"Examples:  {example}")(add_feeds)


def add_feeds(
    urls: Annotated[list[str], typer.Argument(metavar="URL…", help="A feed, or a page that offers one.")],
    name: Annotated[str | None, typer.Option(help="What queries call it (one address only).")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A tag; may be given several times.")] = None,
    weight: Annotated[float, typer.Option(min=0, help="What one of its items is worth to the scheduler.")] = 1.0,
    choose: Annotated[int | None, typer.Option(min=1, help="Which one, where a page offers several.")] = None,
    nats: Annotated[str | None, typer.Option(help=NATS_HELP)] = None,
) -> None:
    """Add feeds by their address or by a page that offers them, and store their first items."""
    if name and len(urls) > 1:
        fail("A name belongs to one feed: give --name with a single address.", 2)
    added, failed = run_async(_add_addresses(current_settings(nats=nats), urls, name, tag or [], weight, choose))
    if wants_json():
        print_json({"feeds": [_addition_as_json(one) for one in added], "errors": failed})
    else:
        for one in added:
            _print_addition(one)
        for problem in failed:
            err.print(f"error: {escape(problem['message'])}")
    if failed:
        raise SystemExit(1)


async def _add_addresses(
    given: Settings, urls: Sequence[str], name: str | None, tags: Sequence[str], weight: float, choose: int | None
) -> tuple[list[FeedAddition], list[dict[str, str]]]:
    from headwater.node.new_feed import (
        add_feed_from_address,  # with the client, which only this command and few others need
    )

    def pick(address: str, found: Sequence[FeedCandidate]) -> FeedCandidate:
        return _choose_candidate(address, found, choose)

    added: list[FeedAddition] = []
    failed: list[dict[str, str]] = []
    async with open_store(given) as store, open_fetcher(given, store) as client:
        for url in urls:
            try:
                added.append(
                    await add_feed_from_address(
                        store, client, url, now=time.time(), choose=pick, name=name, tags=tags, weight=weight
                    )
                )
            except HeadwaterError as error:
                failed.append({"url": url, "message": str(error)})
    return added, failed


def _choose_candidate(address: str, found: Sequence[FeedCandidate], choose: int | None) -> FeedCandidate:
    """Which of several feeds: the one asked for, else the person's choice, else the page's first."""
    if choose is not None:
        if choose > len(found):
            raise InputError(f"{address} offers {len(found)} feeds; there is no number {choose}.")
        return found[choose - 1]
    if wants_json() or not sys.stdin.isatty():
        return found[0]
    err.print(f"{escape(address)} offers {len(found)} feeds:")
    for number, one in enumerate(found, 1):
        err.print(f"  {number}  {escape(one.title or '')}  [dim]{escape(one.url)}[/dim]")
    number = IntPrompt.ask("Which one", console=err, choices=[str(k + 1) for k in range(len(found))], default=1)
    return found[number - 1]


def _addition_as_json(one: FeedAddition) -> dict[str, object]:
    return {
        "feed": one.feed,
        "created": one.created,
        "refresh": one.refresh,
        "others": [{"url": other.url, "title": other.title} for other in one.others],
    }


def _print_addition(one: FeedAddition) -> None:
    title = escape(one.feed.title or one.feed.url)
    if not one.created:
        out.print(f"already there: {title}  [dim]{escape(one.feed.url)}[/dim]")
        return
    items = one.refresh.new if one.refresh else 0
    out.print(f"added {one.feed.id}: {title}  [dim]{escape(one.feed.url)}[/dim]  {format_count(items, 'item')}")
    for other in one.others:
        out.print(f"  also offered: {escape(other.title or '')}  [dim]{escape(other.url)}[/dim]")
