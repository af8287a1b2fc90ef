"""Marks items or whole streams as read or starred, undoes it, and replaces many marks by moved read positions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson
from sqlalchemy import (
    Connection,
    TextClause,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    null,
    or_,
    select,
    text,
    update,
)

from headwater.errors import NotFound
from headwater.store.database.dialect import chunks, upsert
from headwater.store.database.item_ids import find_last_item_ids, find_last_settled_item
from headwater.store.readers.reader_items import find_visible
from headwater.store.readers.stream_positions import HIT_ID_OFFSET, Stream, list_stream_feed_ids, list_stream_query_ids
from headwater.store.readers.subscriptions import list_readers, require_query_subscription, require_subscription
from headwater.store.schema.item_tables import item
from headwater.store.schema.query_tables import hit
from headwater.store.schema.reader_tables import item_label, mark, mark_undo, query_subscription, subscription
from headwater.store.store import Store


@dataclass(frozen=True, slots=True)
class MarkedRead:
    """The number of items that were unread, and the number by which marking them can be undone."""

    count: int
    undo: int | None


CHUNK = 1000
ALL = Stream()
MAX_UNDOS = 20  # of one person
LATEST_SAVE = 3600.0  # seconds between the fetch of an item and its id, at the most


def mark_items(
    connection: Connection,
    user_id: int,
    ids: Collection[int],
    now: float,
    *,
    read: bool | None = None,
    starred: bool | None = None,
) -> int:
    """Mark the items among these that the reader may see; returns how many. None leaves a mark as it is."""
    if read is None and starred is None:
        return 0
    mine = _mark_subscribed_items(
        connection, user_id, [id for id in ids if 0 <= id < HIT_ID_OFFSET], read, starred, now
    )
    rest = [id for id in ids if id not in mine]
    return len(mine) + (_mark_other_items(connection, user_id, rest, read, starred, now) if rest else 0)


def _mark_subscribed_items(
    connection: Connection, user_id: int, ids: Collection[int], read: bool | None, starred: bool | None, now: float
) -> set[int]:
    """Mark the items of subscribed feeds in one statement; returns their ids."""
    dialect = connection.dialect.name
    given = orjson.dumps(list(ids)).decode() if dialect == "sqlite" else list(ids)
    values = {"user": user_id, "now": now, "state": 1 if read else 0, "ids": given}
    return set(connection.execute(_build_mark_statement(dialect, read, starred), values).scalars())


@lru_cache(16)
def _build_mark_statement(dialect: str, read: bool | None, starred: bool | None) -> TextClause:
    # A mark “unread” repeats when its item arrived and was published, by which lists of unread items are ordered.
    new = {"user_id": ":user", "feed_id": "i.feed_id", "item_id": "i.id", "changed": "CAST(:now AS double precision)"}
    if read is not None:
        new["state"] = "CAST(:state AS smallint)"
        new |= {name: f"CASE WHEN :state = 0 THEN i.{column} END" for name, column in _TIMES.items()}
    changes = {name: f"excluded.{name}" for name in new if name not in ("user_id", "feed_id", "item_id")}
    if starred is not None:  # starring again does not change since when
        new["starred"] = "CAST(:now AS double precision)" if starred else "CAST(NULL AS double precision)"
        changes["starred"] = "COALESCE(mark.starred, excluded.starred)" if starred else "NULL"
    return text(
        f"INSERT INTO mark ({', '.join(new)}) SELECT {', '.join(new.values())} FROM item i CROSS JOIN subscription s "
        f"WHERE i.id {_ID_LIST[dialect]} AND s.user_id = :user AND s.feed_id = i.feed_id ORDER BY i.feed_id, i.id "
        f"ON CONFLICT (user_id, feed_id, item_id) DO UPDATE SET {', '.join(f'{k} = {v}' for k, v in changes.items())} "
        "RETURNING item_id"
    )


_TIMES = {"arrived": "first_seen", "published": "published"}
_ID_LIST = {"sqlite": "IN (SELECT value FROM json_each(:ids))", "postgresql": "= ANY(CAST(:ids AS bigint[]))"}


def _mark_other_items(
    connection: Connection, user_id: int, ids: Collection[int], read: bool | None, starred: bool | None, now: float
) -> int:
    """Mark items that query feeds show, and starred items of feeds that are no longer subscribed."""
    places = sorted(set(find_visible(connection, user_id, ids).values()))
    values: dict[str, Any] = {}
    if read is not None:
        values["state"] = 1 if read else 0
    if starred is not None:
        values["starred"] = now if starred else None
    _upsert_marks(connection, user_id, places, values, now)
    return len(places)


def set_states(
    connection: Connection, user_id: int, places: Iterable[tuple[int, int]], state: int | None, now: float
) -> None:
    """Mark items (feed, item) as read (1) or unread (0), or let their feeds' positions decide (None)."""
    _upsert_marks(connection, user_id, places, {"state": state}, now)


def _upsert_marks(
    connection: Connection, user_id: int, places: Iterable[tuple[int, int]], values: Mapping[str, Any], now: float
) -> None:
    row = {"user_id": user_id, "changed": now, **values}
    rows = [{**row, "feed_id": feed_id, "item_id": item_id} for feed_id, item_id in places]
    if not rows:
        return
    statement = upsert(connection, mark)
    new = statement.excluded
    changes = {name: new[name] for name in values} | {"changed": new.changed}
    if "state" in values:
        changes["arrived"] = null()  # filled in again below
    if "starred" in values:  # starring an item again does not change since when it is starred
        keeps = new.starred.is_not(None) & mark.c.starred.is_not(None)
        changes["starred"] = case((keeps, mark.c.starred), else_=new.starred)
    key = ["user_id", "feed_id", "item_id"]
    connection.execute(statement.on_conflict_do_update(index_elements=key, set_=changes), rows)
    if values.get("state") == 0:
        fill_mark_times(connection, user_id)


def fill_mark_times(connection: Connection, user_id: int) -> None:
    """Fill in when items that were just marked unread arrived and were published."""
    connection.execute(_FILL_TIMES, {"user": user_id})


_FILL_TIMES = text(
    "UPDATE mark SET (arrived, published) = (SELECT i.first_seen, i.published FROM item i WHERE i.id = mark.item_id) "
    "WHERE user_id = :user AND state = 0 AND arrived IS NULL"
)


def mark_items_read(connection: Connection, user_id: int, ids: Collection[int], now: float) -> MarkedRead:
    """Mark the unread items among these that the reader may see, in a way that can be undone."""
    kept, fresh = _find_unread(connection, user_id, ids)
    set_states(connection, user_id, kept + fresh, 1, now)
    before = {"feeds": [], "queries": [], "kept": kept, "marked": fresh}
    return MarkedRead(len(kept) + len(fresh), _save_undo(connection, user_id, before, now))


def _find_unread(
    connection: Connection, user_id: int, ids: Collection[int]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Find the unread items among these that the reader may see: those marked unread, and those never read."""
    kept: list[tuple[int, int]] = []
    fresh: list[tuple[int, int]] = []
    for chunk in chunks({item_id for _, item_id in find_visible(connection, user_id, ids).values()}, CHUNK):
        for feed_id, item_id, state in connection.execute(_UNREAD_AMONG, {"user": user_id, "ids": chunk}):
            (fresh if state is None else kept).append((feed_id, item_id))
    return sorted(kept), sorted(fresh)


_UNREAD_AMONG = (
    select(item.c.feed_id, item.c.id, mark.c.state)
    .select_from(
        item.outerjoin(
            subscription, and_(subscription.c.user_id == bindparam("user"), subscription.c.feed_id == item.c.feed_id)
        ).outerjoin(
            mark,
            and_(mark.c.user_id == bindparam("user"), mark.c.feed_id == item.c.feed_id, mark.c.item_id == item.c.id),
        )
    )
    .where(
        item.c.id.in_(bindparam("ids", expanding=True)),
        or_(mark.c.state == 0, and_(mark.c.state.is_(None), item.c.id > func.coalesce(subscription.c.read_up_to, 0))),
    )
)


def mark_stream_read(
    connection: Connection,
    user_id: int,
    stream: Stream = ALL,
    *,
    now: float,
    up_to: int | None = None,
    until: float | None = None,
    also: Collection[int] = (),
) -> MarkedRead:
    """Mark a stream as read: up to an item's id, or the items that arrived before `until`, or all. Also marks the
    items in `also`, which the reader saw beyond that.

    The positions move, marks “unread” are removed, and items that query feeds show of other feeds are marked.
    """
    if stream.feed is not None:
        require_subscription(connection, user_id, stream.feed)
    if stream.query is not None:
        require_query_subscription(connection, user_id, stream.query)
    if stream.tag is not None:
        also = {*also, *_find_labelled(connection, user_id, stream.tag, up_to, until)}
    last, settled = _find_last_read(connection, up_to, until)
    feeds = list_stream_feed_ids(connection, user_id, stream)
    query_ids = list_stream_query_ids(connection, user_id, stream)
    was_unread = _count_unread_up_to(connection, user_id, feeds, settled)
    before: dict[str, Any] = {
        "feeds": _move_positions(connection, user_id, feeds, settled),
        "kept": _mark_kept_read(connection, user_id, feeds, settled, now),
    }
    late = _find_late_items(connection, user_id, feeds, last, up_to, until) if until is not None else []
    if settled < last:
        late += _find_unsettled_items(connection, user_id, feeds, settled, last)
    shown = [place for id in query_ids for place in _find_unread_hits(connection, user_id, id, up_to, until)]
    kept, seen = _find_unread(connection, user_id, also) if also else ([], [])
    fresh = sorted({*late, *shown, *seen} - set(kept))
    set_states(connection, user_id, kept + fresh, 1, now)
    before["kept"] += kept
    before |= {"marked": fresh, "queries": _move_query_positions(connection, user_id, query_ids, up_to, until)}
    return MarkedRead(was_unread + len(kept) + len(fresh), _save_undo(connection, user_id, before, now))


def _find_labelled(
    connection: Connection, user_id: int, label: str, up_to: int | None, until: float | None
) -> Sequence[int]:
    query = select(item.c.id).join(item_label, item_label.c.item_id == item.c.id)
    query = query.where(item_label.c.user_id == user_id, item_label.c.label == label)
    if up_to is not None:
        query = query.where(item.c.id <= up_to)
    if until is not None:
        query = query.where(item.c.first_seen < until)
    return connection.execute(query).scalars().all()


def _find_last_read(connection: Connection, up_to: int | None, until: float | None) -> tuple[int, int]:
    """Return the last item to be marked, and the last settled one up to it.

    With `until`, no item up to the first one arrived later. Positions stop at the settled one, because beyond it an
    item may be being saved that nobody has seen.
    """
    newest, settled = find_last_item_ids(connection)
    if up_to is not None:
        newest = min(newest, up_to)
    if until is not None:
        later = connection.execute(select(func.min(item.c.id)).where(item.c.first_seen >= until)).scalar()
        newest = newest if later is None else min(newest, later - 1)
    return newest, min(newest, settled)


def _count_unread_up_to(connection: Connection, user_id: int, feeds: Iterable[int], last: int) -> int:
    total = 0
    for chunk in chunks(feeds, CHUNK):
        given = {"user": user_id, "last": last, "feeds": chunk}
        total += sum(
            int(connection.execute(statement, given).scalar_one())
            for statement in (_COUNT_AFTER_POSITION, _COUNT_KEPT_UNREAD)
        )
        total -= int(connection.execute(_COUNT_READ_AFTER_POSITION, given).scalar_one())
    return total


def _text_of_feeds(sql: str) -> Any:
    return text(sql).bindparams(bindparam("feeds", expanding=True))


_COUNT_AFTER_POSITION = _text_of_feeds(
    "SELECT COUNT(*) FROM subscription s CROSS JOIN item i WHERE s.user_id = :user AND s.feed_id IN :feeds "
    "AND i.feed_id = s.feed_id AND i.id > s.read_up_to AND i.id <= :last"
)
_COUNT_READ_AFTER_POSITION = _text_of_feeds(
    "SELECT COUNT(*) FROM mark m CROSS JOIN subscription s WHERE m.user_id = :user AND m.feed_id IN :feeds "
    "AND m.state = 1 AND s.user_id = :user AND s.feed_id = m.feed_id AND m.item_id > s.read_up_to "
    "AND m.item_id <= :last"
)
_COUNT_KEPT_UNREAD = _text_of_feeds(
    "SELECT COUNT(*) FROM mark m CROSS JOIN subscription s WHERE m.user_id = :user AND m.state = 0 "
    "AND m.feed_id IN :feeds AND s.user_id = :user AND s.feed_id = m.feed_id "
    "AND m.item_id <= s.read_up_to AND m.item_id <= :last"
)


def _move_positions(connection: Connection, user_id: int, feeds: Iterable[int], last: int) -> list[tuple[int, int]]:
    """Move positions forward to `last`; returns the former ones."""
    before: list[tuple[int, int]] = []
    for chunk in chunks(feeds, CHUNK):
        mine = (
            subscription.c.user_id == user_id,
            subscription.c.feed_id.in_(chunk),
            subscription.c.read_up_to < last,
        )
        rows = connection.execute(select(subscription.c.feed_id, subscription.c.read_up_to).where(*mine))
        before += [(row.feed_id, row.read_up_to) for row in rows]
        connection.execute(update(subscription).where(*mine).values(read_up_to=last))
    return before


def _mark_kept_read(
    connection: Connection, user_id: int, feeds: Iterable[int], last: int, now: float
) -> list[tuple[int, int]]:
    """Mark the items read that were kept unread, and return them."""
    kept: list[tuple[int, int]] = []
    for chunk in chunks(feeds, CHUNK):
        mine = (
            mark.c.user_id == user_id,
            mark.c.feed_id.in_(chunk),
            text("state = 0"),  # spelled as in the partial index
            mark.c.item_id <= last,
        )
        kept += [(f, i) for f, i in connection.execute(select(mark.c.feed_id, mark.c.item_id).where(*mine))]
        connection.execute(update(mark).where(*mine).values(state=1, changed=now))
    return kept


def _find_late_items(
    connection: Connection, user_id: int, feeds: Collection[int], last: int, up_to: int | None, until: float
) -> list[tuple[int, int]]:
    """Find unread items beyond the id `last` that arrived before `until`: batches are not saved in order of arrival."""
    wanted = set(feeds)
    bounds = {"last": last, "up_to": 2**62 if up_to is None else up_to, "from": until - LATEST_SAVE, "until": until}
    found = connection.execute(_SELECT_LATE, {"user": user_id, **bounds})
    return [(feed_id, id) for feed_id, id in found if feed_id in wanted]


def _find_unsettled_items(
    connection: Connection, user_id: int, feeds: Collection[int], settled: int, last: int
) -> list[tuple[int, int]]:
    """Find unread items beyond the settled ones; they are marked one by one."""
    wanted = set(feeds)
    found = connection.execute(_SELECT_UNSETTLED, {"user": user_id, "settled": settled, "last": last})
    return [(feed_id, id) for feed_id, id in found if feed_id in wanted]


_SELECT_UNREAD = (
    "SELECT i.feed_id, i.id FROM item i CROSS JOIN subscription s "
    "LEFT JOIN mark m ON m.user_id = :user AND m.feed_id = i.feed_id AND m.item_id = i.id "
    "WHERE s.user_id = :user AND s.feed_id = i.feed_id "
    "AND (m.state = 0 OR (m.state IS NULL AND i.id > s.read_up_to)) "
)
_SELECT_LATE = text(
    f"{_SELECT_UNREAD} AND i.first_seen >= :from AND i.first_seen < :until AND i.id > :last AND i.id <= :up_to"
)
_SELECT_UNSETTLED = text(f"{_SELECT_UNREAD} AND i.id > :settled AND i.id <= :last")


def _find_unread_hits(
    connection: Connection, user_id: int, query_id: int, up_to: int | None, until: float | None
) -> list[tuple[int, int]]:
    """Find the unread items that a query feed shows."""
    given = {"user": user_id, "query": query_id, "last": up_to or 2**62, "until": until or 1e300}
    return [(f, i) for f, i in connection.execute(_SELECT_UNREAD_HITS, given)]


_SELECT_UNREAD_HITS = text(
    "SELECT h.feed_id, h.item_id FROM hit h "
    "LEFT JOIN subscription s ON s.user_id = :user AND s.feed_id = h.feed_id "
    "LEFT JOIN mark m ON m.user_id = :user AND m.feed_id = h.feed_id AND m.item_id = h.item_id "
    "WHERE h.query_id = :query AND h.current AND h.item_id <= :last AND h.arrived < :until "
    "AND (m.state = 0 OR (m.state IS NULL AND h.item_id > COALESCE(s.read_up_to, 0)))"
)


def _move_query_positions(
    connection: Connection, user_id: int, query_ids: Iterable[int], up_to: int | None, until: float | None
) -> list[tuple[int, int]]:
    """Move the positions in query feeds forward; returns the former ones."""
    before: list[tuple[int, int]] = []
    for id in query_ids:
        mine = (query_subscription.c.user_id == user_id, query_subscription.c.query_id == id)
        old = connection.execute(select(query_subscription.c.read_up_to).where(*mine)).scalar_one()
        last = connection.execute(select(func.max(hit.c.id)).where(hit.c.query_id == id)).scalar() or 0
        later = select(func.min(hit.c.id)).where(hit.c.query_id == id)
        for bound in ([] if up_to is None else [hit.c.item_id > up_to]) + (
            [] if until is None else [hit.c.arrived >= until]
        ):
            first = connection.execute(later.where(bound)).scalar()
            last = last if first is None else min(last, first - 1)
        if last > old:
            before.append((id, old))
            connection.execute(update(query_subscription).where(*mine).values(read_up_to=last))
    return before


def _save_undo(connection: Connection, user_id: int, before: Mapping[str, Any], now: float) -> int | None:
    if not any(before.values()):
        return None
    values = {"user_id": user_id, "at": now, "before": orjson.dumps(before).decode()}
    id: int = connection.execute(insert(mark_undo).returning(mark_undo.c.id), values).scalar_one()
    mine = select(mark_undo.c.id).where(mark_undo.c.user_id == user_id).order_by(mark_undo.c.id.desc())
    old = connection.execute(mine.offset(MAX_UNDOS)).scalars().all()
    if old:
        connection.execute(delete(mark_undo).where(mark_undo.c.id.in_(old)))
    return id


def undo_mark_read(connection: Connection, user_id: int, undo_id: int, now: float) -> None:
    """Undo `mark_stream_read` or `mark_items_read`; items that were marked one by one since keep their marks."""
    gone = (
        delete(mark_undo).where(mark_undo.c.id == undo_id, mark_undo.c.user_id == user_id).returning(mark_undo.c.before)
    )
    row = connection.execute(gone).first()
    if row is None:
        raise NotFound("There is nothing to undo, or it is too late.")
    before = orjson.loads(row.before)
    if before["feeds"]:
        connection.execute(
            _RESTORE_POSITION, [{"of_user": user_id, "of_feed": f, "read_up_to": at} for f, at in before["feeds"]]
        )
    if before["queries"]:
        rows = [{"of_user": user_id, "of_query": q, "read_up_to": at} for q, at in before["queries"]]
        connection.execute(_RESTORE_QUERY_POSITION, rows)
    for places, state in ((before["kept"], 0), (before["marked"], None)):
        set_states(connection, user_id, places, state, now)


_RESTORE_POSITION = update(subscription).where(
    subscription.c.user_id == bindparam("of_user"), subscription.c.feed_id == bindparam("of_feed")
)
_RESTORE_POSITION = _RESTORE_POSITION.values(read_up_to=bindparam("read_up_to"))
_RESTORE_QUERY_POSITION = update(query_subscription).where(
    query_subscription.c.user_id == bindparam("of_user"), query_subscription.c.query_id == bindparam("of_query")
)
_RESTORE_QUERY_POSITION = _RESTORE_QUERY_POSITION.values(read_up_to=bindparam("read_up_to"))


def delete_marks_of_items(connection: Connection, feed_id: int, item_ids: Collection[int]) -> None:
    """Delete the marks of items that are deleted, because counts rely on every mark having its item."""
    for chunk in chunks(item_ids, CHUNK):
        readers = select(subscription.c.user_id).where(subscription.c.feed_id == feed_id)
        which = (mark.c.user_id.in_(readers), mark.c.feed_id == feed_id, mark.c.item_id.in_(chunk))
        connection.execute(delete(mark).where(*which))


def update_mark_times(connection: Connection, changed: Mapping[tuple[int, int], float]) -> None:
    """Change the time of publication in marks whose items, by feed and id, have a new one."""
    rows = [{"feed": feed, "item": id, "published": at} for (feed, id), at in changed.items()]
    connection.execute(_UPDATE_PUBLISHED, rows)


_UPDATE_PUBLISHED = text(
    "UPDATE mark SET published = :published WHERE user_id IN (SELECT user_id FROM subscription WHERE feed_id = :feed) "
    "AND feed_id = :feed AND item_id = :item AND state = 0"
)


UNDO_SECONDS = 3600.0  # during which “mark all as read” can be undone
MANY_READ = 10  # items of a feed that are read one by one before its position is moved
WORTH_MOVING = 100  # newer items before a position moves to the end
REDUNDANT_AFTER = 7 * 86_400.0  # seconds after which marks that repeat the position are deleted


async def compact_all_marks(store: Store, now: float) -> int:
    """Compact the marks of all readers, one transaction per reader; returns how many marks were deleted."""
    await store.write(delete_expired_undo, now)
    gone = 0
    last = await store.read(find_last_settled_item)
    for user_id in await store.read(list_readers):
        gone += await store.write(compact_marks, user_id, last, now)
    return gone + await store.write(delete_redundant_marks, now)


def delete_expired_undo(connection: Connection, now: float) -> None:
    """Delete undo records that have expired."""
    connection.execute(delete(mark_undo).where(mark_undo.c.at < now - UNDO_SECONDS))


def delete_redundant_marks(connection: Connection, now: float) -> int:
    """Delete older marks that repeat the position; returns how many."""
    return connection.execute(_REDUNDANT, {"old": now - REDUNDANT_AFTER}).rowcount


def compact_marks(connection: Connection, user_id: int, last: int, now: float) -> int:
    """Replace marks of one reader by fewer marks and later positions; returns how many marks were deleted.

    If the reader has read most of a feed item by item, the position moves to `last` and the few unread items are
    marked instead. If everything is read, the position moves to `last`, up to which no item can appear any more.
    """
    if connection.execute(select(mark_undo.c.id).where(mark_undo.c.user_id == user_id).limit(1)).first() is not None:
        return 0
    read = connection.execute(_MANY_READ, {"user": user_id, "last": last, "many": MANY_READ}).all()
    gone = sum(_move_position(connection, user_id, feed_id, number, last, now) for feed_id, number in read)
    connection.execute(_MOVE_TO_END, {"user": user_id, "last": last, "near": last - WORTH_MOVING})
    return gone


def _move_position(connection: Connection, user_id: int, feed_id: int, read: int, last: int, now: float) -> int:
    given = {"user": user_id, "feed": feed_id, "last": last}
    unread = connection.execute(_STILL_UNREAD, given).scalars().all()
    if len(unread) >= read:
        return 0
    set_states(connection, user_id, [(feed_id, id) for id in unread], 0, now)
    mine = (subscription.c.user_id == user_id, subscription.c.feed_id == feed_id)
    connection.execute(update(subscription).where(*mine).values(read_up_to=last))
    theirs = (mark.c.user_id == user_id, mark.c.feed_id == feed_id, mark.c.item_id <= last)
    return connection.execute(delete(mark).where(*theirs, mark.c.state == 1, mark.c.starred.is_(None))).rowcount


_REDUNDANT = text(
    "DELETE FROM mark WHERE state = 1 AND starred IS NULL AND changed < :old AND item_id <= "
    "(SELECT s.read_up_to FROM subscription s WHERE s.user_id = mark.user_id AND s.feed_id = mark.feed_id)"
)
_MANY_READ = text(
    "SELECT m.feed_id, COUNT(*) FROM subscription s JOIN mark m ON m.user_id = s.user_id AND m.feed_id = s.feed_id "
    "AND m.item_id > s.read_up_to AND m.item_id <= :last WHERE s.user_id = :user AND m.state = 1 "
    "GROUP BY m.feed_id HAVING COUNT(*) > :many"
)
_UNREAD_AFTER = (
    "FROM item i LEFT JOIN mark m ON m.user_id = :user AND m.feed_id = i.feed_id AND m.item_id = i.id "
    "WHERE i.feed_id = {feed} AND i.id > {position} AND COALESCE(m.state, 0) = 0"
)
_POSITION = "(SELECT read_up_to FROM subscription WHERE user_id = :user AND feed_id = :feed)"
_STILL_UNREAD = text(f"SELECT i.id {_UNREAD_AFTER.format(feed=':feed', position=_POSITION)} AND i.id <= :last")
_MOVE_TO_END = text(
    "UPDATE subscription SET read_up_to = :last WHERE user_id = :user AND read_up_to < :near AND NOT EXISTS "
    f"(SELECT 1 {_UNREAD_AFTER.format(feed='subscription.feed_id', position='subscription.read_up_to')})"
)
