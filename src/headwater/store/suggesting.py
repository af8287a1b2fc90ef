"""What a person might read: what others here read beside the same feeds, and what their items say and link to.

In the caller's transaction, and each with a limit.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from headwater.store.people_tables import subscribed
from headwater.store.tables import item

AT_LEAST = 2  # others who read a feed before it is suggested: one person's reading is nobody's business


@dataclass(frozen=True, slots=True)
class Also:
    """A feed that others read: `both` of the `readers` of a feed of yours."""

    feed_id: int
    because: int
    both: int
    readers: int


def also_read(connection: Connection, user_id: int, limit: int) -> list[Also]:
    """Feeds that those read who read the same as this person, the strongest link first."""
    mine = select(subscribed.c.feed_id).where(subscribed.c.user_id == user_id)
    near, far = subscribed.alias("near"), subscribed.alias("far")
    both = func.count()
    pairs = connection.execute(
        select(far.c.feed_id, near.c.feed_id.label("because"), both.label("both"))
        .select_from(near.join(far, far.c.user_id == near.c.user_id))
        .where(near.c.user_id != user_id, near.c.feed_id.in_(mine), far.c.feed_id.not_in(mine))
        .group_by(far.c.feed_id, near.c.feed_id)
        .having(both >= AT_LEAST)
        .order_by(both.desc(), far.c.feed_id, near.c.feed_id)
        .limit(20 * limit)
    ).all()
    counted = select(subscribed.c.feed_id, func.count()).where(
        subscribed.c.feed_id.in_({row.because for row in pairs}), subscribed.c.user_id != user_id
    )
    readers = {row[0]: row[1] for row in connection.execute(counted.group_by(subscribed.c.feed_id))} if pairs else {}
    found: dict[int, Also] = {}
    for row in pairs:
        one = Also(row.feed_id, row.because, row.both, readers.get(row.because, row.both))
        known = found.get(one.feed_id)
        if known is None or one.both / one.readers > known.both / known.readers:
            found[one.feed_id] = one
    return sorted(found.values(), key=lambda one: (-one.both / one.readers, -one.both))[:limit]


def popular(connection: Connection, user_id: int, limit: int) -> list[tuple[int, int]]:
    """Feeds that at least two read and this person does not, with how many do."""
    mine = select(subscribed.c.feed_id).where(subscribed.c.user_id == user_id)
    number = func.count()
    query = select(subscribed.c.feed_id, number).where(subscribed.c.feed_id.not_in(mine))
    query = query.group_by(subscribed.c.feed_id).having(number >= AT_LEAST)
    return [(row[0], row[1]) for row in connection.execute(query.order_by(number.desc()).limit(limit))]


def titles(connection: Connection, user_id: int, since: float, most: int) -> list[tuple[int, int, float, str]]:
    """Item, feed, time and title of what a person reads, the latest first."""
    mine = select(subscribed.c.feed_id).where(subscribed.c.user_id == user_id)
    query = select(item.c.id, item.c.feed_id, item.c.published, item.c.title)
    query = query.where(item.c.published >= since, item.c.title.is_not(None), item.c.feed_id.in_(mine))
    rows = connection.execute(query.order_by(item.c.published.desc(), item.c.id.desc()).limit(most))
    return [(row.id, row.feed_id, row.published, row.title) for row in rows]


def texts(connection: Connection, user_id: int, most: int) -> list[tuple[int, str]]:
    """Feed and text of the latest items that a person reads."""
    mine = select(subscribed.c.feed_id).where(subscribed.c.user_id == user_id)
    text = func.coalesce(item.c.content, item.c.summary)
    query = select(item.c.feed_id, text.label("text")).where(item.c.feed_id.in_(mine), text.is_not(None))
    rows = connection.execute(query.order_by(item.c.published.desc(), item.c.id.desc()).limit(most))
    return [(row.feed_id, row.text) for row in rows]
