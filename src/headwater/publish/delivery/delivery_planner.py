"""Plans deliveries for new hits (DELIVER TO, EVERY), in the transaction of the hits.

The time of a digest is in the time zone of the query's author or, without one, of the server.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from datetime import time as time_of_day
from functools import lru_cache
from zoneinfo import ZoneInfo

from msgspec.structs import replace
from sqlalchemy import Connection, and_, select

from headwater.errors import SettingsError
from headwater.language.ast import DeliverClause, DeliveryFormat, EveryClause, Weekday
from headwater.store.publishing import deliveries
from headwater.store.publishing.deliveries import Delivery
from headwater.store.queries import query_feeds
from headwater.store.queries.hits import StoredHit
from headwater.store.schema.query_tables import query_feed
from headwater.store.schema.reader_tables import USER_IS_LIVE, user
from headwater.times import parse_time_zone

KINDS = {DeliveryFormat.EMAIL: "email", DeliveryFormat.WEBHOOK: "webhook", DeliveryFormat.NOTIFY: "notify"}


class DeliveryPlanner:
    """A writer for the query processor. `time_zone` is that of the server."""

    def __init__(self, time_zone: ZoneInfo, clock: Callable[[], float] = time.time) -> None:
        self._server_zone = time_zone
        self._clock = clock

    def __call__(self, connection: Connection, hits: Sequence[StoredHit]) -> None:
        fresh = [hit for hit in hits if hit.fresh and hit.item.id is not None]
        if not fresh:
            return
        now = self._clock()
        ids = {hit.query_id for hit in fresh}
        rows = {row.id: row for row in connection.execute(_DELIVERY_QUERIES.where(query_feed.c.id.in_(sorted(ids))))}
        new = []
        for hit in fresh:
            row = rows.get(hit.query_id)
            if row is None:
                continue
            for clause in read_delivery_clauses(row.active or row.text):
                zone = self._user_zone(row.time_zone)
                slot = None if clause.every is None else next_digest_time(clause.every, now, zone)
                due = now if slot is None else slot
                address = clause.address or ""
                new.append(
                    Delivery(
                        *(0, hit.query_id, row.name, hit.id, hit.item.id or 0, KINDS[clause.kind], address, due),
                        slot=slot,
                        at=now,
                    )
                )
        deliveries.add_deliveries(connection, new)

    def _user_zone(self, name: str | None) -> ZoneInfo:
        """Return the author's time zone; an unknown one must not stop the queries."""
        try:
            return parse_time_zone(name) if name else self._server_zone
        except SettingsError:
            return self._server_zone


_DELIVERY_QUERIES = select(
    query_feed.c.id, query_feed.c.name, query_feed.c.text, query_feed.c.active, user.c.time_zone
).select_from(query_feed.outerjoin(user, and_(user.c.id == query_feed.c.author_id, USER_IS_LIVE)))


@lru_cache(maxsize=1_000)
def read_delivery_clauses(text: str) -> tuple[DeliverClause, ...]:
    """Return the deliveries of a definition to receivers, each with its EVERY or that of the query."""
    query = query_feeds.read_definition(text).query
    return tuple(
        replace(delivery, every=delivery.every or query.every)
        for delivery in query.deliveries
        if delivery.kind in KINDS and delivery.address
    )


def next_digest_time(every: EveryClause, now: float, zone: ZoneInfo) -> float:
    """Return the time of the first digest after `now`.

    Whole days and weekdays follow the calendar of the time zone, so that 07:30 stays 07:30 when clocks change. Weekdays
    without a time of day begin at midnight. Shorter intervals start at the given time of day, or at midnight UTC.

    >>> from headwater.language.ast import Duration, TimeUnit
    >>> daily = EveryClause(Duration(1, TimeUnit.DAY), "07:30")
    >>> next_digest_time(daily, 0.0, ZoneInfo("UTC")) / 3600
    7.5
    >>> next_digest_time(daily, 7.5 * 3600, ZoneInfo("UTC")) / 3600
    31.5
    >>> fridays = EveryClause(Duration(1, TimeUnit.DAY), "07:30", (Weekday.FRIDAY,))
    >>> next_digest_time(fridays, 0.0, ZoneInfo("UTC")) / 3600
    31.5
    >>> next_digest_time(EveryClause(Duration(6, TimeUnit.HOUR)), 1.0, ZoneInfo("UTC")) / 3600
    6.0
    """
    hours, minutes = map(int, every.at.split(":")) if every.at else (0, 0)
    span = every.span.seconds
    if not every.weekdays and (every.at is None or span % 86_400):
        begin = hours * 3600 + minutes * 60
        return begin + (math.floor((now - begin) / span) + 1) * span
    days, wall = span // 86_400, time_of_day(hours, minutes)
    weekdays = {list(Weekday).index(day) for day in every.weekdays} or set(range(7))
    day = datetime.fromtimestamp(now, zone).date()
    while True:
        moment = datetime.combine(day, wall, zone).timestamp()
        if moment > now and day.toordinal() % days == 0 and day.weekday() in weekdays:
            return moment
        day += timedelta(1)
