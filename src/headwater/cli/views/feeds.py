"""Shows feeds, refreshes and explanations on a terminal."""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from headwater.cli.console.output import err, format_count, format_local_time, out
from headwater.model import Feed, Known, Refresh
from headwater.node.feed_pace import format_interval
from headwater.store.content.feeds import AddedFeed, sort_added
from headwater.times import format_due, format_number, format_relative

if TYPE_CHECKING:
    from headwater.cli.commands.feeds import FeedDetails, ListedFeeds
    from headwater.node.new_feed import FeedAddition
    from headwater.node.quality.feed_explanation import FeedBelief, ScheduleExplanation
    from headwater.node.quality.quality_report import QualityReport

HEADINGS = ("id", "title", "tags", "last", "next", "state", "address")
MIN_WIDTH = 8  # of a column that shrinks
UNLIMITED_WIDTH = 100_000  # for pipes and files: nothing is cut there
_BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class FeedRow:
    """A feed with its state between refreshes."""

    feed: Feed
    known: Known | None

    @property
    def state(self) -> str:
        return describe_state(self.feed, self.known)

    def as_json(self) -> dict[str, object]:
        feed, known = self.feed, self.known
        return {
            "id": feed.id,
            "url": feed.url,
            "title": feed.title,
            "name": feed.name,
            "link": feed.link,
            "tags": feed.tags,
            "weight": feed.weight,
            "interval": feed.interval,
            "added": feed.added,
            "paused": feed.paused,
            "gone_since": feed.gone_since,
            "state": self.state,
            "last_refresh": known.last_refresh if known else None,
            "next_refresh": known.next_refresh if known else None,
            "failures": known.failures if known else 0,
            "last_error": known.last_error if known else None,
        }


def describe_state(feed: Feed, known: Known | None) -> str:
    if feed.gone_since is not None:
        return "gone"
    if feed.paused:
        return "paused"
    if known and known.failures:
        return f"failing ({known.failures})"
    return "ok" if known and known.last_success else "new"


def render_feed_list(found: ListedFeeds) -> None:
    if not found.rows and found.filtered:
        out.print("No feed matches. “headwater feeds list” shows all.")
        return
    if not found.rows:
        out.print(f"No feeds yet in {escape(found.place)}. Add one: headwater feeds add https://example.org/")
        out.print("or import a list: headwater feeds import LIST.opml")
        return
    now = time.time()
    lines = [_make_line(row, now) for row in found.rows]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, width in _compute_widths(lines).items():
        table.add_column(heading, overflow="ellipsis", no_wrap=True, width=width)
    for line in lines:
        table.add_row(*map(escape, line))
    (out if out.is_terminal else Console(width=UNLIMITED_WIDTH)).print(table)


def _make_line(row: FeedRow, now: float) -> tuple[str, ...]:
    feed, known = row.feed, row.known
    return (
        str(feed.id),
        feed.title or "",
        ", ".join(feed.tags),
        format_relative(known.last_refresh if known else None, now),
        format_due(known.next_refresh, now) if known and known.next_refresh else "soon",
        row.state,
        feed.url,
    )


def _compute_widths(lines: list[tuple[str, ...]]) -> dict[str, int | None]:
    """Compute the columns' widths: on a narrow screen titles, tags and addresses share the remaining width."""
    if not out.is_terminal:
        return dict.fromkeys(HEADINGS)
    needed = [max(map(cell_len, column)) for column in zip(HEADINGS, *lines, strict=True)]
    elastic = [HEADINGS.index(heading) for heading in ("title", "tags", "address")]
    left = out.width - 2 * len(HEADINGS) - sum(needed) + sum(needed[k] for k in elastic)
    for still, k in enumerate(sorted(elastic, key=needed.__getitem__)):
        needed[k] = min(needed[k], max(left // (len(elastic) - still), MIN_WIDTH))
        left -= needed[k]
    return dict(zip(HEADINGS, needed, strict=True))


def render_feed(details: FeedDetails) -> None:
    now, feed, known = time.time(), details.row.feed, details.row.known
    out.print(f"[bold]{escape(feed.title or feed.url)}[/bold]  [dim]{escape(feed.url)}[/dim]")
    items = format_count(details.item_count, "item")
    pace = (f"at least every {format_interval(feed.interval)}",) if feed.interval else ()
    facts = (f"id {feed.id}", details.row.state, items, f"weight {feed.weight:g}", *pace, *feed.tags)
    out.print(escape(" · ".join(facts)))
    if known and known.last_error:
        out.print(f"[red]{escape(known.last_error)}[/red]")
    out.print("\n[bold]refreshes[/bold]")
    for refresh in details.refreshes:
        out.print(f"  {format_relative(refresh.at, now):>12}  {describe_refresh(refresh)}")
    out.print("\n[bold]items[/bold]")
    for item in details.items:
        out.print(f"  {format_relative(item.published, now):>12}  {escape(item.title or item.link or item.identity)}")


def describe_refresh(refresh: Refresh) -> str:
    if not refresh.ending.ok:
        return f"[red]{refresh.ending.value}[/red]: {escape(refresh.message)}"
    lost = f", [red]about {refresh.lost:.0f} lost[/red]" if refresh.saturated else ""
    twice = f", {format_count(refresh.duplicates, 'duplicate')}" if refresh.duplicates else ""
    note = f" [dim]({escape(refresh.message)})[/dim]" if refresh.message else ""
    counts = f"{refresh.new} new, {refresh.updated} updated{twice}{lost}, {refresh.bytes} bytes"
    return f"{refresh.ending.value}: {counts}{note}"


def render_added_feeds(result: tuple[list[FeedAddition], list[dict[str, str]]]) -> None:
    added, errors = result
    for one in added:
        _print_addition(one)
    for error in errors:
        err.print(f"error: {escape(error['message'])}")


def _print_addition(one: FeedAddition) -> None:
    title = escape(one.feed.title or one.feed.url)
    if not one.created:
        out.print(f"already there: {title}  [dim]{escape(one.feed.url)}[/dim]")
        return
    items = format_count(one.refresh.new if one.refresh else 0, "item")
    out.print(f"added {one.feed.id}: {title}  [dim]{escape(one.feed.url)}[/dim]  {items}")
    for other in one.others:
        out.print(f"  also offered: {escape(other.title or '')}  [dim]{escape(other.url)}[/dim]")


def render_article_switch(result: tuple[str, bool]) -> None:
    name, switched_on = result
    what = "are fetched" if switched_on else "are no longer fetched"
    out.print(f"The pages behind new items of {escape(name)} {what}.")
    if switched_on and not all(find_spec(needed) for needed in ("trafilatura", "protego")):
        err.print("The server needs trafilatura for that: install headwater\\[articles].")


def render_changed_feed(feed: Feed) -> None:
    pace = f"refreshed at least every {format_interval(feed.interval)}" if feed.interval else "refreshed as it pays"
    out.print(f"{escape(feed.title or feed.url)}: {pace}, weight {feed.weight:g}.")


def render_refreshes(result: tuple[list[dict[str, Any]], bool]) -> None:
    """Print the refreshes of named feeds, or the failed ones of all feeds, and a total."""
    results, named = result
    failed = [one for one in results if not one["ok"]]
    away = [one for one in failed if one.get("network_away")]
    for one in results if named else failed:
        if one not in away:
            out.print(f"{one['id']}: {escape(str(one['text']))}")
    if away:
        out.print(f"{format_count(len(away), 'feed')} {away[0]['text']}")
    new = format_count(sum(one.get("new", 0) for one in results), "new item")
    out.print(f"{len(results) - len(failed):,} of {format_count(len(results), 'feed')} refreshed, {new}")


def explanation_as_json(explanation: ScheduleExplanation) -> dict[str, object]:
    return {
        "feed": FeedRow(explanation.feed, explanation.known).as_json(),
        "strategy": explanation.strategy,
        "belief": explanation.belief,
        "asked": explanation.asked,
        "push": explanation.push,
        "held_until": explanation.held_until,
        "held_by": explanation.held_by,
        "value": explanation.value,
        "price": explanation.price,
        "interval": explanation.interval,
        "forecast": explanation.forecast,
        "why": explanation.why,
        "next_refresh": explanation.next_refresh,
        "last": explanation.last,
        "kinds": explanation.kinds,
    }


def render_explanation(result: tuple[ScheduleExplanation, QualityReport | None]) -> None:
    explanation, report = result
    now = time.time()
    for line in _write_explanation(explanation, now):
        out.print(line)
    if report is not None and report.strategy != explanation.strategy:
        # The command got other options, or the server runs a strategy of its own package.
        out.print(
            f"The server that reported {format_relative(report.at, now)} uses {escape(report.strategy)} and other "
            "options. Give the same ones in headwater.toml or the environment, or see the server's page."
        )


def _write_explanation(explanation: ScheduleExplanation, now: float) -> list[str]:
    state = describe_state(explanation.feed, explanation.known)
    lines = [f"[bold]{escape(explanation.feed.title or explanation.feed.url)}[/bold] is {state}."]
    if explanation.interval:
        lines.append(escape(explanation.interval))
    if explanation.forecast:
        lines.append(escape(explanation.forecast))
    if explanation.last:
        ended = describe_refresh(explanation.last)
        stop = "" if ended.endswith((".", "?")) else "."  # most errors are sentences already
        last = f"{format_relative(explanation.last.at, now)} ({format_local_time(explanation.last.at)})"
        lines.append(f"Last refreshed {last}: {ended}{stop}")
        lines.append(f"Reason: {escape(explanation.last.reason or 'not recorded')}.")
    if explanation.belief:
        lines += _write_belief(explanation.belief)
    else:
        lines.append("Its pace is not known yet.")
    lines += [f"Unusual: {kind}." for kind in explanation.kinds]
    lines += [f"Server hint: {one.hint} = {escape(one.value)} – {one.effect}." for one in explanation.asked]
    lines.append(escape(explanation.push))
    if explanation.held_until is not None:
        lines.append(f"On hold until {format_local_time(explanation.held_until)}: {explanation.held_by}.")
    lines.append(f"By {explanation.strategy}: {escape(explanation.why)}.")
    if explanation.next_refresh is not None:
        when = f"{format_due(explanation.next_refresh, now)} ({format_local_time(explanation.next_refresh)})"
        lines.append(f"Next refresh probably {when}.")
    else:
        lines.append(f"It will not be refreshed: {explanation.held_by}.")
    return lines


def _write_belief(belief: FeedBelief) -> list[str]:
    day = "".join(_BARS[min(int(8 * items / (max(belief.by_hour) or 1)), 8)] for items in belief.by_hour)
    waiting = f"{belief.expected_new:.2g} new ones are" if belief.expected_new >= 0.01 else "hardly a new one is"
    return [
        f"Expected pace: {format_number(belief.per_day_now)} items a day now, {format_number(belief.per_day)} on "
        f"average; next 24 h: {day}",
        f"Its window shows {belief.window} items; {waiting} expected in it, the probability that some are lost is "
        f"{100 * belief.chance_of_loss:.1f} %.",
    ]


if TYPE_CHECKING:
    from headwater.formats.opml import FeedList

MAX_LINES = 10  # of one kind in a report


def import_as_json(result: tuple[FeedList, list[AddedFeed]]) -> dict[str, object]:
    lists, added = result
    created, before, repeated = sort_added(added)
    return {
        "added": len(created),
        "already_there": [added[place].feed.url for place in before],
        "duplicates": [*lists.duplicates, *(lists.feeds[place].url for place in repeated)],
        "refused": [{"url": url, "reason": reason} for url, reason in lists.refused],
        "problems": lists.problems,
    }


def render_import(result: tuple[FeedList, list[AddedFeed]]) -> None:
    lists, added = result
    created, before, repeated = sort_added(added)
    duplicates = [*lists.duplicates, *(lists.feeds[place].url for place in repeated)]
    refused = [f"{url}: {reason}" for url, reason in lists.refused]
    out.print(
        f"{format_count(len(created), 'feed')} added, {len(before):,} {'was' if len(before) == 1 else 'were'} there "
        "already."
    )
    for heading, lines in (
        (f"{format_count(len(duplicates), 'duplicate')} in the list:", duplicates),
        (f"{len(refused):,} {'was' if len(refused) == 1 else 'were'} refused:", refused),
        (f"{format_count(len(lists.problems), 'note')}:", lists.problems),
    ):
        if lines:
            out.print(heading)
            for line in lines[:MAX_LINES]:
                out.print(f"  {escape(line)}")
            if len(lines) > MAX_LINES:
                out.print(f"  … and {len(lines) - MAX_LINES:,} more (--json shows all)")
