"""Exports: items, refreshes or what a query feed has let out, as rows for Parquet, CSV or JSON Lines.

An export goes on where the last one into the same file ended, also one that was killed: a text file is cut back to the
last rows known to be whole, a Parquet file is made of pieces that are joined at the end. Items have the columns that
the lab reads as a trace: `source`, `published_at`, `title`, `categories`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from headwater.errors import InputError
from headwater.model import Feed, Item, Refresh
from headwater.publish.files import ExportState, open_export
from headwater.store.store import Store
from headwater.store.values import DataSlice

CHUNK_ROWS = 2_000
KINDS = ("items", "refreshes")
Row = dict[str, Any]
Chunk = tuple[int, list[Row]]  # the last id, and the rows

ITEM_COLUMNS = {
    "id": "int64",
    "source": "string",
    "published_at": "float64",
    "title": "string",
    "categories": "string",
    "link": "string",
    "identity": "string",
    "first_seen": "float64",
    "updated": "float64",
    "version": "int64",
    "authors": "string",
    "language": "string",
    "summary": "string",
    "content": "string",
}
REFRESH_COLUMNS = {
    "id": "int64",
    "source": "string",
    "at": "float64",
    "ending": "string",
    "status": "int64",
    "elapsed": "float64",
    "bytes": "int64",
    "new": "int64",
    "updated": "int64",
    "window": "int64",
    "overlap": "int64",
    "saturated": "bool",
    "lost": "float64",
    "reason": "string",
    "message": "string",
}


async def export_rows(
    store: Store,
    what: str,
    part: DataSlice,
    path: str,
    format: str,
    *,
    query: str | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> ExportState:
    """Write what is not yet in the file; tells how many rows were written and are there.

    `progress(done, total)` is called after each piece.
    """
    query_id = None if query is None else (await store.queries.find(query)).id
    about = f"{what if query is None else f'query {query.casefold()}'} {part}"
    columns, order = (REFRESH_COLUMNS, "at") if what == "refreshes" else (ITEM_COLUMNS, "published_at")
    with open_export(path, format, about, columns, ["source", order]) as file:
        total = await store.publishing.count_archive(what, query_id, file.last, part)
        done = 0
        progress(done, total)
        async for last, rows in _read_chunks(store, what, query_id, file.last, part):
            file.write(rows, last)
            done += len(rows)
            progress(done, max(total, done))
        return file.close()


async def _read_chunks(
    store: Store, what: str, query_id: int | None, after: int, part: DataSlice
) -> AsyncIterator[Chunk]:
    if what not in KINDS:
        raise InputError(f"There is no export of “{what}”; there are {', '.join(KINDS)} and queries.")
    while True:
        found = await _read_chunk(store, what, query_id, after, part)
        if found is None:
            return
        after = found[0]
        yield found


async def _read_chunk(store: Store, what: str, query_id: int | None, after: int, part: DataSlice) -> Chunk | None:
    if query_id is None and what == "refreshes":
        log = await store.publishing.archive_refreshes(after, part, CHUNK_ROWS)
        feeds = await store.feeds_by_id({one.feed_id for _, one in log})
        return (log[-1][0], [refresh_row(id, one, feeds.get(one.feed_id)) for id, one in log]) if log else None
    if query_id is not None:
        hits = await store.publishing.archive_hits(query_id, after, part, CHUNK_ROWS)
        items, last = [hit.item for hit in hits], hits[-1].id if hits else 0
    else:
        items = await store.publishing.archive_items(after, part, CHUNK_ROWS)
        last = (items[-1].id or 0) if items else 0
    feeds = await store.feeds_by_id({item.feed_id for item in items})
    return (last, [item_row(item, feeds.get(item.feed_id)) for item in items]) if items else None


def item_row(item: Item, feed: Feed | None) -> Row:
    return {
        "id": item.id,
        "source": _name_source(item.feed_id, feed),
        "published_at": item.published,
        "title": item.title,
        "categories": "; ".join(item.categories),
        "link": item.link,
        "identity": item.identity,
        "first_seen": item.first_seen,
        "updated": item.updated,
        "version": item.version,
        "authors": "; ".join(item.authors),
        "language": item.language,
        "summary": item.summary,
        "content": item.content,
    }


def refresh_row(id: int, one: Refresh, feed: Feed | None) -> Row:
    row: Row = {name: getattr(one, name) for name in REFRESH_COLUMNS if name not in ("id", "source", "ending")}
    return {"id": id, "source": _name_source(one.feed_id, feed), "ending": one.ending.value} | row


def _name_source(feed_id: int, feed: Feed | None) -> str:
    return feed.url if feed is not None else f"feed:{feed_id}"
