"""Saves batches of verdicts in one transaction of a dozen statements: the hot path of the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, bindparam, select, update

from headwater.formats.values.links import normalise_url
from headwater.model import Ending, Item, Verdict
from headwater.store.content import outbox, search
from headwater.store.content.feed_state import FEED_STATE_COLUMNS, feed_state_row, hash_identity, window_row
from headwater.store.content.items import ITEM_COLUMNS, item_to_row, item_to_values, save_earlier_versions
from headwater.store.content.refreshes import REFRESH_COLUMNS, add_hourly_counts, refresh_to_values
from headwater.store.content.verdict_statements import (
    InsertIgnored,
    InsertMany,
    PreparedStatement,
    Savepoint,
    SelectByIds,
    SelectByKeys,
)
from headwater.store.database.dialect import chunks, upsert
from headwater.store.database.driver_errors import concerns_values
from headwater.store.database.item_ids import reserve_ids
from headwater.store.readers import marks
from headwater.store.schema.feed_tables import FEED_IS_LIVE, feed, feed_state, feed_window, refresh
from headwater.store.schema.item_tables import item, seen_identity
from headwater.store.schema.metadata import replace_refused
from headwater.store.store import Store


@dataclass(frozen=True, slots=True)
class SavedRefresh:
    """The result of saving one verdict.

    `new_ids` belongs position by position to `new`, the items that were not there before; `updated_ids` are the
    items whose content was replaced. `skipped` says in words why nothing was written: the feed has been removed, the
    refresh was saved before, or the database refuses its values.
    `url_taken_by` is the feed that already has the address this one wanted to move to.
    """

    feed_id: int
    new: tuple[Item, ...] = ()
    new_ids: tuple[int, ...] = ()
    updated_ids: tuple[int, ...] = ()
    skipped: str | None = None
    url_taken_by: int | None = None


CHUNK = 1000
_SELECT_FEEDS = SelectByIds(
    "SELECT id, url, title, link, gone_since FROM feed WHERE id IN {ids} AND deleted_at IS NULL ORDER BY id",
    "FOR KEY SHARE",
)
_INSERT_REFRESHES = InsertIgnored(refresh, REFRESH_COLUMNS, ["feed_id", "at"])
_INSERT_SEEN = InsertIgnored(seen_identity, ["feed_id", "key", "item_id", "content_hash"], ["item_id"])
_INSERT_ALIASES = InsertIgnored(seen_identity, ["feed_id", "key", "item_id", "content_hash"], ["feed_id", "key"])
_INSERT_ITEMS = InsertMany(item, ITEM_COLUMNS)
_SELECT_SEEN_ITEMS = SelectByKeys(seen_identity, "item_id")
_UPDATE_FEED_STATE = PreparedStatement(
    lambda _: update(feed_state).where(feed_state.c.feed_id == bindparam("of_feed")), FEED_STATE_COLUMNS
)
_UPSERT_WINDOW = PreparedStatement(lambda connection: _upsert_window(connection), ["feed_id", "entries"])
_READ_ENDINGS = (Ending.CHANGED, Ending.PARTIAL)  # after any other ending the window is as it was
_UPDATED_COLUMNS = (
    *("published", "updated", "dated", "content_hash", "title", "link", "language"),
    *("authors", "categories", "enclosures", "summary", "content", "source", "details"),
)
_UPDATE_ITEM = update(item).where(item.c.id == bindparam("of_item"))
_UPDATE_ITEM = _UPDATE_ITEM.values(
    {name: bindparam(name) for name in _UPDATED_COLUMNS} | {"version": item.c.version + 1}
)
_SELECT_DATES = SelectByIds("SELECT id, published, dated FROM item WHERE id IN {ids}")
_UPDATE_SEEN_HASH = update(seen_identity).where(
    seen_identity.c.feed_id == bindparam("of_feed"), seen_identity.c.key == bindparam("of_key")
)
_UPDATE_FEED_TITLE = PreparedStatement(
    lambda _: update(feed).where(feed.c.id == bindparam("of_feed")), ["title", "link"]
)
_UPDATE_NEW_COUNT = update(refresh).where(refresh.c.feed_id == bindparam("of_feed"), refresh.c.at == bindparam("of_at"))


class BatchRefused(Exception):
    """The database refuses values of a verdict: roll back, and save the verdicts one by one."""


async def save_refreshes(store: Store, verdicts: Sequence[Verdict]) -> list[SavedRefresh]:
    """Save a batch of verdicts in one transaction; when this returns, they survive kill −9.

    Each verdict is saved wholly or not at all; one that cannot be saved (see `SavedRefresh.skipped`) does not stop the
    others. Items already seen under (feed, identity) are ignored; saving the same refresh (feed, at) twice writes it
    once. New and updated items get their outbox entries in the same transaction.
    """
    try:
        return await store.write(save_batch, verdicts)
    except BatchRefused:
        return await store.write(save_one_by_one, verdicts)


def save_batch(connection: Connection, verdicts: Sequence[Verdict]) -> list[SavedRefresh]:
    """Save all verdicts in one transaction, or raise `BatchRefused`. There is no savepoint: SQLite would copy every
    page that changes after it, and PostgreSQL take two more round trips."""
    if any(map(_contains_nul, verdicts)):
        raise BatchRefused
    try:
        return _save_verdicts(connection, verdicts) if verdicts else []
    except Exception as error:
        if concerns_values(error):
            raise BatchRefused from error
        raise


def save_one_by_one(connection: Connection, verdicts: Sequence[Verdict]) -> list[SavedRefresh]:
    """Save the verdicts as one batch; if the database refuses somebody's values, save each alone, so that only the
    bad verdict is skipped."""
    if not verdicts:
        return []
    if not any(_contains_nul(verdict) for verdict in verdicts):
        saved = _try_batch(connection, verdicts)
        if not isinstance(saved, Exception):
            return saved
    return [_save_single(connection, verdict) for verdict in verdicts]


def _try_batch(connection: Connection, verdicts: Sequence[Verdict]) -> list[SavedRefresh] | Exception:
    """Save all verdicts behind a savepoint; returns the error if their values were refused. Any other error is
    raised."""
    savepoint = Savepoint(connection)
    try:
        saved = _save_verdicts(connection, verdicts)
    except Exception as error:
        # Not a `with`: when the disk is full, SQLite has rolled back everything, and rolling back to a savepoint that
        # no longer exists would hide the cause. The owner of the transaction ends it.
        if not concerns_values(error):
            raise
        savepoint.rollback()
        return error
    savepoint.release()
    return saved


def _contains_nul(verdict: Verdict) -> bool:
    """Tell whether a text contains NUL, which SQLite would accept and PostgreSQL refuses.

    Other values are refused by both.
    """
    for one in (*verdict.new, *verdict.updated):
        if "\0" in one.identity or "\0" in (one.title or "") or "\0" in (one.link or ""):
            return True
        if "\0" in (one.summary or "") or "\0" in (one.content or ""):
            return True
    return False


def _save_single(connection: Connection, verdict: Verdict) -> SavedRefresh:
    saved = _try_batch(connection, [replace_refused(verdict)])
    if not isinstance(saved, Exception):
        return saved[0]
    why = str(getattr(saved, "orig", saved)).splitlines()[0]
    return SavedRefresh(verdict.refresh.feed_id, skipped=f"The database cannot hold what this refresh brought: {why}.")


@dataclass(slots=True)
class _WrittenVerdict:
    """A verdict with the ids that were written for it so far."""

    verdict: Verdict
    new: Sequence[Item] = ()
    new_ids: Sequence[int] = ()
    updated_ids: list[int] = field(default_factory=list)
    skipped: str | None = None
    url_taken_by: int | None = None

    def to_saved_refresh(self) -> SavedRefresh:
        """Return the result of saving it."""
        return SavedRefresh(
            self.verdict.refresh.feed_id,
            tuple(self.new),
            tuple(self.new_ids),
            tuple(self.updated_ids),
            self.skipped,
            self.url_taken_by,
        )


def _save_verdicts(connection: Connection, verdicts: Sequence[Verdict]) -> list[SavedRefresh]:
    written = [_WrittenVerdict(verdict) for verdict in verdicts]
    feeds = _lock_feeds(connection, verdicts)
    live = _insert_refreshes(connection, written, feeds)
    if live:
        _insert_items(connection, live)
        _insert_aliases(connection, live)
        _update_items(connection, live)
        in_time = [each for each in live if not each.verdict.late]
        _save_feed_states(connection, in_time)
        _update_feeds(connection, in_time, feeds)
        _append_to_outbox(connection, live)
    return [each.to_saved_refresh() for each in written]


class _FeedBefore(NamedTuple):
    """A feed before the verdict is saved."""

    id: int
    url: str
    title: str | None
    link: str | None
    gone_since: float | None


def _lock_feeds(connection: Connection, verdicts: Sequence[Verdict]) -> dict[int, _FeedBefore]:
    """Load the feeds and lock them, so that none is removed before the transaction ends."""
    rows = _SELECT_FEEDS.run(connection, {verdict.refresh.feed_id for verdict in verdicts})
    return {row[0]: _FeedBefore._make(row) for row in rows}


def _insert_refreshes(
    connection: Connection, written: list[_WrittenVerdict], feeds: dict[int, _FeedBefore]
) -> list[_WrittenVerdict]:
    """Write the refreshes; those of removed feeds, and those written before, are skipped."""
    here: dict[tuple[int, float], _WrittenVerdict] = {}
    for each in written:
        done = each.verdict.refresh
        if done.feed_id not in feeds:
            each.skipped = f"Feed {done.feed_id} has been removed."
        elif (done.feed_id, done.at) in here:
            each.skipped = "This refresh is in the batch twice."
        else:
            here[done.feed_id, done.at] = each
    if not here:
        return []
    rows = [refresh_to_values(here[place].verdict.refresh) for place in sorted(here)]
    inserted = _INSERT_REFRESHES.run_returning(connection, rows)
    for place, each in here.items():
        if place not in inserted:
            each.skipped = "This refresh has been saved before."
    return [each for place, each in here.items() if place in inserted]


def _insert_items(connection: Connection, live: list[_WrittenVerdict]) -> None:
    brought = [one for each in live for one in each.verdict.new]
    if brought:
        ids = reserve_ids(connection, item, len(brought))
        rows = [
            (one.feed_id, hash_identity(one.identity), id, one.content_hash)
            for one, id in zip(brought, ids, strict=True)
        ]
        rows.sort()  # all transactions write feeds and keys in the same order
        really = _INSERT_SEEN.run_returning(connection, rows)
        kept = [(one, id) for one, id in zip(brought, ids, strict=True) if id in really]
        _INSERT_ITEMS.run(connection, [item_to_values(one, id) for one, id in kept])
        search.queue_for_indexing(connection, [id for _, id in kept])
        _assign_new_items(live, ids, really)
    wrong = [each for each in live if len(each.new) != each.verdict.refresh.new]
    if wrong:  # the log counts the items that were really stored
        counts = [
            {"of_feed": each.verdict.refresh.feed_id, "of_at": each.verdict.refresh.at, "new": len(each.new)}
            for each in wrong
        ]
        connection.execute(_UPDATE_NEW_COUNT, counts)


def _insert_aliases(connection: Connection, live: list[_WrittenVerdict]) -> None:
    """Remember the new identities of stored items, so that they find the item when it leaves the window."""
    aliases = {
        (each.verdict.refresh.feed_id, hash_identity(one.stored)): one for each in live for one in each.verdict.aliases
    }
    if not aliases:
        return
    found = [
        (feed_id, hash_identity(aliases[feed_id, key].identity), item_id, aliases[feed_id, key].content_hash)
        for feed_id, key, item_id in _SELECT_SEEN_ITEMS.run(connection, aliases)
    ]
    _INSERT_ALIASES.run_returning(connection, sorted(found, key=itemgetter(0, 1)))


def _assign_new_items(live: list[_WrittenVerdict], ids: Sequence[int], really: set[int]) -> None:
    """Assign the items that were really new to their verdicts; `ids` are in the order of the items."""
    start = 0
    for each in live:
        new = each.verdict.new
        given = ids[start : start + len(new)]
        start += len(new)
        if really.issuperset(given):
            each.new, each.new_ids = new, given
        else:
            each.new = [one for one, id in zip(new, given, strict=True) if id in really]
            each.new_ids = [id for id in given if id in really]


def _update_items(connection: Connection, live: list[_WrittenVerdict]) -> None:
    changed = {(one.feed_id, hash_identity(one.identity)): (each, one) for each in live for one in each.verdict.updated}
    if not changed:
        return
    ids: dict[tuple[int, bytes], int | None] = {
        (feed_id, key): item_id for feed_id, key, item_id in _SELECT_SEEN_ITEMS.run(connection, changed)
    }
    rehashed = [
        {"of_feed": place[0], "of_key": place[1], "content_hash": changed[place][1].content_hash} for place in ids
    ]
    if rehashed:
        connection.execute(_UPDATE_SEEN_HASH, rehashed)
    before: dict[int, tuple[float, bool]] = {}
    for part in chunks((id for id in ids.values() if id is not None), CHUNK):
        before |= {id: (published, bool(dated)) for id, published, dated in _SELECT_DATES.run(connection, part)}
    # Items that are not there were deleted by retention.
    here = [(*changed[place], id) for place, id in ids.items() if id is not None and id in before]
    if not here:
        return
    for part in chunks((id for _, _, id in here), CHUNK):
        search.reindex(connection, part)
    save_earlier_versions(connection, {id: each.verdict.refresh.at for each, _, id in here})
    kept = [(_keep_date(one, *before[id]), id) for _, one, id in here]
    rows = [{name: row[name] for name in _UPDATED_COLUMNS} | {"of_item": id} for row, id in _item_rows(kept)]
    connection.execute(_UPDATE_ITEM, rows)
    again = {(one.feed_id, id): one.published for one, id in kept if before[id][0] != one.published}
    if again:
        marks.update_mark_times(connection, again)
    for each, _, id in here:
        each.updated_ids.append(id)


def _keep_date(one: Item, published: float, dated: bool) -> Item:
    """Return the item with the date it has: an update without a date does not move it to the top of lists."""
    return one if one.dated else msgspec.structs.replace(one, published=published, dated=dated)


def _item_rows(kept: list[tuple[Item, int]]) -> list[tuple[dict[str, Any], int]]:
    return [(item_to_row(one, id), id) for one, id in kept]


def _upsert_window(connection: Connection) -> Any:
    statement = upsert(connection, feed_window)
    new = statement.excluded.entries
    # Most windows are as they were; not writing those saves a page each.
    return statement.on_conflict_do_update(
        index_elements=["feed_id"], set_={"entries": new}, where=feed_window.c.entries != new
    )


def _save_feed_states(connection: Connection, live: list[_WrittenVerdict]) -> None:
    _UPDATE_FEED_STATE.run(connection, (feed_state_row(each.verdict.known) for each in live))
    read = (each.verdict.known for each in live if each.verdict.refresh.ending in _READ_ENDINGS)
    _UPSERT_WINDOW.run(connection, map(window_row, read))


def _update_feeds(connection: Connection, live: list[_WrittenVerdict], feeds: dict[int, _FeedBefore]) -> None:
    named = []
    for each in live:
        verdict, old = each.verdict, feeds[each.verdict.refresh.feed_id]
        title = old.title if verdict.title is None else verdict.title
        link = old.link if verdict.link is None else verdict.link
        if title != old.title or link != old.link:
            named.append({"of_feed": old.id, "title": title, "link": link})
        values: dict[str, Any] = {}
        if verdict.gone and old.gone_since is None:
            values["gone_since"] = verdict.refresh.at
        elif verdict.refresh.ending.ok and not verdict.gone and old.gone_since is not None:
            values["gone_since"] = None
        if verdict.url is not None and verdict.url != old.url:
            each.url_taken_by = _find_address_owner(connection, verdict.url, old.id)
            if each.url_taken_by is None:
                values |= {"url": verdict.url, "url_key": normalise_url(verdict.url)}
        if values:
            connection.execute(update(feed).where(feed.c.id == old.id).values(values))
    _UPDATE_FEED_TITLE.run(connection, named)


def _find_address_owner(connection: Connection, url: str, besides: int) -> int | None:
    query = select(feed.c.id).where(feed.c.url_key == normalise_url(url), feed.c.id != besides, FEED_IS_LIVE)
    return connection.execute(query).scalar()


def _append_to_outbox(connection: Connection, live: list[_WrittenVerdict]) -> None:
    """Append to the outbox, as the last step: in PostgreSQL other writers wait from here to our commit."""
    outbox.lock_outbox(connection)
    outbox.append_entries(connection, "new", ((id, each.verdict.refresh.at) for each in live for id in each.new_ids))
    outbox.append_entries(
        connection, "update", ((id, each.verdict.refresh.at) for each in live for id in each.updated_ids)
    )
    add_hourly_counts(connection, ((each.verdict.refresh, len(each.new)) for each in live))
