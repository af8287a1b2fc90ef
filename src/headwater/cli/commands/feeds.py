"""`headwater feeds`: add, list, show, set, remove, refresh and explain feeds."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.prompt import IntPrompt

from headwater.cli.commands import opml
from headwater.cli.console.command import command, make_group
from headwater.cli.console.options import wants_json
from headwater.cli.console.output import MAX_INTEGER, err, fail, out, print_undo_hint, show_progress
from headwater.cli.views.feeds import (
    FeedRow,
    explanation_as_json,
    render_added_feeds,
    render_article_switch,
    render_changed_feed,
    render_explanation,
    render_feed,
    render_feed_list,
    render_refreshes,
)
from headwater.errors import HeadwaterError, InputError
from headwater.store.content import feeds as stored_feeds
from headwater.store.content.articles import want_articles
from headwater.store.content.feed_state import load_feed_states
from headwater.store.content.feeds import find_feed
from headwater.store.content.items import count_items, list_items
from headwater.store.content.refreshes import list_refreshes

if TYPE_CHECKING:  # imported by the commands that need them: a list of feeds must not wait for the HTTP client
    from headwater.fetch.client import Fetcher
    from headwater.fetch.discovery import FeedCandidate
    from headwater.model import Feed, Item, Refresh
    from headwater.node.new_feed import FeedAddition
    from headwater.node.quality.feed_explanation import ScheduleExplanation
    from headwater.node.quality.quality_report import QualityReport
    from headwater.settings import Settings
    from headwater.store.store import Store

FeedName = Annotated[str, typer.Argument(help="Its id, address or name.")]
FeedNames = Annotated[list[str], typer.Argument(metavar="FEED…", help="Ids, addresses or names.")]
Nats = Annotated[
    str | None, typer.Option(help="The address of NATS, if a cluster uses the database: its terminals fetch.")
]


class ArticleSwitch(StrEnum):
    on = "on"
    off = "off"


top = typer.Typer()
feeds = make_group("Add, list, refresh and explain feeds.")
top.add_typer(feeds, name="feeds")


# add


@command(
    feeds,
    "add",
    view=render_added_feeds,
    as_json=lambda result: {"feeds": [_addition_as_json(one) for one in result[0]], "errors": result[1]},
    exit_code=lambda result: int(bool(result[1])),
    settings_options=("nats",),
    example="headwater feeds add https://a.example/  ·  headwater feeds add https://b.example/rss --tag news",
)
async def add_feeds(
    store: Store,
    fetcher: Fetcher,
    urls: Annotated[list[str], typer.Argument(metavar="URL…", help="Addresses of feeds or websites.")],
    name: Annotated[str | None, typer.Option(help="Its name in queries (with one address only).")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A tag; may be repeated.")] = None,
    weight: Annotated[float, typer.Option(min=0, help="The value of one of its items to the scheduler.")] = 1.0,
    choose: Annotated[int | None, typer.Option(min=1, help="Which feed, if a page offers several.")] = None,
    nats: Nats = None,
) -> tuple[list[FeedAddition], list[dict[str, str]]]:
    """Add feeds by their address or by a website that links to them, and store their first items."""
    from headwater.node.new_feed import add_feed_from_address

    if name and len(urls) > 1:
        fail("--name needs a single address: a name belongs to one feed.", 2)

    def choose_candidate(address: str, found: Sequence[FeedCandidate]) -> FeedCandidate:
        return _choose_candidate(address, found, choose)

    added: list[FeedAddition] = []
    errors: list[dict[str, str]] = []
    for url in urls:
        try:
            added.append(
                await add_feed_from_address(
                    store,
                    fetcher,
                    url,
                    now=time.time(),
                    choose=choose_candidate,
                    name=name,
                    tags=tag or [],
                    weight=weight,
                )
            )
        except HeadwaterError as error:
            errors.append({"url": url, "message": str(error)})
    return added, errors


def _choose_candidate(address: str, found: Sequence[FeedCandidate], choose: int | None) -> FeedCandidate:
    """Choose one of several feeds: by --choose, else by asking, else the first."""
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


# list, show, remove


@command(
    feeds,
    "list",
    view=render_feed_list,
    as_json=lambda found: [row.as_json() for row in found.rows],
    example="headwater feeds list --tag news   ·   headwater feeds list --json | jq '.[].url'",
)
async def list_feeds(
    settings: Settings,
    store: Store,
    tag: Annotated[str | None, typer.Option(help="Only feeds with this tag.")] = None,
    search: Annotated[str | None, typer.Option(help="Only feeds with this in title, name or address.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, max=MAX_INTEGER, help="At most this many.")] = None,
) -> ListedFeeds:
    """List feeds with their last and next refresh."""
    found = await store.read(stored_feeds.list_feeds, tag=tag, search=search, limit=limit)
    states = await store.read(load_feed_states, [feed.id for feed in found])
    place = "this database" if settings.database else str(settings.data.absolute())
    return ListedFeeds([FeedRow(feed, states.get(feed.id)) for feed in found], bool(tag or search), place)


@dataclass(frozen=True, slots=True)
class ListedFeeds:
    """The feeds of a list; `place` tells people with an empty list where they looked."""

    rows: list[FeedRow]
    filtered: bool
    place: str


@command(feeds, "show", view=render_feed, as_json=lambda details: details.as_json(), example="headwater feeds show 3")
async def show_feed(store: Store, feed: FeedName) -> FeedDetails:
    """Show a feed with its latest refreshes and items."""
    found = await store.read(find_feed, feed)
    state = (await store.read(load_feed_states, [found.id])).get(found.id)
    return FeedDetails(
        FeedRow(found, state),
        await store.read(count_items, found.id),
        await store.read(list_refreshes, found.id, limit=10),
        await store.read(list_items, feed_id=found.id, limit=10),
    )


@dataclass(frozen=True, slots=True)
class FeedDetails:
    row: FeedRow
    item_count: int
    refreshes: list[Refresh]
    items: list[Item]

    def as_json(self) -> dict[str, object]:
        recent = [
            {"id": one.id, "title": one.title, "link": one.link, "published": one.published} for one in self.items
        ]
        return {**self.row.as_json(), "items": self.item_count, "recent": recent, "refreshes": self.refreshes}


def _render_removed_feeds(removed: list[tuple[Feed, int]]) -> None:
    for feed, _ in removed:
        out.print(f"removed {feed.id}: {escape(feed.title or feed.url)}")
    print_undo_hint([number for _, number in removed])


@command(
    feeds,
    "remove",
    view=_render_removed_feeds,
    as_json=lambda removed: [{"id": feed.id, "url": feed.url, "undo": number} for feed, number in removed],
    example="headwater feeds remove 3 https://example.org/rss",
)
async def remove_feeds(
    store: Store,
    feeds: FeedNames,
    cascade: Annotated[bool, typer.Option("--cascade", help="Remove the query feeds that name them too.")] = False,
) -> list[tuple[Feed, int]]:
    """Remove feeds with their items. They can be restored for a day (headwater removed).

    A feed that queries name is removed with --cascade only.
    """
    from headwater.store.maintenance.trash import move_feed_to_trash  # loads the query language
    from headwater.store.maintenance.trash_entries import Remover

    found = [await store.read(find_feed, name) for name in feeds]  # all must exist before any is removed
    remover = Remover(None, time.time())
    distinct = {feed.id: feed for feed in found}.values()
    return [(feed, await store.write(move_feed_to_trash, feed.id, by=remover, cascade=cascade)) for feed in distinct]


@command(
    feeds,
    "articles",
    view=render_article_switch,
    as_json=lambda result: {"name": result[0], "articles": result[1]},
    example="headwater feeds articles 3 on",
)
async def switch_feed_articles(
    store: Store, feed: FeedName, switch: Annotated[ArticleSwitch, typer.Argument(help="on or off.")]
) -> tuple[str, bool]:
    """Fetch the pages behind a feed's new items, or stop that. Their text can be read, searched and matched."""
    found = await store.read(find_feed, feed)
    await store.write(want_articles, "feed", found.id, switch is ArticleSwitch.on)
    return found.title or found.url, switch is ArticleSwitch.on


@command(
    feeds,
    "set",
    view=render_changed_feed,
    as_json=lambda feed: {"id": feed.id, "url": feed.url, "weight": feed.weight, "interval": feed.interval},
    example="headwater feeds set 3 --interval 10m   ·   headwater feeds set 3 --interval auto --weight 2",
)
async def set_feed(
    settings: Settings,
    store: Store,
    feed: FeedName,
    interval: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="The longest pause between two refreshes, such as 10m, 2h or 1d; auto."),
    ] = None,
    weight: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="The value of one of its items; 1 is normal, also auto.")
    ] = None,
) -> Feed:
    """Set how often a feed is refreshed at least, or how much its items count. The server's pauses still hold."""
    from headwater.node.feed_pace import parse_interval, parse_weight
    from headwater.node.live_settings import load_effective_settings

    if interval is None and weight is None:
        fail("Say what to set: --interval DURATION, --weight NUMBER or both.", 2)
    changes: dict[str, object] = {}
    if interval is not None:
        changes["interval"] = parse_interval(interval, (await load_effective_settings(store, settings)).least_interval)
    if weight is not None:
        changes["weight"] = parse_weight(weight)
    found = await store.read(find_feed, feed)
    return await store.write(stored_feeds.change_feed, found.id, **changes)


# refresh, explain


def _refresh_exit_code(results: tuple[list[dict[str, object]], bool]) -> int:
    failed = [one for one in results[0] if not one["ok"]]
    return int(any(one.get("network_away") for one in failed) or (bool(failed) and len(failed) == len(results[0])))


@command(
    feeds,
    "refresh",
    view=render_refreshes,
    as_json=lambda results: results[0],
    exit_code=_refresh_exit_code,
    settings_options=("nats",),
    example="headwater feeds refresh 3   ·   headwater feeds refresh --all",
)
async def refresh_feeds(
    settings: Settings,
    store: Store,
    fetcher: Fetcher,
    feeds: Annotated[list[str] | None, typer.Argument(metavar="[FEED…]", help="Ids, addresses or names.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every feed.")] = False,
    nats: Nats = None,
) -> tuple[list[dict[str, object]], bool]:
    """Refresh feeds now, but not during a server's Retry-After."""
    from headwater.node.crawl.bulk_refresh import refresh_many

    if bool(feeds) == all_:
        fail("Name the feeds to refresh, or give --all.", 2)
    names = feeds or []
    found = [await store.read(find_feed, name) for name in names] or await store.read(stored_feeds.list_feeds)
    with show_progress("refreshing", enabled=len(found) > 1) as on_progress:
        results = await refresh_many(
            store, fetcher, found, settings.concurrency, named=bool(names), on_progress=on_progress
        )
    return results, bool(names)


@command(
    feeds,
    "explain",
    view=render_explanation,
    as_json=lambda result: explanation_as_json(result[0]),
    example="headwater feeds explain 3",
)
async def explain_feed(
    settings: Settings, store: Store, feed: FeedName
) -> tuple[ScheduleExplanation, QualityReport | None]:
    """Explain when and why a feed is refreshed: its expected pace, its server's hints, its next refresh."""
    from headwater.node.live_settings import load_effective_settings
    from headwater.node.quality import feed_explanation
    from headwater.node.quality.quality_report import load_last_report

    effective = await load_effective_settings(store, settings)
    now, here = time.time(), datetime.now().astimezone().tzinfo or UTC
    explanation = await feed_explanation.explain_feed_schedule(store, effective, feed, now, here)
    return explanation, await load_last_report(store)


opml.add_commands(feeds)
