"""Keeps the refresh log and its hourly counts, and sums them up."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import asdict
from sqlalchemy import Connection, Row, Select, func, select

from headwater.model import Ending, Refresh
from headwater.store.content.items import DataSlice, count_items
from headwater.store.content.verdict_statements import PreparedStatement
from headwater.store.database.dialect import build_from_row, chunks, from_json, to_json, upsert
from headwater.store.schema.feed_tables import FEED_IS_LIVE, TRASHED_FEEDS, feed, feed_state, hourly_count, refresh


@dataclass(frozen=True, slots=True)
class ActivityPeriod:
    """The activity in a period of whole hours."""

    refreshes: Mapping[str, int] = field(default_factory=dict)  # by ending
    new: int = 0
    updated: int = 0
    lost: float = 0.0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class ActivitySummary:
    """Counts of feeds, items and activity. The periods are the current hour and 1 or 24 hours before it."""

    feeds: int
    paused: int
    gone: int
    failing: int
    never_refreshed: int
    items: int
    hour: ActivityPeriod
    day: ActivityPeriod
    last: tuple[Refresh, ...]


@dataclass(frozen=True, slots=True)
class FeedLoss:
    """The items that one feed brought and lost in a period."""

    feed_id: int
    got: int
    lost: float
    refreshes: int


HOUR = 3600
CHUNK = 1000
LAST_REFRESHES = 20
_NOT_TRASHED = refresh.c.feed_id.not_in(TRASHED_FEEDS)
_SUMS = ("refreshes", "new", "updated", "lost", "bytes")


REFRESH_COLUMNS = Refresh.__struct_fields__


def refresh_to_values(value: Refresh) -> tuple[Any, ...]:
    """Return the values of `REFRESH_COLUMNS` for a refresh."""
    stored = {"ending": value.ending.value, "published": to_json(value.published)}
    return tuple((asdict(value) | stored).values())


def read_refresh(row: Row[Any]) -> Refresh:
    """Build a refresh from a row of the log."""
    return build_from_row(Refresh, row, ending=Ending(row.ending), published=tuple(from_json(row.published)))


def list_refreshes(
    connection: Connection,
    feed_id: int | None = None,
    *,
    since: float | None = None,
    before: float | None = None,
    limit: int = 100,
) -> list[Refresh]:
    """List refreshes, the latest first, with since ≤ at < before."""
    query = select(refresh).where(_NOT_TRASHED).order_by(refresh.c.at.desc(), refresh.c.id.desc()).limit(limit)
    if feed_id is not None:
        query = query.where(refresh.c.feed_id == feed_id)
    if since is not None:
        query = query.where(refresh.c.at >= since)
    if before is not None:
        query = query.where(refresh.c.at < before)
    return [read_refresh(row) for row in connection.execute(query)]


def list_refreshes_after(
    connection: Connection, learned: Mapping[int, float], *, limit: int = 200_000
) -> list[Refresh]:
    """List each feed's refreshes after its given time, at most `limit` in all."""
    found: list[Refresh] = []
    for chunk in chunks(sorted(learned, key=lambda feed_id: learned[feed_id]), CHUNK):  # similar times in one query
        least = max(min(learned[feed_id] for feed_id in chunk), 0.0)
        query = select(refresh).where(refresh.c.feed_id.in_(chunk), refresh.c.at > least)
        rows = connection.execute(query.order_by(refresh.c.at.desc()).limit(limit - len(found)))
        found += [read_refresh(row) for row in rows if row.at > learned[row.feed_id]]
        if len(found) >= limit:
            break
    return found


def load_mean_costs(connection: Connection, since: float) -> list[tuple[int, float, float]]:
    """Load the mean bytes and seconds of each feed's answered refreshes after `since`."""
    means = func.avg(refresh.c.bytes), func.avg(refresh.c.elapsed)
    query = select(refresh.c.feed_id, *means).where(refresh.c.at > since, refresh.c.status.is_not(None))
    return [(row[0], float(row[1]), float(row[2])) for row in connection.execute(query.group_by(refresh.c.feed_id))]


def list_refresh_slice(connection: Connection, after: int, part: DataSlice, limit: int) -> list[tuple[int, Refresh]]:
    """List the refreshes of a slice by id, beyond `after`, with their ids."""
    rows = connection.execute(_slice_refreshes(select(refresh), after, part).order_by(refresh.c.id).limit(limit))
    return [(row.id, read_refresh(row)) for row in rows]


def count_refresh_slice(connection: Connection, after: int, part: DataSlice) -> int:
    """Count the refreshes of a slice beyond the id `after`."""
    return int(connection.execute(_slice_refreshes(select(func.count()), after, part)).scalar_one())


def _slice_refreshes(query: Select[Any], after: int, part: DataSlice) -> Select[Any]:
    return query.where(*part.conditions(refresh.c.at, refresh.c.feed_id), refresh.c.id > after)


def list_losses(connection: Connection, *, since: float, limit: int = 20) -> list[FeedLoss]:
    """List the feeds that lost most items since a time, the worst first."""
    lost = func.sum(refresh.c.lost)
    worst = (
        select(refresh.c.feed_id)
        .where(refresh.c.at >= since, refresh.c.lost > 0, _NOT_TRASHED)
        .group_by(refresh.c.feed_id)
        .order_by(lost.desc(), refresh.c.feed_id)
        .limit(limit)
    )
    ids = connection.execute(worst).scalars().all()
    sums = (
        select(refresh.c.feed_id, func.sum(refresh.c.new), lost, func.count())
        .where(refresh.c.at >= since, refresh.c.feed_id.in_(ids))
        .group_by(refresh.c.feed_id)
        .order_by(lost.desc(), refresh.c.feed_id)
    )
    return [FeedLoss(feed_id, int(got), float(sum_), count) for feed_id, got, sum_, count in connection.execute(sums)]


def _build_hourly_upsert(connection: Connection) -> Any:
    statement = upsert(connection, hourly_count)
    sums = {name: hourly_count.c[name] + statement.excluded[name] for name in _SUMS}
    return statement.on_conflict_do_update(index_elements=["hour", "ending"], set_=sums)


_ADD_HOURLY = PreparedStatement(_build_hourly_upsert, ["hour", "ending", *_SUMS])


def add_hourly_counts(connection: Connection, done: Iterable[tuple[Refresh, int]]) -> None:
    """Add refreshes, each with the number of new items really stored, to the counts of their hours.

    The caller's transaction holds `lock_outbox`, because all transactions add to the same few rows.
    """
    sums: dict[tuple[int, str], list[float]] = defaultdict(lambda: [0, 0, 0, 0.0, 0])
    for one, new in done:
        row = sums[int(one.at // HOUR), one.ending.value]
        for place, value in enumerate((1, new, one.updated, one.lost, one.bytes)):
            row[place] += value
    rows = (
        {"hour": hour, "ending": ending, **dict(zip(_SUMS, row, strict=True))} for (hour, ending), row in sums.items()
    )
    _ADD_HOURLY.run(connection, rows)


def _sum_period(connection: Connection, now: float, hours: int) -> ActivityPeriod:
    this = int(now // HOUR)
    rows = connection.execute(select(hourly_count).where(hourly_count.c.hour.between(this - hours, this))).all()
    endings: Counter[str] = Counter()
    for row in rows:
        endings[row.ending] += row.refreshes
    return ActivityPeriod(
        refreshes=dict(endings),
        new=sum(row.new for row in rows),
        updated=sum(row.updated for row in rows),
        lost=sum(row.lost for row in rows),
        bytes=sum(row.bytes for row in rows),
    )


def summarise_activity(connection: Connection, now: float) -> ActivitySummary:
    """Count feeds, items and the activity of the last hour and day."""
    count = func.count()
    feeds, paused, gone = connection.execute(
        select(count, count.filter(feed.c.paused), count.filter(feed.c.gone_since.is_not(None)))
        .select_from(feed)
        .where(FEED_IS_LIVE)
    ).one()
    failing, never = connection.execute(
        select(count.filter(feed_state.c.failures > 0), count.filter(feed_state.c.last_refresh.is_(None))).select_from(
            feed_state
        )
    ).one()
    return ActivitySummary(
        feeds=feeds,
        paused=paused,
        gone=gone,
        failing=failing,
        never_refreshed=never,
        items=count_items(connection),
        hour=_sum_period(connection, now, 1),
        day=_sum_period(connection, now, 24),
        last=tuple(list_refreshes(connection, limit=LAST_REFRESHES)),
    )
