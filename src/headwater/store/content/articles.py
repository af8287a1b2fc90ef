"""Queues and claims the web pages behind items, and writes their text into the items."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, delete, func, select, update

from headwater.store.content import outbox, search
from headwater.store.content.outbox import OutboxEntry
from headwater.store.database.dialect import build_from_row, claim_due, insert_or_ignore, to_json, upsert
from headwater.store.schema.feed_tables import TRASHED_FEEDS
from headwater.store.schema.item_tables import article, article_feed, article_page, article_query, checkpoint, item

if TYPE_CHECKING:  # a command that lists feeds does not wait for the query engine
    from headwater.store.queries.hits import StoredHit


@dataclass(frozen=True, slots=True)
class Article:
    """The page behind an item. `state` is due, failed (retried at `due`), done or dead."""

    item_id: int
    url: str
    state: str = "due"
    attempts: int = 0
    message: str | None = None
    due: float | None = None


CONSUMER = "articles"


def want_articles(connection: Connection, kind: str, id: int, wanted: bool) -> None:
    """Turn the fetching of pages behind a feed's new items or a query feed's new hits on or off."""
    table, column = (article_feed, "feed_id") if kind == "feed" else (article_query, "query_id")
    if wanted:
        if not any(list_article_sources(connection)):
            outbox.advance_checkpoint(connection, CONSUMER, outbox.find_last_position(connection))
        connection.execute(insert_or_ignore(connection, table), {column: id})
    else:
        connection.execute(delete(table).where(table.c[column] == id))
        if not any(
            list_article_sources(connection)
        ):  # else retention would keep outbox entries for a consumer that is gone
            connection.execute(delete(checkpoint).where(checkpoint.c.consumer == CONSUMER))


def list_article_sources(connection: Connection) -> tuple[frozenset[int], frozenset[int]]:
    """Return the feeds and the query feeds whose pages are fetched."""
    feeds = frozenset(connection.execute(select(article_feed.c.feed_id)).scalars())
    return feeds, frozenset(connection.execute(select(article_query.c.query_id)).scalars())


def queue_articles_from_outbox(connection: Connection, entries: Sequence[OutboxEntry], now: float) -> int:
    """Queue the pages of new items and move the checkpoint; returns how many were queued.

    An item that its publisher has changed is due again, because the change has replaced the page's text.
    """
    feeds, _ = list_article_sources(connection)
    new = [one.item for one in entries if one.kind == "new" and one.item.feed_id in feeds and one.item.link]
    _queue_articles(connection, [(one.id or 0, one.link or "") for one in new], now)
    changed = [one.item for one in entries if one.kind == "update"]
    for one in changed:
        row = connection.execute(select(article).where(article.c.item_id == one.id)).first()
        if row is not None and row.written is not None and bytes(row.written) != hash_text(one.content):
            values = {"state": "due", "due": now, "attempts": 0, "at": now, "written": None}
            connection.execute(update(article).where(article.c.item_id == one.id).values(values))
    outbox.advance_checkpoint(connection, CONSUMER, entries[-1].position)
    return len(new)


def queue_articles_of_hits(connection: Connection, hits: Sequence[StoredHit], now: float) -> None:
    """Queue the pages of new hits, in the transaction in which the query processor saves them."""
    _, queries = list_article_sources(connection)
    wanted = {hit.item.id: hit.item.link for hit in hits if hit.query_id in queries and hit.fresh and hit.item.link}
    _queue_articles(connection, [(id or 0, link or "") for id, link in wanted.items()], now)


def _queue_articles(connection: Connection, new: Sequence[tuple[int, str]], now: float) -> None:
    rows = [{"item_id": id, "url": url, "state": "due", "due": now, "attempts": 0, "at": now} for id, url in new]
    if rows:
        connection.execute(insert_or_ignore(connection, article), rows)


def claim_due_articles(connection: Connection, now: float, lease: float, limit: int) -> list[Article]:
    """Claim pages that are due; nobody else claims them before the lease has passed."""
    trashed = select(item.c.id).where(item.c.id == article.c.item_id, item.c.feed_id.in_(TRASHED_FEEDS))
    changes = {"due": now + lease, "attempts": article.c.attempts + 1, "at": now}
    return [
        build_from_row(Article, row) for row in claim_due(connection, article, now, limit, changes, ~trashed.exists())
    ]


def find_next_due_article(connection: Connection) -> float | None:
    """Return when the next article or attempt is due; None if nothing waits."""
    return connection.execute(select(func.min(article.c.due))).scalar()


def settle_article(
    connection: Connection, item_id: int, state: str, due: float | None, message: str, now: float
) -> None:
    """Record the outcome of fetching a page; a failed one is retried at `due`."""
    values = {"state": state, "due": due, "message": message, "at": now}
    connection.execute(update(article).where(article.c.item_id == item_id).values(values))


def save_article_text(
    connection: Connection,
    item_id: int,
    content: str | None,
    language: str | None,
    categories: Sequence[str],
    now: float,
) -> bool:
    """Save a page's text in its item, as a new version for search and queries; False if the item is gone.

    `content` None keeps the feed's text. A language given by the feed stays.
    """
    found = connection.execute(select(item).where(item.c.id == item_id).with_for_update()).first()
    if found is None:
        return False
    values: dict[str, Any] = {
        "content": found.content if content is None else content,
        "language": found.language or language,
        "categories": to_json(list(categories)) if categories else found.categories,
    }
    if any(values[name] != getattr(found, name) for name in values):
        search.reindex(connection, [item_id])
        version = {"version": item.c.version + 1}
        connection.execute(update(item).where(item.c.id == item_id).values(values | version))
        outbox.lock_outbox(connection)
        outbox.append_entries(connection, "update", [(item_id, now)])
    done = {"state": "done", "due": None, "at": now, "message": None, "written": hash_text(values["content"])}
    connection.execute(update(article).where(article.c.item_id == item_id).values(done))
    return True


@dataclass(frozen=True, slots=True)
class ArticlePage:
    """The HTML of a page behind an item, as its server sent it: clean it before it is shown."""

    url: str
    at: float
    html: bytes


def save_article_page(connection: Connection, item_id: int, page: ArticlePage) -> None:
    """Keep the HTML of the page behind an item."""
    statement = upsert(connection, article_page)
    values = {"url": page.url, "at": page.at, "html": zlib.compress(page.html)}
    statement = statement.on_conflict_do_update(index_elements=["item_id"], set_=values)
    connection.execute(statement, values | {"item_id": item_id})


def keep_newest_article_pages(connection: Connection, limit: int) -> None:
    """Delete the HTML of pages beyond the newest `limit`.

    Once after a batch: transactions that save pages side by side do not see each other's.
    """
    beyond = select(article_page.c.item_id).order_by(article_page.c.at.desc(), article_page.c.item_id.desc())
    connection.execute(delete(article_page).where(article_page.c.item_id.in_(beyond.offset(limit).limit(1000))))


def delete_articles(connection: Connection, item_ids: Sequence[int]) -> None:
    """Delete the articles and pages of items that are deleted."""
    for table in (article, article_page):
        connection.execute(delete(table).where(table.c.item_id.in_(item_ids)))


def delete_orphaned_articles(connection: Connection) -> None:
    """Delete the articles and pages of items that are gone: versions before 0.3.0 left them behind."""
    for table in (article, article_page):
        gone = ~select(item.c.id).where(item.c.id == table.c.item_id).exists()
        connection.execute(delete(table).where(gone))


def has_article_page(connection: Connection, item_id: int) -> bool:
    """Return whether the HTML of the page behind an item is kept."""
    return connection.execute(select(article_page.c.at).where(article_page.c.item_id == item_id)).first() is not None


def find_article_page(connection: Connection, item_id: int) -> ArticlePage | None:
    """Find the HTML of the page behind an item; None if it is not kept."""
    row = connection.execute(select(article_page).where(article_page.c.item_id == item_id)).first()
    return None if row is None else ArticlePage(row.url, row.at, zlib.decompress(row.html))


def find_article(connection: Connection, item_id: int) -> Article | None:
    """Find the page behind an item; None if it was never queued."""
    row = connection.execute(select(article).where(article.c.item_id == item_id)).first()
    return None if row is None else build_from_row(Article, row)


def hash_text(content: str | None) -> bytes:
    """Hash a text, to see later whether the item still has it."""
    return hashlib.blake2b((content or "").encode("utf-8", "replace"), digest_size=16).digest()
