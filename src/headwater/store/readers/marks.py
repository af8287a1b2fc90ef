"""Marks items or whole streams as read or starred, and undoes it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson
from sqlalchemy import Connection, bindparam, case, delete, func, insert, null, select, text, update

from headwater.errors import NotFound
from headwater.store.database.dialect import (
    PreparedStatement,
    SelectByUserAndIds,
    chunks,
    fetch_rows,
    last_visible_item_id,
    upsert,
)
from headwater.store.readers.reader_items import find_visible
from headwater.store.readers.stream_sources import list_stream_feed_ids, list_stream_query_ids
from headwater.store.readers.stream_values import HIT_ID_OFFSET, Stream
from headwater.store.readers.subscriptions import require_query_subscription, require_subscription
from headwater.store.schema.item_tables import item
from headwater.store.schema.query_tables import hit
from headwater.store.schema.reader_tables import mark, mark_undo, query_subscription, subscription


@dataclass(frozen=True, slots=True)
class MarkedRead:
    """The number of items that were unread, and the number by which marking them can be undone."""

    count: int
    undo: int | None


CHUNK = 1000
ALL = Stream()
MOST_UNDOS = 20  # of one person
LATEST_SAVE = 3600.0  # seconds between the fetch of an item and its id, at the most


def _prepare_upsert(*columns: str) -> PreparedStatement:
    def build(dialect: str) -> Any:
        statement = upsert(dialect, mark)
        new = statement.excluded
        changes = {name: new[name] for name in columns} | {"changed": new.changed}
        if "state" in columns:
            changes["arrived"] = null()  # `put_in_order` looks both times up anew
        if "starred" in columns:  # starring again does not change since when
            keeps = new.starred.is_not(None) & mark.c.starred.is_not(None)
            changes["starred"] = case((keeps, mark.c.starred), else_=new.starred)
        return statement.on_conflict_do_update(index_elements=["user_id", "feed_id", "item_id"], set_=changes)

    return PreparedStatement(build, ["user_id", "feed_id", "item_id", *columns, "changed"])


SET_READ, _SET_STARRED, _SET_READ_AND_STARRED = (
    _prepare_upsert("state"),
    _prepare_upsert("starred"),
    _prepare_upsert("state", "starred"),
)


def mark_items(
    connection: Connection,
    user_id: int,
    ids: Collection[int],
    now: float,
    *,
    read: bool | None = None,
    starred: bool | None = None,
) -> int:
    """Mark those of these items that the person may see; how many. None leaves as it is."""
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
    """Items of feeds that the person subscribes to, in one statement; which of these they were."""
    dialect = connection.dialect.name
    given = orjson.dumps(list(ids)).decode() if dialect == "sqlite" else list(ids)
    values = {"user": user_id, "now": now, "state": 1 if read else 0, "ids": given}
    return {id for (id,) in fetch_rows(connection, _build_mark_statement(dialect, read, starred), values)}


@lru_cache(16)
def _build_mark_statement(dialect: str, read: bool | None, starred: bool | None) -> str:
    # What is marked unread gets the moments at which it arrived and was published, by which its lists are in order.
    new = {"user_id": ":user", "feed_id": "i.feed_id", "item_id": "i.id", "changed": "CAST(:now AS double precision)"}
    if read is not None:
        new["state"] = "CAST(:state AS smallint)"
        new |= {name: f"CASE WHEN :state = 0 THEN i.{column} END" for name, column in _TIMES.items()}
    changes = {name: f"excluded.{name}" for name in new if name not in ("user_id", "feed_id", "item_id")}
    if starred is not None:  # starring again does not change since when
        new["starred"] = "CAST(:now AS double precision)" if starred else "CAST(NULL AS double precision)"
        changes["starred"] = "COALESCE(mark.starred, excluded.starred)" if starred else "NULL"
    return (
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
    row: dict[str, Any] = {"user_id": user_id, "changed": now}
    if read is not None:
        row["state"] = 1 if read else 0
    if starred is not None:
        row["starred"] = now if starred else None
    statement = (
        _SET_READ_AND_STARRED
        if read is not None and starred is not None
        else SET_READ
        if starred is None
        else _SET_STARRED
    )
    statement.run(connection, ({**row, "feed_id": feed_id, "item_id": item_id} for feed_id, item_id in places))
    if read is False:
        fill_mark_times(connection, user_id)
    return len(places)


def fill_mark_times(connection: Connection, user_id: int) -> None:
    """Fill in when items that were just marked unread arrived and were published."""
    connection.execute(_FILL_TIMES, {"user": user_id})


_FILL_TIMES = text(
    "UPDATE mark SET (arrived, published) = (SELECT i.first_seen, i.published FROM item i WHERE i.id = mark.item_id) "
    "WHERE user_id = :user AND state = 0 AND arrived IS NULL"
)


def mark_items_read(connection: Connection, user_id: int, ids: Collection[int], now: float) -> MarkedRead:
    """Mark those of these that the person may see and has not read, such that it can be taken back."""
    kept, fresh = _find_unread(connection, user_id, ids)
    _mark_places_read(connection, user_id, kept + fresh, now)
    before = {"feeds": [], "queries": [], "kept": kept, "marked": fresh}
    return MarkedRead(len(kept) + len(fresh), _save_undo(connection, user_id, before, now))


def _find_unread(
    connection: Connection, user_id: int, ids: Collection[int]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Find the unread items among these that the reader may see: those marked unread, and those never read."""
    kept: list[tuple[int, int]] = []
    fresh: list[tuple[int, int]] = []
    for chunk in chunks({item_id for _, item_id in find_visible(connection, user_id, ids).values()}, CHUNK):
        for feed_id, item_id, state in _UNREAD_AMONG.run(connection, user_id, chunk):
            (fresh if state is None else kept).append((feed_id, item_id))
    return sorted(kept), sorted(fresh)


_UNREAD_AMONG = SelectByUserAndIds(
    "SELECT i.feed_id, i.id, m.state FROM item i LEFT JOIN subscription s ON s.user_id = {user} "
    "AND s.feed_id = i.feed_id LEFT JOIN mark m ON m.user_id = {user} AND m.feed_id = i.feed_id AND m.item_id = i.id "
    "WHERE i.id IN {ids} AND (m.state = 0 OR (m.state IS NULL AND i.id > COALESCE(s.read_up_to, 0)))"
)


def _mark_places_read(connection: Connection, user_id: int, places: Iterable[tuple[int, int]], now: float) -> None:
    row = {"user_id": user_id, "state": 1, "changed": now}
    SET_READ.run(connection, ({**row, "feed_id": f, "item_id": i} for f, i in places))


def mark_stream_read(
    connection: Connection,
    user_id: int,
    which: Stream = ALL,
    *,
    now: float,
    up_to: int | None = None,
    until: float | None = None,
    also: Collection[int] = (),
) -> MarkedRead:
    """Everything of a stream is read: up to the id of an item, or what arrived before a moment, or all there is; and
    what is in `also`, which was seen beyond that.

    The positions move; what was marked unread loses its mark; what query feeds show of other feeds is marked.
    """
    if which.feed is not None:
        require_subscription(connection, user_id, which.feed)
    if which.query is not None:
        require_query_subscription(connection, user_id, which.query)
    last, sure = _find_last_read(connection, up_to, until)
    feeds = [] if which.query is not None else list_stream_feed_ids(connection, user_id, which)
    asked = [which.query] if which.query is not None else []
    if which.query is None and which.feed is None:
        asked = list_stream_query_ids(connection, user_id, which)
    was_unread = _count_unread_up_to(connection, user_id, feeds, sure)
    before: dict[str, Any] = {
        "feeds": _move_positions(connection, user_id, feeds, sure),
        "kept": _mark_kept_read(connection, user_id, feeds, sure, now),
    }
    late = _find_late_items(connection, user_id, feeds, last, up_to, until) if until is not None else []
    if sure < last:
        late += _find_unsettled_items(connection, user_id, feeds, sure, last)
    shown = [place for id in asked for place in _find_unread_hits(connection, user_id, id, up_to, until)]
    kept, seen = _find_unread(connection, user_id, also) if also else ([], [])
    fresh = sorted({*late, *shown, *seen} - set(kept))
    _mark_places_read(connection, user_id, kept + fresh, now)
    before["kept"] += kept
    before |= {"marked": fresh, "queries": _move_query_positions(connection, user_id, asked, up_to, until)}
    return MarkedRead(was_unread + len(kept) + len(fresh), _save_undo(connection, user_id, before, now))


def _find_last_read(connection: Connection, up_to: int | None, until: float | None) -> tuple[int, int]:
    """The last item that is read; with `until`, such that nothing which arrived later is before it. And up to which
    every item is there that ever will be: positions go no farther, or they would pass over one that is being saved."""
    newest, sure = last_visible_item_id(connection)
    if up_to is not None:
        newest = min(newest, up_to)
    if until is not None:
        later = connection.execute(select(func.min(item.c.id)).where(item.c.first_seen >= until)).scalar()
        newest = newest if later is None else min(newest, later - 1)
    return newest, min(newest, sure)


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
    """Positions go forward to `last`; where they were."""
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
            text("state = 0"),  # as the index has it
            mark.c.item_id <= last,
        )
        kept += [(f, i) for f, i in connection.execute(select(mark.c.feed_id, mark.c.item_id).where(*mine))]
        connection.execute(update(mark).where(*mine).values(state=1, changed=now))
    return kept


def _find_late_items(
    connection: Connection, user_id: int, feeds: Collection[int], last: int, up_to: int | None, until: float
) -> list[tuple[int, int]]:
    """Unread items with an id beyond `last` that yet arrived before: batches are not saved in the order of fetches."""
    wanted = set(feeds)
    bounds = {"last": last, "up_to": 2**62 if up_to is None else up_to, "from": until - LATEST_SAVE, "until": until}
    found = fetch_rows(connection, _SELECT_LATE, {"user": user_id, **bounds})
    return [(feed_id, id) for feed_id, id in found if feed_id in wanted]


def _find_unsettled_items(
    connection: Connection, user_id: int, feeds: Collection[int], sure: int, last: int
) -> list[tuple[int, int]]:
    """Unread items beyond the position: others with an id before theirs may yet come."""
    wanted = set(feeds)
    found = fetch_rows(connection, _SELECT_UNSETTLED, {"user": user_id, "sure": sure, "last": last})
    return [(feed_id, id) for feed_id, id in found if feed_id in wanted]


_SELECT_UNREAD = (
    "SELECT i.feed_id, i.id FROM item i CROSS JOIN subscription s "
    "LEFT JOIN mark m ON m.user_id = :user AND m.feed_id = i.feed_id AND m.item_id = i.id "
    "WHERE s.user_id = :user AND s.feed_id = i.feed_id "
    "AND (m.state = 0 OR (m.state IS NULL AND i.id > s.read_up_to)) "
)
_SELECT_LATE = (
    f"{_SELECT_UNREAD} AND i.first_seen >= :from AND i.first_seen < :until AND i.id > :last AND i.id <= :up_to"
)
_SELECT_UNSETTLED = f"{_SELECT_UNREAD} AND i.id > :sure AND i.id <= :last"


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
    connection: Connection, user_id: int, asked: Iterable[int], up_to: int | None, until: float | None
) -> list[tuple[int, int]]:
    before: list[tuple[int, int]] = []
    for id in asked:
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


# taking it back


def _save_undo(connection: Connection, user_id: int, before: Mapping[str, Any], now: float) -> int | None:
    if not any(before.values()):
        return None
    values = {"user_id": user_id, "at": now, "before": orjson.dumps(before).decode()}
    id: int = connection.execute(insert(mark_undo).returning(mark_undo.c.id), values).scalar_one()
    mine = select(mark_undo.c.id).where(mark_undo.c.user_id == user_id).order_by(mark_undo.c.id.desc())
    old = connection.execute(mine.offset(MOST_UNDOS)).scalars().all()
    if old:
        connection.execute(delete(mark_undo).where(mark_undo.c.id.in_(old)))
    return id


def undo_mark_read(connection: Connection, user_id: int, undo_id: int, now: float) -> None:
    """Everything is as it was before many were marked as read, except for what was marked by itself since."""
    gone = (
        delete(mark_undo).where(mark_undo.c.id == undo_id, mark_undo.c.user_id == user_id).returning(mark_undo.c.before)
    )
    row = connection.execute(gone).first()
    if row is None:
        raise NotFound("There is nothing to take back, or no longer.")
    before = orjson.loads(row.before)
    if before["feeds"]:
        connection.execute(
            _RESTORE_POSITION, [{"of_user": user_id, "of_feed": f, "read_up_to": at} for f, at in before["feeds"]]
        )
    if before["queries"]:
        rows = [{"of_user": user_id, "of_query": q, "read_up_to": at} for q, at in before["queries"]]
        connection.execute(_RESTORE_QUERY_POSITION, rows)
    for places, state in ((before["kept"], 0), (before["marked"], None)):
        SET_READ.run(
            connection,
            ({"user_id": user_id, "feed_id": f, "item_id": i, "state": state, "changed": now} for f, i in places),
        )
    fill_mark_times(connection, user_id)


_RESTORE_POSITION = update(subscription).where(
    subscription.c.user_id == bindparam("of_user"), subscription.c.feed_id == bindparam("of_feed")
)
_RESTORE_POSITION = _RESTORE_POSITION.values(read_up_to=bindparam("read_up_to"))
_RESTORE_QUERY_POSITION = update(query_subscription).where(
    query_subscription.c.user_id == bindparam("of_user"), query_subscription.c.query_id == bindparam("of_query")
)
_RESTORE_QUERY_POSITION = _RESTORE_QUERY_POSITION.values(read_up_to=bindparam("read_up_to"))


# upkeep


def delete_marks_of_items(connection: Connection, feed_id: int, item_ids: Collection[int]) -> None:
    """Marks of items that are deleted: counts rely on every mark having its item."""
    for chunk in chunks(item_ids, CHUNK):
        readers = select(subscription.c.user_id).where(subscription.c.feed_id == feed_id)
        which = (mark.c.user_id.in_(readers), mark.c.feed_id == feed_id, mark.c.item_id.in_(chunk))
        connection.execute(delete(mark).where(*which))


def update_mark_times(connection: Connection, changed: Mapping[tuple[int, int], float]) -> None:
    """Items, by feed and id, have another time of publication: so have marks that are in order by it."""
    rows = [{"feed": feed, "item": id, "published": at} for (feed, id), at in changed.items()]
    connection.execute(_UPDATE_PUBLISHED, rows)


_UPDATE_PUBLISHED = text(
    "UPDATE mark SET published = :published WHERE user_id IN (SELECT user_id FROM subscription WHERE feed_id = :feed) "
    "AND feed_id = :feed AND item_id = :item AND state = 0"
)
