"""`headwater feeds`: add, list, show, remove, refresh and explain the feeds we watch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from headwater.cli.commands import feed_add, opml
from headwater.cli.commands.article_switch import ArticleSwitch, report_switch
from headwater.cli.commands.feed_add import NATS_HELP
from headwater.cli.commands.trash import print_undo_hint
from headwater.cli.console.command import (
    MAX_INTEGER,
    add_command,
    current_settings,
    fail,
    format_count,
    make_group,
    out,
    print_json,
    wants_json,
)
from headwater.cli.console.resources import open_fetcher, open_store, run_async
from headwater.model import Feed, Known, Refresh
from headwater.store.content import feeds as stored_feeds
from headwater.store.content.articles import want_articles
from headwater.store.content.feed_state import load_feed_states
from headwater.store.content.feeds import find_feed
from headwater.store.content.items import count_items, list_items
from headwater.store.content.refreshes import list_refreshes
from headwater.store.maintenance.trash import move_feed_to_trash
from headwater.store.maintenance.trash_rows import Remover
from headwater.times import format_number, format_relative, format_time

if TYPE_CHECKING:  # what only some commands need is loaded by them: listing feeds should not wait for a client
    from headwater.node.quality.feed_explanation import FeedBelief, ScheduleExplanation
    from headwater.node.quality.quality_report import QualityReport
    from headwater.settings import Settings

HEADINGS = ("id", "title", "tags", "last", "next", "state", "address")
MIN_WIDTH = 8  # of a column that gives way
UNLIMITED_WIDTH = 100_000  # columns of what is not a screen: nothing is cut there
_BARS = " ▁▂▃▄▅▆▇█"

app = make_group("The feeds we watch.")
feed_add.register_add(app)
opml.register_opml(app)


def register(into: typer.Typer) -> None:
    into.add_typer(app, name="feeds")


# list, show, remove


@add_command(
    app, "list", epilog="Examples:  headwater feeds list --tag news   ·   headwater feeds list --json | jq '.[].url'"
)
def list_feeds(
    tag: Annotated[str | None, typer.Option(help="Only feeds with this tag.")] = None,
    search: Annotated[str | None, typer.Option(help="Only feeds with this in title, name or address.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, max=MAX_INTEGER, help="At most so many.")] = None,
) -> None:
    """List the feeds with their last and next refresh."""

    async def work() -> tuple[list[Feed], dict[int, Known]]:
        async with open_store(current_settings()) as store:
            feeds = await store.read(stored_feeds.list_feeds, tag=tag, search=search, limit=limit)
            return feeds, await store.read(load_feed_states, [feed.id for feed in feeds])

    feeds, known = run_async(work())
    if wants_json():
        print_json([_feed_as_json(feed, known.get(feed.id)) for feed in feeds])
        return
    if not feeds and (tag or search):
        out.print("No feed is like that: “headwater feeds list” shows all.")
        return
    if not feeds:
        given = current_settings()
        where = (
            "this database" if given.database else str(given.data.absolute())
        )  # often the wrong folder is the reason
        out.print(f"No feeds yet in {escape(where)}. Add one: headwater feeds add https://example.org/")
        out.print("or a whole list: headwater feeds import LIST.opml")
        return
    now = time.time()
    rows = [_make_list_row(feed, known.get(feed.id), now) for feed in feeds]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, width in _compute_widths(rows).items():
        table.add_column(heading, overflow="ellipsis", no_wrap=True, width=width)
    for row in rows:
        table.add_row(*map(escape, row))
    (out if out.is_terminal else Console(width=UNLIMITED_WIDTH)).print(table)


def _make_list_row(feed: Feed, state: Known | None, now: float) -> tuple[str, ...]:
    return (
        str(feed.id),
        feed.title or "",
        ", ".join(feed.tags),
        format_relative(state.last_refresh if state else None, now),
        format_relative(state.next_refresh if state else None, now) if state and state.next_refresh else "soon",
        _describe_state(feed, state),
        feed.url,
    )


def _compute_widths(rows: list[tuple[str, ...]]) -> dict[str, int | None]:
    """The columns' widths: on a narrow screen titles, tags and addresses share what the others leave."""
    if not out.is_terminal:
        return dict.fromkeys(HEADINGS)
    needed = [max(map(cell_len, column)) for column in zip(HEADINGS, *rows, strict=True)]
    elastic = [HEADINGS.index(heading) for heading in ("title", "tags", "address")]
    left = out.width - 2 * len(HEADINGS) - sum(needed) + sum(needed[k] for k in elastic)
    for still, k in enumerate(sorted(elastic, key=needed.__getitem__)):
        needed[k] = min(needed[k], max(left // (len(elastic) - still), MIN_WIDTH))
        left -= needed[k]
    return dict(zip(HEADINGS, needed, strict=True))


def _describe_state(feed: Feed, known: Known | None) -> str:
    if feed.gone_since is not None:
        return "gone"
    if feed.paused:
        return "paused"
    if known and known.failures:
        return f"failing ({known.failures})"
    return "ok" if known and known.last_success else "new"


def _feed_as_json(feed: Feed, known: Known | None) -> dict[str, object]:
    return {
        "id": feed.id,
        "url": feed.url,
        "title": feed.title,
        "name": feed.name,
        "link": feed.link,
        "tags": feed.tags,
        "weight": feed.weight,
        "added": feed.added,
        "paused": feed.paused,
        "gone_since": feed.gone_since,
        "state": _describe_state(feed, known),
        "last_refresh": known.last_refresh if known else None,
        "next_refresh": known.next_refresh if known else None,
        "failures": known.failures if known else 0,
        "last_error": known.last_error if known else None,
    }


@add_command(app, "articles", epilog="Example:  headwater feeds articles 3 on")
def switch_feed_articles(
    feed: Annotated[str, typer.Argument(help="Its id, address or name.")],
    switch: Annotated[ArticleSwitch, typer.Argument(help="on or off.")],
) -> None:
    """Fetch the pages behind a feed's new items, or no longer: their text is read, searched and matched."""

    async def work() -> Feed:
        async with open_store(current_settings()) as store:
            one = await store.read(find_feed, feed)
            await store.write(want_articles, "feed", one.id, switch is ArticleSwitch.on)
            return one

    one = run_async(work())
    report_switch(one.title or one.url, switch)


@add_command(app, "show", epilog="Example:  headwater feeds show 3")
def show_feed(feed: Annotated[str, typer.Argument(help="Its id, address or name.")]) -> None:
    """Show a feed with its latest refreshes and items."""

    async def work() -> None:
        async with open_store(current_settings()) as store:
            one = await store.read(find_feed, feed)
            known = (await store.read(load_feed_states, [one.id])).get(one.id)
            refreshes = await store.read(list_refreshes, one.id, limit=10)
            items = await store.read(list_items, feed_id=one.id, limit=10)
            stored = await store.read(count_items, one.id)
        if wants_json():
            recent = [{"id": i.id, "title": i.title, "link": i.link, "published": i.published} for i in items]
            print_json({**_feed_as_json(one, known), "items": stored, "recent": recent, "refreshes": refreshes})
            return
        now = time.time()
        out.print(f"[bold]{escape(one.title or one.url)}[/bold]  [dim]{escape(one.url)}[/dim]")
        facts = (
            f"id {one.id}",
            _describe_state(one, known),
            format_count(stored, "item"),
            f"weight {one.weight:g}",
            *one.tags,
        )
        out.print(escape(" · ".join(facts)))
        if known and known.last_error:
            out.print(f"[red]{escape(known.last_error)}[/red]")
        out.print("\n[bold]refreshes[/bold]")
        for refresh in refreshes:
            out.print(f"  {format_relative(refresh.at, now):>12}  {_describe_refresh(refresh)}")
        out.print("\n[bold]items[/bold]")
        for item in items:
            out.print(
                f"  {format_relative(item.published, now):>12}  {escape(item.title or item.link or item.identity)}"
            )

    run_async(work())


def _describe_refresh(refresh: Refresh) -> str:
    if not refresh.ending.ok:
        return f"[red]{refresh.ending.value}[/red]: {escape(refresh.message)}"
    lost = f", [red]about {refresh.lost:.0f} lost[/red]" if refresh.saturated else ""
    return f"{refresh.ending.value}: {refresh.new} new, {refresh.updated} updated{lost}, {refresh.bytes} bytes"


@add_command(app, "remove", epilog="Example:  headwater feeds remove 3 https://example.org/rss")
def remove_feeds(feeds: Annotated[list[str], typer.Argument(metavar="FEED…", help="Ids, addresses or names.")]) -> None:
    """Remove feeds and everything that came of them. For a day they can be brought back (headwater removed)."""

    async def work() -> list[tuple[Feed, int]]:
        async with open_store(current_settings()) as store:
            found = [await store.read(find_feed, ref) for ref in feeds]  # all must exist before any is removed
            by = Remover(None, time.time())
            return [
                (one, await store.write(move_feed_to_trash, one.id, by=by))
                for one in {one.id: one for one in found}.values()
            ]

    removed = run_async(work())
    if wants_json():
        print_json([{"id": one.id, "url": one.url, "undo": undo} for one, undo in removed])
        return
    for one, _ in removed:
        out.print(f"removed {one.id}: {escape(one.title or one.url)}")
    print_undo_hint([undo for _, undo in removed])


# refresh, explain


@add_command(app, "refresh", epilog="Examples:  headwater feeds refresh 3   ·   headwater feeds refresh --all")
def refresh_feeds(
    feeds: Annotated[list[str] | None, typer.Argument(metavar="[FEED…]", help="Ids, addresses or names.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every feed.")] = False,
    nats: Annotated[str | None, typer.Option(help=NATS_HELP)] = None,
) -> None:
    """Refresh feeds now, but never inside a server's Retry-After."""
    if bool(feeds) == all_:
        fail("Name the feeds to refresh, or give --all for every one.", 2)
    results = run_async(_refresh_named(current_settings(nats=nats), feeds or []))
    bad = [one for one in results if not one["ok"]]
    if wants_json():
        print_json(results)
    else:
        away = [one for one in bad if one.get("network_away")]
        for one in results if feeds else bad:
            if one not in away:
                out.print(f"{one['id']}: {escape(str(one['text']))}")
        if away:
            out.print(f"{format_count(len(away), 'feed')} {away[0]['text']}")
        new = sum(int(str(one.get("new", 0))) for one in results)
        out.print(
            f"{len(results) - len(bad):,} of {format_count(len(results), 'feed')} refreshed, {format_count(new, 'new item')}"
        )
    if any(one.get("network_away") for one in bad) or (bad and len(bad) == len(results)):
        raise SystemExit(1)


async def _refresh_named(given: Settings, refs: Sequence[str]) -> list[dict[str, object]]:
    from headwater.cli.commands.bulk_refresh import refresh_many
    from headwater.node.crawl.refresher import Refresher

    async with open_store(given) as store, open_fetcher(given, store) as client:
        feeds = (
            [await store.read(find_feed, ref) for ref in refs] if refs else await store.read(stored_feeds.list_feeds)
        )
        refresher = Refresher(store, client)
        shown = not wants_json()
        return await refresh_many(store, refresher, feeds, given.concurrency, named=bool(refs), show_progress=shown)


@add_command(app, "explain", epilog="Example:  headwater feeds explain 3")
def explain_feed(feed: Annotated[str, typer.Argument(help="Its id, address or name.")]) -> None:
    """Say what we believe of a feed, what its server asked for, and when and why it is refreshed."""

    async def work() -> tuple[ScheduleExplanation, QualityReport | None]:
        from headwater.node.live_settings import load_effective_settings
        from headwater.node.quality.feed_explanation import explain_feed_schedule as explained
        from headwater.node.quality.quality_report import load_last_report

        given = current_settings()
        async with open_store(given) as store:
            told = await explained(store, await load_effective_settings(store, given), feed, time.time())
            return told, await load_last_report(store)

    told, report = run_async(work())
    if wants_json():
        print_json(
            {
                "feed": _feed_as_json(told.feed, told.known),
                "strategy": told.strategy,
                "belief": told.belief,
                "asked": told.asked,
                "push": told.push,
                "held_until": told.held_until,
                "held_by": told.held_by,
                "value": told.value,
                "price": told.price,
                "why": told.why,
                "next_refresh": told.next_refresh,
                "last": told.last,
                "kinds": told.kinds,
            }
        )
        return
    for line in _render_explanation(told, time.time()):
        out.print(line)
    if report is not None and report.strategy != told.strategy:
        # Other options were given here, or the strategy is a program of the server's own place (`in_force`).
        out.print(
            f"The server that reported {format_relative(report.at, time.time())} refreshes by {escape(report.strategy)}, with "
            "options of its own: give the same ones, by headwater.toml or the environment, or ask its page."
        )


def _render_explanation(told: ScheduleExplanation, now: float) -> list[str]:
    lines = [f"[bold]{escape(told.feed.title or told.feed.url)}[/bold] is {_describe_state(told.feed, told.known)}."]
    if told.last:
        ended = _describe_refresh(told.last)
        stop = "" if ended.endswith((".", "?")) else "."  # what went wrong is mostly said in a sentence of its own
        lines.append(
            f"Last refreshed {format_relative(told.last.at, now)} ({format_time(told.last.at)}): {ended}{stop}"
        )
        lines.append(f"Why then: {escape(told.last.reason or 'no reason was recorded')}.")
    if told.belief:
        lines += _render_belief(told.belief)
    else:
        lines.append("Nothing is believed about its pace yet.")
    lines += [f"A peculiar feed: {kind}." for kind in told.kinds]
    lines += [f"Its server asks: {one.hint} = {escape(one.value)} – {one.effect}." for one in told.asked]
    lines.append(escape(told.push))
    if told.held_until is not None:
        lines.append(f"Held back until {format_time(told.held_until)}: {told.held_by}.")
    lines.append(f"By {told.strategy}: {escape(told.why)}.")
    if told.next_refresh is not None:
        lines.append(
            f"Probably refreshed {format_relative(told.next_refresh, now)} ({format_time(told.next_refresh)})."
        )
    else:
        lines.append(f"It will not be refreshed: {told.held_by}.")
    return lines


def _render_belief(belief: FeedBelief) -> list[str]:
    day = "".join(_BARS[min(int(8 * items / (max(belief.by_hour) or 1)), 8)] for items in belief.by_hour)
    waiting = f"{belief.expected_new:.2g} new ones are" if belief.expected_new >= 0.01 else "hardly a new one is"
    return [
        f"Believed: {format_number(belief.per_day_now)} items a day now, {format_number(belief.per_day)} on average; "
        f"next 24 h: {day}",
        f"Its window shows {belief.window} items; {waiting} expected to wait there, "
        f"the chance that some are lost already is {belief.chance_of_loss:.1%}.",
    ]
