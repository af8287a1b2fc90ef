"""Saves the hits of query feeds, and lists them as a stream or as a window.

A hit refers to the version of the item that it published (`item_version`). It stays as it was when the item changes and
no longer matches, or when retention deletes the item.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import msgspec
import orjson
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)

from headwater.model import Item
from headwater.query.hits import Hit
from headwater.query.items.related_item import Related
from headwater.store.content.items import DataSlice, find_items, pack_item, unpack_item
from headwater.store.database.dialect import chunks, fetch_rows, from_json, insert_or_ignore
from headwater.store.database.item_ids import reserve_ids
from headwater.store.queries import returned_items, selectivity
from headwater.store.schema.feed_tables import TRASHED_FEEDS, refresh
from headwater.store.schema.item_tables import item, outbox
from headwater.store.schema.metadata import replace_refused
from headwater.store.schema.query_tables import QUERY_IS_LIVE, QUERY_MAY_PUBLISH, hit, item_version, query_feed


@dataclass(frozen=True, slots=True)
class NewHit:
    """A hit to be saved, with the id of its query feed and the time at which its item arrived."""

    query_id: int
    hit: Hit
    arrived: float


@dataclass(frozen=True, slots=True)
class StoredHit:
    """An item as a query feed has published it; `id` is its place in the feed's stream.

    `item` is the item as shown, with the fields that SET has rewritten. `fresh` says that the hit was new and to be
    delivered when it was saved, `update` that an earlier hit has just been changed in place.
    """

    id: int
    query_id: int
    item: Item
    arrived: float
    branches: frozenset[int]
    related: tuple[Related, ...] | None = None
    fresh: bool = False
    update: bool = False
    changed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ShowingQueries:
    """The query feeds, by name, that show an item, and those that have delivered it (also by an older definition)."""

    by: set[str] = field(default_factory=set)
    delivered: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class QueryStatistics:
    """The activity of a query feed: hits of the last `days` (or since its first one), the last hit, all hits."""

    hits: int
    recent: int
    days: float
    last: float | None

    @property
    def per_day(self) -> float:
        """The average number of recent hits per day; less than a day is not extrapolated."""
        return self.recent / max(self.days, 1.0)


CHUNK = 500
MANY_FEEDS = 5_000  # feeds that a statement may name
DAY = 86_400.0
_CHANGED_COLUMNS = ("version", "published", "current", "branches", "changes", "fresh", "related")
_UPDATE = (
    update(hit).where(hit.c.id == bindparam("of_hit")).values({name: bindparam(name) for name in _CHANGED_COLUMNS})
)
IS_SHOWN = and_(hit.c.current, hit.c.feed_id.not_in(TRASHED_FEEDS))
_LIST_FIELDS = frozenset({"authors", "categories"})


def _apply_changes(value: Item, changes: str | None) -> Item:
    if not changes:
        return value
    given: dict[str, Any] = orjson.loads(changes)
    lists = {name: tuple(given[name]) for name in _LIST_FIELDS & set(given)}
    return msgspec.structs.replace(value, **given | lists)


def save_hits(connection: Connection, matched: Iterable[NewHit]) -> list[StoredHit]:
    """Save hits in the caller's transaction; returns those that were new or changed, as stored.

    A query feed publishes an item once: an existing hit is changed in place and is never fresh again.
    """
    completed = complete_stories(connection, matched)
    wanted = {(one.hit.original.id, one.query_id): one for one in completed if one.hit.original.id is not None}
    if not wanted:
        return []
    living = _find_existing_queries(connection, {query_id for _, query_id in wanted})
    there = _find_stored_hits(connection, {item_id for item_id, _ in wanted if item_id is not None})
    new: list[NewHit] = []
    again: list[tuple[Row[Any], NewHit]] = []
    for key, one in wanted.items():
        if one.query_id not in living:
            continue
        row = there.get(key)
        if row is None:
            new.append(one)
        elif row.version != one.hit.original.version or not row.current or one.hit.origin is not None:
            again.append((row, one))
    new = returned_items.drop_returned(connection, new) if new else new
    originals = {(one.original.id, one.original.version): one.original for one in (m.hit for m in new)}
    originals |= {(one.hit.original.id, one.hit.original.version): one.hit.original for _, one in again}
    versions = [
        {"item_id": id, "version": version, "blob": pack_item(replace_refused(value))}
        for (id, version), value in originals.items()
    ]
    if versions:
        connection.execute(insert_or_ignore(connection, item_version), versions)
    ids = reserve_ids(connection, hit, len(new)) if new else ()
    if new:
        connection.execute(insert(hit), [_hit_row(id, one) for id, one in zip(ids, new, strict=True)])
    changes = [_changed_hit_row(row, one) for row, one in again]
    if changes:
        connection.execute(_UPDATE, [change for change, _ in changes])
    _delete_unused_versions(connection, {row.item_id for row, _ in again})
    selectivity.count_kept(connection, new)
    stored = [_to_stored_hit(id, one, one.hit.fresh, False) for id, one in zip(ids, new, strict=True)]
    return stored + [
        _to_stored_hit(row.id, one, fresh, True) for (row, one), (_, fresh) in zip(again, changes, strict=True)
    ]


def merge_story_hits(matched: Iterable[NewHit]) -> list[NewHit]:
    """Merge the hits of each story (EACH STORY): the first one, with the items of the last one."""
    found: list[NewHit] = []
    places: dict[tuple[int, int | None], int] = {}
    for one in matched:
        place = len(found)
        if one.hit.origin is not None:
            place = places.setdefault((one.query_id, one.hit.original.id), place)
        if place == len(found):
            found.append(one)
        else:
            first = found[place]
            last = replace(one.hit, update=first.hit.update, fresh=first.hit.fresh, branches=first.hit.branches)
            found[place] = replace(first, hit=last)
    return found


def complete_stories(connection: Connection, matched: Iterable[NewHit]) -> list[NewHit]:
    """Give the hits of stories their whole first items: the engine has kept them without their texts."""
    found = merge_story_hits(matched)
    stories = {one.hit.original.id for one in found if one.hit.origin is not None}
    items = {one.id: one for one in find_items(connection, [id for id in stories if id is not None])} if stories else {}
    for place, one in enumerate(found):
        made = one.hit
        if made.origin is not None and (whole := items.get(made.original.id)) is not None:
            shown = msgspec.structs.replace(whole, **made.rewritten_fields)
            found[place] = replace(one, hit=replace(made, original=whole, item=shown))
    return found


def _find_existing_queries(connection: Connection, ids: Collection[int]) -> set[int]:
    """Find the query feeds among these that have not been dropped meanwhile, and may read their sources."""
    found: set[int] = set()
    for chunk in chunks(sorted(ids), CHUNK):
        found.update(
            connection.execute(select(query_feed.c.id).where(query_feed.c.id.in_(chunk), QUERY_MAY_PUBLISH)).scalars()
        )
    return found


def _find_stored_hits(connection: Connection, item_ids: Collection[int]) -> dict[tuple[int, int], Row[Any]]:
    found: dict[tuple[int, int], Row[Any]] = {}
    for chunk in chunks(sorted(item_ids), CHUNK):
        for row in connection.execute(select(hit).where(hit.c.item_id.in_(chunk))):
            found[row.item_id, row.query_id] = row
    return found


def _hit_row(id: int, one: NewHit) -> dict[str, Any]:
    made = one.hit
    return {
        "id": id,
        "query_id": one.query_id,
        "item_id": made.original.id,
        "feed_id": made.original.feed_id,
        "version": made.original.version,
        "arrived": one.arrived,
        "published": made.item.published,
        "fresh": made.fresh,
        "current": True,
        "branches": _encode_branches(made.branches),
        "related": _encode_related(made.related),
        "changes": _encode_changes(one),
    }


def _changed_hit_row(row: Row[Any], one: NewHit) -> tuple[dict[str, Any], bool]:
    """Return the new row of a hit, and whether it is to be delivered: only if it never was before."""
    made = one.hit
    fresh = made.fresh and not made.update and not row.fresh and not row.current
    values = {
        "of_hit": row.id,
        "version": made.original.version,
        "published": made.item.published,
        "current": True,
        "branches": _encode_branches(made.branches | set(from_json(row.branches)) if row.current else made.branches),
        "changes": _encode_changes(one),
        "fresh": fresh or row.fresh,
        "related": row.related if made.related is None and row.current else _encode_related(made.related),
    }
    return values, fresh


def _encode_branches(branches: Collection[int]) -> str:
    return orjson.dumps(sorted(branches)).decode()


def _encode_related(related: tuple[Related, ...] | None) -> str | None:
    return None if related is None else orjson.dumps(list(map(asdict, replace_refused(related)))).decode()


def _encode_changes(one: NewHit) -> str | None:
    rewritten = one.hit.rewritten_fields
    return (
        orjson.dumps({name: replace_refused(value) for name, value in rewritten.items()}).decode()
        if rewritten
        else None
    )


def _to_stored_hit(id: int, one: NewHit, fresh: bool, update: bool) -> StoredHit:
    made = one.hit
    changed = frozenset(made.rewritten_fields)
    return StoredHit(id, one.query_id, made.item, one.arrived, made.branches, made.related, fresh, update, changed)


def _delete_unused_versions(connection: Connection, item_ids: Collection[int]) -> None:
    """Delete the versions of items that no hit shows any more."""
    for chunk in chunks(sorted(item_ids), CHUNK):
        shown = select(hit.c.id).where(hit.c.item_id == item_version.c.item_id, hit.c.version == item_version.c.version)
        connection.execute(delete(item_version).where(item_version.c.item_id.in_(chunk), ~shown.exists()))


def delete_hits_of_queries(connection: Connection, query_ids: Sequence[int]) -> None:
    """Delete the hits of dropped query feeds, and the versions that only they show."""
    items = set(connection.execute(select(hit.c.item_id).where(hit.c.query_id.in_(query_ids))).scalars())
    connection.execute(delete(hit).where(hit.c.query_id.in_(query_ids)))
    returned_items.delete_origins_of_queries(connection, query_ids)
    _delete_unused_versions(connection, items)


def replace_windows(connection: Connection, windows: Mapping[int, Sequence[NewHit]], replaced: Collection[int]) -> None:
    """Save the first windows of new definitions; hits of `replaced` definitions are no longer current.

    None of the new hits is fresh, so nothing is delivered.
    """
    for chunk in chunks(sorted(replaced), CHUNK):
        connection.execute(update(hit).where(hit.c.query_id.in_(chunk), hit.c.current).values(current=False))
    every = (one for window in windows.values() for one in window)
    save_hits(connection, [replace(one, hit=replace(one.hit, fresh=False)) for one in every])


def list_past_items(
    connection: Connection,
    *,
    since: float | None = None,
    limit: int,
    upto: int | None = None,
    feed_ids: Collection[int] | None = None,
    before_id: int | None = None,
) -> list[int]:
    """List the ids of the last `limit` stored items, in the order of arrival; with `upto`, those up to a position of
    the outbox, with `before_id`, those that arrived before an item.

    Only items of `feed_ids`, unless there are so many feeds that looking at all is as fast.
    """
    query = select(item.c.id).where(item.c.feed_id.not_in(TRASHED_FEEDS)).order_by(item.c.id.desc()).limit(limit)
    if upto is not None:
        later = select(outbox.c.item_id).where(outbox.c.position > upto, outbox.c.kind == "new")
        query = query.where(item.c.id.not_in(later))
    if since is not None:
        query = query.where(item.c.first_seen >= since)
    if before_id is not None:
        query = query.where(item.c.id < before_id)
    if feed_ids is not None and len(feed_ids) <= MANY_FEEDS:
        query = query.where(item.c.feed_id.in_(sorted(feed_ids)))
    return sorted(connection.execute(query).scalars())


def count_past_items(
    connection: Connection,
    *,
    since: float,
    feed_ids: Collection[int],
    from_id: int | None = None,
    before_id: int | None = None,
) -> dict[int, int]:
    """Count the stored items of feeds since a time, by feed; only those with from_id ≤ id < before_id."""
    query = select(item.c.feed_id, func.count()).where(item.c.first_seen >= since)
    if from_id is not None:
        query = query.where(item.c.id >= from_id)
    if before_id is not None:
        query = query.where(item.c.id < before_id)
    if len(feed_ids) <= MANY_FEEDS:
        query = query.where(item.c.feed_id.in_(sorted(feed_ids)))
    rows = connection.execute(query.group_by(item.c.feed_id))
    return {feed_id: count for feed_id, count in rows if feed_id in feed_ids}


def sum_past_items(
    connection: Connection,
    *,
    since: float,
    feed_ids: Collection[int] | None,
    from_id: int | None = None,
    before_id: int | None = None,
) -> int:
    """Return the sum of `count_past_items`; None stands for all feeds, whose items need not be told apart."""
    if feed_ids is not None:
        counts = count_past_items(connection, since=since, feed_ids=feed_ids, from_id=from_id, before_id=before_id)
        return sum(counts.values())
    before = "" if before_id is None else " AND i.id < :before_id"
    if from_id is not None:  # an index has the items of each feed by id
        sql = (
            "SELECT COUNT(*) FROM feed f CROSS JOIN item i WHERE f.deleted_at IS NULL AND i.feed_id = f.id "
            f"AND i.id >= :from_id AND i.first_seen >= :since{before}"
        )
    else:  # one range of an index; to look up the feed of every item would take five times as long
        found = f"SELECT COUNT(*) FROM item i WHERE i.first_seen >= :since{before}"
        sql = f"SELECT ({found}) - ({found} AND i.feed_id IN (SELECT id FROM feed WHERE deleted_at IS NOT NULL))"
    values = {"since": since, "from_id": from_id, "before_id": before_id}
    return int(fetch_rows(connection, sql, values)[0][0])


def find_first_arrival(connection: Connection, feed_ids: Collection[int] | None) -> float | None:
    """Find when the first stored item of these feeds arrived, or of all."""
    query = select(item.c.first_seen).order_by(item.c.first_seen).limit(1)
    if feed_ids is None:
        query = query.where(item.c.feed_id.not_in(TRASHED_FEEDS))
    elif len(feed_ids) <= MANY_FEEDS:
        query = query.where(item.c.feed_id.in_(sorted(feed_ids)))
    return connection.execute(query).scalar()


def find_first_id(connection: Connection, since: float) -> int:
    """Find the id of the first item that arrived since a time."""
    sql = "SELECT id FROM item WHERE first_seen >= :since ORDER BY first_seen, id LIMIT 1"
    return next((id for (id,) in fetch_rows(connection, sql, {"since": since})), 0)


def find_showing_queries(connection: Connection, item_ids: Collection[int]) -> dict[int, ShowingQueries]:
    """Find the query feeds that show these items, and those that have delivered them."""
    found: dict[int, ShowingQueries] = {}
    for chunk in chunks(sorted(item_ids), CHUNK):
        query = select(hit.c.item_id, query_feed.c.name, hit.c.fresh, hit.c.current)
        query = query.join(query_feed, query_feed.c.id == hit.c.query_id)
        query = query.where(hit.c.item_id.in_(chunk), QUERY_IS_LIVE)
        for row in connection.execute(query):
            one = found.setdefault(row.item_id, ShowingQueries())
            if row.current:
                one.by.add(row.name)
            if row.fresh:
                one.delivered.add(row.name)
    return found


def find_published_items(connection: Connection, names: Collection[str]) -> dict[int, dict[str, Item]]:
    """Find, by item, the item as each of these query feeds shows it."""
    found: dict[int, dict[str, Item]] = {}
    for name in names:
        query = select(query_feed.c.id, query_feed.c.name).where(query_feed.c.key == name.casefold(), QUERY_IS_LIVE)
        row = connection.execute(query).first()
        for one in connection.execute(_select_hits(hit.c.query_id == row.id)) if row is not None else ():
            found.setdefault(one.item_id, {})[row.name] = _read_hit(one).item  # type: ignore[union-attr]
    return found


def _select_hits(*conditions: ColumnElement[bool]) -> Select[Any]:
    same = and_(item_version.c.item_id == hit.c.item_id, item_version.c.version == hit.c.version)
    return select(hit, item_version.c.blob).join(item_version, same).where(IS_SHOWN, *conditions)


def _read_hit(row: Row[Any]) -> StoredHit:
    original = unpack_item(bytes(row.blob))
    related = None
    if row.related is not None:
        related = tuple(Related(**one) for one in orjson.loads(row.related))
    return StoredHit(
        row.id,
        row.query_id,
        _apply_changes(original, row.changes),
        row.arrived,
        frozenset(from_json(row.branches)),
        related,
        row.fresh,
        changed=frozenset(orjson.loads(row.changes)) if row.changes else frozenset(),
    )


def list_hits_after(connection: Connection, query_id: int, *, after: int = 0, limit: int = 100) -> list[StoredHit]:
    """List hits in the order of arrival, beyond the id `after`: append-only, so that the id is a cursor."""
    query = _select_hits(hit.c.query_id == query_id, hit.c.id > after).order_by(hit.c.id).limit(limit)
    return [_read_hit(row) for row in connection.execute(query)]


def list_latest_hits(
    connection: Connection, query_id: int, *, before: int | None = None, limit: int = 100
) -> list[StoredHit]:
    """List hits backwards, from the end of the stream or from the id `before`."""
    query = _select_hits(hit.c.query_id == query_id).order_by(hit.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(hit.c.id < before)
    return [_read_hit(row) for row in connection.execute(query)]


def list_window(
    connection: Connection, query_id: int, count: int | None, since: float | None, by_arrival: bool
) -> list[StoredHit]:
    """List the newest `count` hits by publication or by arrival, or the hits since a time."""
    when = hit.c.arrived if by_arrival else hit.c.published
    query = _select_hits(hit.c.query_id == query_id)
    if since is not None:
        query = query.where(when >= since)
    if count is not None:
        then = (hit.c.id.desc(),) if by_arrival else (hit.c.arrived.desc(), hit.c.item_id)
        query = query.order_by(when.desc(), *then).limit(count)
    return [_read_hit(row) for row in connection.execute(query)]


def find_hits(connection: Connection, ids: Sequence[int]) -> list[StoredHit]:
    """Find hits by id, in the order of ids; also those of replaced definitions."""
    found: list[StoredHit] = []
    for chunk in chunks(sorted(ids), CHUNK):
        same = and_(item_version.c.item_id == hit.c.item_id, item_version.c.version == hit.c.version)
        query = select(hit, item_version.c.blob).join(item_version, same).where(hit.c.id.in_(chunk)).order_by(hit.c.id)
        found += [_read_hit(row) for row in connection.execute(query)]
    return found


def list_hit_slice(connection: Connection, query_id: int, after: int, part: DataSlice, limit: int) -> list[StoredHit]:
    """List the hits of a slice by id, beyond `after`; hits of replaced definitions are left out."""
    query = _slice_hits(select(hit.c.id), query_id, after, part).order_by(hit.c.id).limit(limit)
    return find_hits(connection, connection.execute(query).scalars().all())


def count_hit_slice(connection: Connection, query_id: int, after: int, part: DataSlice) -> int:
    """Count the hits of a slice beyond the id `after`."""
    return int(connection.execute(_slice_hits(select(func.count()), query_id, after, part)).scalar_one())


def _slice_hits(query: Select[Any], query_id: int, after: int, part: DataSlice) -> Select[Any]:
    mine = (hit.c.query_id == query_id, hit.c.current, hit.c.id > after)
    return query.where(*mine, *part.conditions(hit.c.arrived, hit.c.feed_id))


def count_hits(connection: Connection, query_id: int) -> int:
    """Count the hits that a query feed shows."""
    query = select(func.count()).select_from(hit).where(hit.c.query_id == query_id, IS_SHOWN)
    return connection.execute(query).scalar_one()


def list_hits_by_number(connection: Connection, query_id: int, skip: int, limit: int) -> list[StoredHit]:
    """List hits in the order of arrival, the first of all first, after skipping `skip` of them."""
    after = 0
    if skip:
        mine = select(hit.c.id).where(hit.c.query_id == query_id, IS_SHOWN)
        after = connection.execute(mine.order_by(hit.c.id).offset(skip - 1).limit(1)).scalar() or 0
        if not after:
            return []
    return list_hits_after(connection, query_id, after=after, limit=limit)


def find_last_hit(connection: Connection, query_id: int) -> int:
    """Return the id of the last hit of a query feed, 0 if there is none."""
    return connection.execute(select(func.max(hit.c.id)).where(hit.c.query_id == query_id)).scalar() or 0


def compute_query_statistics(connection: Connection, query_id: int, now: float) -> QueryStatistics:
    """Count the hits of a query feed: all, and those of the last seven days."""
    mine = and_(hit.c.query_id == query_id, IS_SHOWN)
    query = select(func.count(), func.min(hit.c.arrived), func.max(hit.c.arrived)).where(mine)
    total, first, last = connection.execute(query).one()
    # A feed that has been there for two days is not averaged over seven.
    days = min(7.0, max((now - first) / DAY, 0.0)) if first is not None else 7.0
    recent = select(func.count()).select_from(hit).where(mine, hit.c.arrived >= now - days * DAY)
    return QueryStatistics(total, connection.execute(recent).scalar_one(), days, last)


def count_hits_by_query(connection: Connection, ids: Collection[int] | None = None) -> dict[int, tuple[int, float]]:
    """Count the hits of each query feed (of these, or all), with the time of the last one."""
    query = select(hit.c.query_id, func.count(), func.max(hit.c.arrived)).where(IS_SHOWN).group_by(hit.c.query_id)
    if ids is not None:
        query = query.where(hit.c.query_id.in_(ids))
    return {row[0]: (row[1], row[2]) for row in connection.execute(query)}


def count_feed_activity(connection: Connection, since: float) -> dict[int, tuple[int, int]]:
    """Count refreshes and new items of each feed since a time."""
    asked = select(refresh.c.feed_id, func.count()).where(refresh.c.at >= since).group_by(refresh.c.feed_id)
    brought = select(item.c.feed_id, func.count()).where(item.c.first_seen >= since).group_by(item.c.feed_id)
    refreshes = {row[0]: row[1] for row in connection.execute(asked)}
    items = {row[0]: row[1] for row in connection.execute(brought)}
    return {id: (refreshes.get(id, 0), items.get(id, 0)) for id in refreshes.keys() | items.keys()}


def delete_old_hits(connection: Connection, before: float, limit: int) -> int:
    """Delete hits that arrived before a time, with the versions that only they show."""
    old = select(hit.c.id, hit.c.item_id).where(hit.c.arrived < before).order_by(hit.c.id).limit(limit)
    rows = connection.execute(old).all()
    for chunk in chunks([row.id for row in rows], CHUNK):
        connection.execute(delete(hit).where(hit.c.id.in_(chunk)))
    _delete_unused_versions(connection, {row.item_id for row in rows})
    return len(rows)
