"""Measures the promises of query feeds by the hour, and keeps the records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields

import orjson
from sqlalchemy import ColumnElement, Connection, ScalarSelect, and_, delete, func, select, true

from headwater.model import Ending
from headwater.schedule.quality.promise_record import PromiseCounts, measure_missing_of_lost
from headwater.store.database.dialect import chunks, upsert
from headwater.store.schema.feed_tables import refresh
from headwater.store.schema.item_tables import item
from headwater.store.schema.query_tables import hit, promise_hour

SERVER = 0  # the query id of the server as a whole
CHUNK = 500
_SUCCESSES = [ending.value for ending in Ending if ending.ok]
_COUNTS = [one.name for one in fields(PromiseCounts)]


@dataclass(frozen=True, slots=True)
class PromiseHour:
    """The record of one hour (since 1970) of a query feed, or of the server (query 0).

    `promised` and `predicted` have completeness, freshness and delay, as far as there are any. `kept` judges the day
    up to this hour, and `why` explains it.
    """

    query_id: int
    hour: int
    promised: Mapping[str, float]
    predicted: Mapping[str, float]
    counts: PromiseCounts
    kept: bool | None
    why: str


def count_hits_by_feed(
    connection: Connection, query_id: int, start: float, end: float, deadline: float | None
) -> dict[int, PromiseCounts]:
    """Count the items of a query feed that arrived in a period, by source feed.

    The items of a feed's first refresh are history and do not count. A delay begins at the refresh before, which did
    not show the item, if the publisher's date is older; the time of the fetch itself is not held against a deadline.
    """
    before = _find_success_before(hit.c.feed_id, item.c.first_seen)
    same = and_(refresh.c.feed_id == hit.c.feed_id, refresh.c.at == item.c.first_seen)
    query = (
        select(
            hit.c.feed_id,
            item.c.published,
            item.c.first_seen,
            item.c.dated,
            refresh.c.window,
            refresh.c.elapsed,
            before.label("before"),
        )
        .join(item, and_(item.c.id == hit.c.item_id, item.c.first_seen == hit.c.arrived))
        .outerjoin(refresh, same)
        .where(hit.c.query_id == query_id, hit.c.arrived >= start, hit.c.arrived < end, hit.c.fresh)
    )
    found: dict[int, PromiseCounts] = {}
    for row in connection.execute(query):
        if row.before is None:
            continue
        one = PromiseCounts(got=1)
        if row.dated:
            delay = max(row.first_seen - max(row.published, row.before), 0.0)
            in_time = deadline is not None and delay <= deadline + (row.elapsed or 0.0)
            one = PromiseCounts(1, 0.0, 1, int(in_time), delay, delay / max(row.window or 1, 1))
        found[row.feed_id] = found.get(row.feed_id, PromiseCounts()) + one
    return found


def sum_losses(connection: Connection, feed_ids: Iterable[int], start: float, end: float) -> dict[int, PromiseCounts]:
    """Sum what feeds lost in a period, as noticed by their refreshes: the items, and how long they were shown."""
    found: dict[int, PromiseCounts] = {}
    before = _find_success_before(refresh.c.feed_id, refresh.c.at)
    for chunk in chunks(sorted(feed_ids), CHUNK):
        query = select(refresh.c.feed_id, refresh.c.at, refresh.c.new, refresh.c.lost, before.label("before")).where(
            refresh.c.at >= start, refresh.c.at < end, refresh.c.lost > 0, refresh.c.feed_id.in_(chunk)
        )
        for row in connection.execute(query):
            gap = 0.0 if row.before is None else row.at - row.before
            one = PromiseCounts(lost=row.lost, missing=measure_missing_of_lost(row.new, row.lost, gap))
            found[row.feed_id] = found.get(row.feed_id, PromiseCounts()) + one
    return found


def _find_success_before(feed_id: ColumnElement[int], at: ColumnElement[float]) -> ScalarSelect[float]:
    """Return the time of a feed's last successful refresh before a moment."""
    earlier = refresh.alias()
    return (
        select(func.max(earlier.c.at))
        .where(earlier.c.feed_id == feed_id, earlier.c.at < at, earlier.c.ending.in_(_SUCCESSES))
        .scalar_subquery()
    )


def save_promise_hours(connection: Connection, records: Iterable[PromiseHour]) -> None:
    """Save records; one of the same query and hour is replaced."""
    rows = [
        {
            "query_id": one.query_id,
            "hour": one.hour,
            "promised": orjson.dumps(dict(one.promised)).decode(),
            "predicted": orjson.dumps(dict(one.predicted)).decode(),
            **asdict(one.counts),
            "kept": one.kept,
            "why": one.why,
        }
        for one in records
    ]
    if rows:
        statement = upsert(connection, promise_hour)
        new = {name: statement.excluded[name] for name in rows[0] if name not in ("query_id", "hour")}
        connection.execute(statement.on_conflict_do_update(index_elements=["query_id", "hour"], set_=new), rows)


def list_promise_hours(connection: Connection, since: int, query_id: int | None = None) -> list[PromiseHour]:
    """List the records from an hour on, oldest first, of one query feed or of all."""
    query = select(promise_hour).where(promise_hour.c.hour >= since).order_by(promise_hour.c.hour)
    if query_id is not None:
        query = query.where(promise_hour.c.query_id == query_id)
    return [
        PromiseHour(
            row.query_id,
            row.hour,
            orjson.loads(row.promised),
            orjson.loads(row.predicted),
            PromiseCounts(**{name: getattr(row, name) for name in _COUNTS}),
            row.kept,
            row.why,
        )
        for row in connection.execute(query)
    ]


def find_latest_hours(connection: Connection) -> dict[int, int]:
    """Return the hour of the latest record of each query."""
    query = select(promise_hour.c.query_id, func.max(promise_hour.c.hour)).group_by(promise_hour.c.query_id)
    return {row[0]: row[1] for row in connection.execute(query)}


def find_broken_spells(connection: Connection, query_id: int | None = None) -> dict[int, int]:
    """Return the first hour since which each promise is broken, or one query's; hours without a judgement count on."""
    mine = true() if query_id is None else promise_hour.c.query_id == query_id
    last_kept = (
        select(promise_hour.c.query_id, func.max(promise_hour.c.hour).label("hour"))
        .where(promise_hour.c.kept.is_(True), mine)
        .group_by(promise_hour.c.query_id)
        .subquery()
    )
    query = (
        select(promise_hour.c.query_id, func.min(promise_hour.c.hour))
        .outerjoin(last_kept, last_kept.c.query_id == promise_hour.c.query_id)
        .where(promise_hour.c.kept.is_(False), mine, promise_hour.c.hour > func.coalesce(last_kept.c.hour, -1))
        .group_by(promise_hour.c.query_id)
    )
    return {row[0]: row[1] for row in connection.execute(query)}


def delete_promise_hours(connection: Connection, before: int) -> None:
    """Delete the records of earlier hours."""
    connection.execute(delete(promise_hour).where(promise_hour.c.hour < before))
