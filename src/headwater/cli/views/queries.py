"""Shows query feeds, scripts and explanations on a terminal."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from headwater.cli.console.output import err, format_count, format_local_time, out, print_undo_hint
from headwater.language import Script
from headwater.model import QueryFeed
from headwater.times import DAY, format_duration, format_instant, format_relative

if TYPE_CHECKING:
    from headwater.cli.console.item_table import ItemRow
    from headwater.node.quality.promises import PromiseReport
    from headwater.node.queries.preview import QueryPreview
    from headwater.node.queries.query_explanation import QueryExplanation
    from headwater.node.queries.verification import Verification
    from headwater.query.dry_run import DryRun
    from headwater.query.items.origin import Origin
    from headwater.query.query_document import Emission
    from headwater.store.queries.hits import QueryStatistics, StoredHit
    from headwater.store.queries.query_scripts import DroppedQueries, ScriptResult
    from headwater.store.queries.selectivity import Selectivity

    RowsByKey = dict[tuple[str, str], ItemRow]

MAX_SOURCES = 50  # feeds that `explain` shows
MAX_NAMED_SOURCES = 5  # feeds that `preview` names


# scripts


@dataclass(frozen=True, slots=True)
class CheckedScript:
    """A script without mistakes. `names` is the source of known names; without one, `note` says why."""

    script: Script
    warnings: tuple[object, ...]
    names: str | None
    note: str | None

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": True,
            "statements": len(self.script.statements),
            "messages": [],
            "warnings": self.warnings,
            "names": self.names,
            "note": self.note,
        }


def render_checked_script(checked: CheckedScript) -> None:
    feeds = ", ".join(create.name.name for create in checked.script.queries)
    names = f" Query feeds: {feeds}." if feeds else ""
    out.print(Text(f"{format_count(len(checked.script.statements), 'statement')}, no mistakes.{names}"))
    if checked.note is not None:
        err.print(Text(checked.note))


def render_evaluation(result: tuple[DryRun, RowsByKey]) -> None:
    run, rows = result
    for name in run.query_names():
        _print_result(name, run.select_items(name), rows)


def result_as_json(document: list[Emission], rows: RowsByKey) -> dict[str, Any]:
    """Return the ids in document order, the items that joins found, and titles changed by SET."""
    return {
        "items": [rows[emission.key].id for emission in document],
        "annotations": {
            str(rows[emission.key].id): [rows[related.key].id for related in emission.related]
            for emission in document
            if emission.related is not None
        },
        "titles": {
            str(rows[emission.key].id): emission.analysed.item.title for emission in document if emission.is_retitled
        },
    }


def _print_result(name: str, document: list[Emission], rows: RowsByKey) -> None:
    out.print(Text.assemble((name, "bold"), f"  {format_count(len(document), 'item')}"))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", style="dim")
    for emission in document:
        item, row = emission.analysed.item, rows[emission.key]
        published = format_instant(item.published)[:16].replace("T", " ")
        related = ", ".join(str(rows[other.key].id) for other in emission.related or ())
        note = f"related: {related}" if related else ""
        cells = (published, emission.analysed.origin.label, item.title or "–", note)
        grid.add_row(str(row.id), *map(Text, cells))
    out.print(grid)
    out.print()


# query feeds of a store

LIVE = "live"


@dataclass(frozen=True, slots=True)
class QueryRow:
    """A query feed with its number of items and its last match."""

    query: QueryFeed
    items: int
    last_match: float | None
    note: str | None = None  # why it finds nothing new, though it runs

    @property
    def state(self) -> str:
        state = describe_state(self.query)
        return f"{state}: {self.note}" if self.note and state == LIVE else state

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.query.name,
            "items": self.items,
            "last_match": self.last_match,
            "importance": self.query.importance,
            "created": self.query.created,
            "replaced": self.query.replaced,
            "state": self.state,
            "problem": self.query.problem,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class QueryDetails:
    row: QueryRow
    statistics: QueryStatistics
    sources: list[Selectivity]
    latest: list[dict[str, Any]]
    origins: dict[int, Origin]

    def as_json(self) -> dict[str, Any]:
        return {
            **self.row.as_json(),
            "text": self.row.query.text,
            "statistics": {
                "items": self.statistics.hits,
                "days": self.statistics.days,
                "recent": self.statistics.recent,
                "items_per_day": self.statistics.per_day,
                "last_match": self.statistics.last,
            },
            "sources": [
                {
                    "feed": source.feed_id,
                    "name": source_label(self.origins, source.feed_id),
                    "kept": source.kept,
                    "offered": source.offered,
                    "selectivity": source.kept / source.offered if source.offered else None,
                }
                for source in self.sources
            ],
            "latest": self.latest,
        }


def describe_state(query: QueryFeed) -> str:
    if query.problem is not None:
        running = "live, but not well" if query.active is not None and not query.is_pending else "cannot be run"
        return f"{running}: {query.problem.splitlines()[0]}"
    return "waiting for the server" if query.is_pending else LIVE


def source_label(origins: dict[int, Origin], feed_id: int) -> str:
    return origins[feed_id].label if feed_id in origins else f"feed {feed_id}"


def hit_as_json(hit: StoredHit, origins: dict[int, Origin]) -> dict[str, Any]:
    item = hit.item
    return {
        "id": item.id,
        "title": item.title,
        "link": item.link,
        "published": item.published,
        "arrived": hit.arrived,
        "source": source_label(origins, item.feed_id),
        "delivered": hit.fresh,
        "related": None if hit.related is None else [other.id for other in hit.related],
    }


def render_query_list(rows: list[QueryRow]) -> None:
    if not rows:
        out.print("No query feeds yet. Create one: headwater query create FILE")
        return
    table = Table("Name", "Items", "Last match", "Importance", "State", box=None, header_style="bold")
    now = time.time()
    for row in rows:
        last = format_relative(row.last_match, now)
        cells = (row.query.name, f"{row.items:,}", last, f"{row.query.importance:g}", row.state)
        table.add_row(*map(escape, cells))
    out.print(table)


def render_query(details: QueryDetails) -> None:
    row, statistics, now = details.row, details.statistics, time.time()
    out.print(Text(row.query.text))
    out.print()
    out.print(
        f"{row.state}; {_describe_pace(row.items, statistics)}; last match {format_relative(row.last_match, now)}; "
        f"created {format_local_time(row.query.created)}",
        markup=False,
    )
    for source in sorted(details.sources, key=lambda source: -source.kept)[:20]:
        name = source_label(details.origins, source.feed_id)
        out.print(Text(f"  {name}: kept {source.kept:,} of {source.offered:,}"))
    out.print()
    for item in details.latest:
        title = item["title"] or item["link"] or "–"
        out.print(Text(f"{format_local_time(item['published'])}  {item['source']}  {title}"))


def _describe_pace(items: int, statistics: QueryStatistics) -> str:
    """Describe how many items a query feed has, and gets: “15 items in 3 min”, since less than a day tells no rate."""
    if not items:
        return "no items yet"
    if statistics.days < 1:
        return f"{format_count(items, 'item')} in {format_duration(statistics.days * DAY)}"
    over = format_count(round(statistics.days), "day")
    return f"{format_count(items, 'item')}, {statistics.per_day:.1f} a day over the last {over}"


def render_script_result(result: ScriptResult) -> None:
    for one in result.done:
        out.print(Text(f"{one.name}: {one.action}."))
    print_undo_hint(result.undo)
    if not result.done:
        out.print("The script has no statements; nothing was changed.")


def render_dropped(dropped: DroppedQueries) -> None:
    out.print(Text(f"Dropped: {', '.join(dropped.names)}."))
    print_undo_hint([dropped.undo])


def render_verification(found: Verification) -> None:
    published = format_count(found.published, "item")
    replayed = f"{published} published, {format_count(found.replayed, 'version')} of stored items replayed"
    if not found.differences:
        out.print(Text(f"{found.name}: no difference ({replayed})."))
        return
    out.print(Text(f"{found.name}: {format_count(len(found.differences), 'difference')} ({replayed})."))
    for one in found.differences:
        out.print(Text(f"  {one.kind}: item {one.item}, {one.title or 'without a title'}"))


def verification_as_json(found: Verification) -> dict[str, Any]:
    differences = [{"kind": one.kind, "item": one.item, "title": one.title} for one in found.differences]
    return {
        "name": found.name,
        "same": not differences,
        "published": found.published,
        "replayed": found.replayed,
        "differences": differences,
    }


def render_query_explanation(explanation: QueryExplanation) -> None:
    out.print(Text.assemble((explanation.query.name, "bold"), f"  {describe_state(explanation.query)}"))
    if explanation.reads:
        out.print(Text(f"reads {', '.join(explanation.reads)}"))
    if explanation.read_by:
        out.print(Text(f"read by {', '.join(explanation.read_by)}"))
    for way in explanation.ways:
        found = f"items with {' or '.join(way.terms)} ({100 * way.share:.2f} % of all)" if way.terms else "every item"
        out.print(Text(f"from {way.source}: looks at {found}"))
    table = Table("Source", box=None, header_style="bold", pad_edge=False)
    for heading in ("Kept", "Share", "Items", "Wanted", "Polls", "Weight", "Of it"):
        table.add_column(heading, justify="right", no_wrap=True)
    for source in sorted(explanation.sources, key=lambda source: -source.wanted_per_day)[:MAX_SOURCES]:
        table.add_row(
            escape(source.name.removeprefix("https://").removeprefix("http://")),
            f"{source.kept:,}/{source.offered:,}",
            f"{source.selectivity:.3f}",
            f"{source.items_per_day:.1f}",
            f"{source.wanted_per_day:.2f}",
            f"{source.refreshes_per_day:.1f}",
            f"{source.weight:.3g}",
            f"{source.due_to_query:.3g}",
        )
    if explanation.sources:
        out.print()
        out.print(table)
        if len(explanation.sources) > MAX_SOURCES:
            out.print(f"… and {format_count(len(explanation.sources) - MAX_SOURCES, 'other feed')}; --json lists all.")
        stored = format_duration(explanation.stored_days * DAY)
        span = "per day" if explanation.stored_days >= 1 else f"of the {stored} that are stored"
        out.print(f"Items, wanted items and polls are {span}. “Of it” is the part of the weight due to the query.\n")
    if explanation.stored_days >= 1:
        wanted, cost = f"It should return {explanation.expected_per_day:.1f} items a day", "refreshes a day"
    else:
        wanted, cost = f"It should keep {explanation.expected_per_day:.1f} of these items", "refreshes"
    out.print(
        f"{wanted}. Its {format_count(len(explanation.sources), 'feed')} cost "
        f"{explanation.refreshes_per_day:.1f} {cost}; {100 * explanation.share_of_weight:.0f} % of "
        "their weight is due to it."
    )
    if explanation.target is not None:
        out.print(Text(f"TARGET: {explanation.target.message}"))
    elif explanation.asks:
        out.print("TARGET: not evaluated yet; the server does so once a minute.")
    if explanation.promise is not None:
        for line in write_promise(explanation.promise):
            out.print(Text(line))


def write_promise(promise: PromiseReport) -> list[str]:
    """Write a promise as sentences: promised, predicted, measured, kept or not and why; where none is, the measures."""
    from headwater.schedule.quality.promise_record import (
        describe_figures,
        describe_period,
    )  # loads numpy, which lists do not need

    lines = []
    if promise.promised:
        verdict = {True: "kept", False: "not kept", None: "not judged"}[promise.kept]
        lines.append(f"Promised: {promise.promised}: {verdict}." + (f" {promise.why}" if promise.why else ""))
    if promise.predicted:
        lines.append(f"Predicted: {describe_figures(**promise.predicted)}.")
    for name, one in (("hour", promise.hour), ("day", promise.day), ("week", promise.week)):
        lines.append(f"Measured in the last {name}: {describe_period(one)}.")
    return lines


def explanation_as_json(explanation: QueryExplanation) -> dict[str, Any]:
    return {
        "name": explanation.query.name,
        "state": describe_state(explanation.query),
        "text": explanation.query.text,
        "importance": explanation.query.importance,
        "reads": explanation.reads,
        "read_by": explanation.read_by,
        "access": explanation.ways,
        "sources": explanation.sources,
        "stored_days": explanation.stored_days,
        "expected_items_per_day": explanation.expected_per_day,
        "items_per_day": explanation.statistics.per_day,
        "refreshes_per_day": explanation.refreshes_per_day,
        "share_of_weight": explanation.share_of_weight,
        "target": explanation.target,
        "promise": explanation.promise,
    }


def render_previews(previews: list[QueryPreview]) -> None:
    for one in previews:
        span = format_duration(one.stored_days * DAY)
        kept = f"keeps {one.kept:,} of {format_count(one.looked_at, 'item')} in {span}"
        kept += f"; {one.per_day:.1f} a day" if one.stored_days >= 1 else ""  # less than a day tells no rate
        out.print(Text.assemble((one.name, "bold"), f": {kept}", _describe_sources(one.sources)))
        for item in one.latest:
            out.print(Text(f"  {format_local_time(item.published)}  {item.title or item.link or '–'}"))
    if not previews:
        out.print("The script creates no query feeds; there is nothing to preview.")


def _describe_sources(sources: dict[str, int]) -> str:
    """Name the feeds that bring most: “; from A 15, B 12 and 3 other feeds”."""
    named = ", ".join(f"{name} {number:,}" for name, number in list(sources.items())[:MAX_NAMED_SOURCES])
    others = len(sources) - MAX_NAMED_SOURCES
    return (f"; from {named}" if named else "") + (f" and {format_count(others, 'other feed')}" if others > 0 else "")


def preview_as_json(one: QueryPreview) -> dict[str, Any]:
    return {
        "kept": one.kept,
        "looked_at": one.looked_at,
        "days": one.days,
        "stored_days": one.stored_days,
        "per_day": one.per_day,
        "sources": one.sources,
        "items": [
            {"id": item.id, "title": item.title, "link": item.link, "published": item.published} for item in one.latest
        ],
    }
