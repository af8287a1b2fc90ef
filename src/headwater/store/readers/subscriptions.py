"""Subscribes readers to feeds and query feeds, with titles and tags of their own.

A feed is fetched once for all its subscribers; a feed that nobody wants is no longer refreshed. The owner's tags are
the server's: queries and published lists use them, and both change together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, case, delete, func, select, update

from headwater.errors import InputError, NotFound
from headwater.formats.values.links import normalise_url
from headwater.store.content.feeds import AddedFeed, FeedQuotaCheck, NewFeed, add_feeds
from headwater.store.database.dialect import bind_ids, chunks, from_json, insert_or_ignore, select_by_ids, to_json
from headwater.store.queries import query_feeds
from headwater.store.queries.source_references import follow_tag
from headwater.store.readers.accounts import find_owner
from headwater.store.saved_state import bump_revision
from headwater.store.schema.feed_tables import FEED_IS_LIVE, feed, feed_state, feed_tag
from headwater.store.schema.item_tables import item
from headwater.store.schema.metadata import replace_unstorable
from headwater.store.schema.query_tables import implicit_feed, query_feed
from headwater.store.schema.reader_tables import query_subscription, subscription, subscription_tag, user

QUERY_FEEDS_TAG = "Query feeds"  # of query feeds to which the reader gave no tags


class Subscription(msgspec.Struct, frozen=True):
    """A reader's subscription to a feed or to a query feed: either `feed_id` or `query_id` is set.

    `title` is the reader's own, else the feed's, else the address. `url` is the address of the feed, or the path under
    which a query feed is published.
    """

    feed_id: int | None
    query_id: int | None
    title: str
    url: str
    link: str | None
    tags: tuple[str, ...]
    added: float
    read_up_to: int


CHUNK = 1000
MIN_UNREAD = 10  # of a feed's older items that are unread for a new subscriber; more if its window is larger
MAX_TAG_LENGTH = 200


def validate_tag(tag: str) -> str:
    """Return the tag without surrounding blanks; InputError if it cannot be a tag."""
    tag = tag.strip()
    if not tag or len(tag) > MAX_TAG_LENGTH or not tag.isprintable():
        raise InputError(f"A tag has 1 to {MAX_TAG_LENGTH} visible characters.")
    return tag


def add_and_subscribe(
    connection: Connection,
    new: Iterable[NewFeed],
    now: float,
    *,
    progress: Callable[[int], None] | None = None,
    subscriber: int | None = None,
    allowed: FeedQuotaCheck | None = None,
) -> list[AddedFeed]:
    """Add feeds and subscribe a reader, by default the owner, to them with their tags; returns them in the order given.

    Only the owner's tags become tags of the feeds. `progress` is called with the number of feeds done, maybe from
    another thread. `allowed` gets the numbers of new feeds and of feeds only this reader reads, and may raise; nobody
    else can add feeds for the same reader meanwhile.
    """
    owner = find_owner(connection).id
    reader = subscriber or owner
    wanted = list(new)
    if allowed is not None:
        allowed(*count_feeds_brought(connection, reader, [each.url for each in wanted], alone=True))
    done: list[AddedFeed] = []
    for chunk in chunks(wanted, CHUNK):
        added = add_feeds(connection, chunk, now, tagged=reader == owner)
        tags = [(one.feed.id, each.tags) for each, one in zip(chunk, added, strict=True)]
        subscribe_to_feeds(connection, reader, tags, {one.feed.id for one in added if one.created}, now)
        done += added
        if progress is not None:
            progress(len(done))
    return done


def subscribe_to_feeds(
    connection: Connection,
    user_id: int,
    feeds: Iterable[tuple[int, Collection[str]]],
    created: Collection[int],
    now: float,
) -> None:
    """Subscribe to feeds and add these tags; `created` feeds are new and have no items yet."""
    wanted = {id: set(tags) for id, tags in feeds}
    there: set[int] = set()
    for chunk in chunks(wanted, CHUNK):
        mine = (subscription.c.user_id == user_id, subscription.c.feed_id.in_(chunk))
        there.update(connection.execute(select(subscription.c.feed_id).where(*mine)).scalars())
    rows = [
        {
            "user_id": user_id,
            "feed_id": id,
            "added": now,
            "read_up_to": 0 if id in created else _find_read_position(connection, id),
        }
        for id in wanted
        if id not in there
    ]
    if rows:
        connection.execute(insert_or_ignore(connection, subscription), rows)
        bump_revision(connection)  # queries see what their owners subscribe to
    tagged = [{"user_id": user_id, "feed_id": id, "tag": tag} for id, tags in wanted.items() for tag in sorted(tags)]
    if tagged:
        connection.execute(insert_or_ignore(connection, subscription_tag), tagged)


def _find_read_position(connection: Connection, feed_id: int) -> int:
    """Find the last item that the feed's document no longer shows: up to it everything is read for a new subscriber."""
    window = connection.execute(select(feed_state.c.window).where(feed_state.c.feed_id == feed_id)).scalar() or 0
    older = select(item.c.id).where(item.c.feed_id == feed_id).order_by(item.c.id.desc())
    return connection.execute(older.offset(max(window, MIN_UNREAD)).limit(1)).scalar() or 0


def subscribe_to_feed(
    connection: Connection, user_id: int, feed_id: int, now: float, *, tags: Collection[str] = ()
) -> None:
    """Subscribe to an existing feed; NotFound if there is none. A feed that nobody wanted is refreshed again."""
    if connection.execute(select(feed.c.id).where(feed.c.id == feed_id, FEED_IS_LIVE)).first() is None:
        raise NotFound(f"There is no feed {feed_id}.")
    subscribe_to_feeds(connection, user_id, [(feed_id, [validate_tag(tag) for tag in tags])], (), now)
    if connection.execute(delete(implicit_feed).where(implicit_feed.c.feed_id == feed_id)).rowcount:
        connection.execute(update(feed).where(feed.c.id == feed_id).values(weight=1.0, paused=False))
        bump_revision(connection)


def subscribe_to_query_feed(connection: Connection, user_id: int, query_id: int, now: float) -> None:
    """Subscribe a reader to a query feed."""
    subscribe_to_query_feeds(connection, user_id, [query_id], now)


def subscribe_to_query_feeds(connection: Connection, user_id: int, query_ids: Iterable[int], now: float) -> None:
    """Subscribe a reader to query feeds."""
    rows = [{"user_id": user_id, "query_id": id, "added": now, "read_up_to": 0} for id in query_ids]
    if rows:
        connection.execute(insert_or_ignore(connection, query_subscription), rows)


def release_unwanted_feeds(connection: Connection, feed_ids: Collection[int]) -> None:
    """Stop refreshing the feeds among these without subscribers, unless queries name them; their items stay."""
    idle: list[Any] = []
    for chunk in chunks(sorted(feed_ids), CHUNK):
        wanted = select(subscription.c.feed_id).where(subscription.c.feed_id.in_(chunk))
        query = select(feed.c.id, feed.c.name).where(feed.c.id.in_(chunk), feed.c.id.not_in(wanted))
        idle += connection.execute(query).all()
    alone = [row.id for row in idle if row.name is None or not query_feeds.find_dependents(connection, [row.name])]
    if alone:
        rows = [{"feed_id": id} for id in alone]
        connection.execute(insert_or_ignore(connection, implicit_feed), rows)
        for chunk in chunks(alone, CHUNK):
            connection.execute(update(feed).where(feed.c.id.in_(chunk)).values(weight=0.0))
        query_feeds.pause_unreferenced_feeds(connection)
        bump_revision(connection)


def count_feeds_brought(
    connection: Connection, user_id: int, addresses: Collection[str], *, alone: bool = False
) -> tuple[int, int]:
    """Count the addresses that are not feeds here yet, and the feeds that only this reader reads.

    With `alone`, other transactions that count for the same reader wait until the caller's has ended.
    """
    if alone:
        connection.execute(select(user.c.id).where(user.c.id == user_id).with_for_update())
    keys = {normalise_url(address) for address in addresses}
    here = 0
    for chunk in chunks(keys, CHUNK):
        known = select(func.count()).select_from(feed).where(feed.c.url_key.in_(chunk), FEED_IS_LIVE)
        here += connection.execute(known).scalar_one()
    other = subscription.alias("other")
    read_by_others = select(other.c.user_id).where(
        other.c.feed_id == subscription.c.feed_id, other.c.user_id != user_id
    )
    alone_in = select(func.count()).where(subscription.c.user_id == user_id, ~read_by_others.exists())
    return len(keys) - here, connection.execute(alone_in).scalar_one()


def require_subscription(connection: Connection, user_id: int, feed_id: int) -> None:
    """Raise NotFound unless the reader subscribes to the feed.

    The sentence is the same as for a missing feed, so that nobody learns which feeds others read.
    """
    mine = (subscription.c.user_id == user_id, subscription.c.feed_id == feed_id)
    if connection.execute(select(subscription.c.feed_id).where(*mine)).first() is None:
        raise NotFound(f"There is no subscription to feed {feed_id}.")


def find_subscribed_feed(connection: Connection, user_id: int, url: str) -> int:
    """Return the id of the reader's feed at an address. Raises NotFound, also for a feed that only others read."""
    mine = select(feed.c.id).join(subscription, subscription.c.feed_id == feed.c.id)
    mine = mine.where(subscription.c.user_id == user_id, feed.c.url_key == normalise_url(replace_unstorable(url)))
    found: int | None = connection.execute(mine).scalar()
    if found is None:
        raise NotFound(f"You are not subscribed to {url[:200]}.")
    return found


def require_query_subscription(connection: Connection, user_id: int, query_id: int) -> None:
    """Raise NotFound unless the reader subscribes to the query feed."""
    mine = (query_subscription.c.user_id == user_id, query_subscription.c.query_id == query_id)
    if connection.execute(select(query_subscription.c.query_id).where(*mine)).first() is None:
        raise NotFound(f"There is no subscription to query feed {query_id}.")


def change_subscription_title(
    connection: Connection,
    user_id: int,
    title: str | None,
    *,
    feed_id: int | None = None,
    query_id: int | None = None,
) -> None:
    """Set a reader's own title of a feed or query feed; None or blank shows the feed's again."""
    title = (title or "").strip()[:MAX_TAG_LENGTH] or None
    if feed_id is not None:
        require_subscription(connection, user_id, feed_id)
        mine: tuple[ColumnElement[bool], ...] = (
            subscription.c.user_id == user_id,
            subscription.c.feed_id == feed_id,
        )
        connection.execute(update(subscription).where(*mine).values(title=title))
    elif query_id is not None:
        require_query_subscription(connection, user_id, query_id)
        mine = (query_subscription.c.user_id == user_id, query_subscription.c.query_id == query_id)
        connection.execute(update(query_subscription).where(*mine).values(title=title))


def change_tags(
    connection: Connection,
    user_id: int,
    *,
    feed_id: int | None = None,
    query_id: int | None = None,
    add: Collection[str] = (),
    remove: Collection[str] = (),
) -> None:
    """Add and remove tags of a feed or query feed. The owner's tags are also those of the feed itself."""
    if query_id is not None:
        _change_query_tags(connection, user_id, query_id, add, remove)
    elif feed_id is not None:
        _change_feed_tags(connection, user_id, feed_id, add, remove)


def _change_feed_tags(
    connection: Connection, user_id: int, feed_id: int, add: Collection[str], remove: Collection[str]
) -> None:
    require_subscription(connection, user_id, feed_id)
    added = [validate_tag(tag) for tag in add]
    mine = (subscription_tag.c.user_id == user_id, subscription_tag.c.feed_id == feed_id)
    if remove:
        connection.execute(delete(subscription_tag).where(*mine, subscription_tag.c.tag.in_(list(remove))))
    if added:
        rows = [{"user_id": user_id, "feed_id": feed_id, "tag": tag} for tag in added]
        connection.execute(insert_or_ignore(connection, subscription_tag), rows)
    if find_owner(connection).id == user_id:
        if remove:
            connection.execute(delete(feed_tag).where(feed_tag.c.feed_id == feed_id, feed_tag.c.tag.in_(list(remove))))
        if added:
            connection.execute(
                insert_or_ignore(connection, feed_tag), [{"feed_id": feed_id, "tag": tag} for tag in added]
            )
    bump_revision(connection)


def _change_query_tags(
    connection: Connection, user_id: int, query_id: int, add: Collection[str], remove: Collection[str]
) -> None:
    mine = (query_subscription.c.user_id == user_id, query_subscription.c.query_id == query_id)
    row = connection.execute(select(query_subscription.c.tags).where(*mine)).first()
    if row is None:
        raise NotFound(f"There is no subscription to query feed {query_id}.")
    tags = [tag for tag in read_query_tags(row.tags) if tag not in remove]
    tags += [tag for tag in map(validate_tag, add) if tag not in tags]
    connection.execute(update(query_subscription).where(*mine).values(tags=to_json(tags) or "[]"))


def read_query_tags(stored: str | None) -> tuple[str, ...]:
    """Return the stored tags of a query feed, or QUERY_FEEDS_TAG."""
    return (QUERY_FEEDS_TAG,) if stored is None else tuple(from_json(stored))


def rename_subscription_tag(connection: Connection, user_id: int, old: str, new: str | None) -> None:
    """Rename a tag, maybe to an existing one, or (None) remove it from everything. Queries that read the tag follow
    its new name. NotFound if there is none."""
    feeds = _list_tagged_feeds(connection, user_id, old)
    rows = connection.execute(select(query_subscription).where(query_subscription.c.user_id == user_id)).all()
    asked = [row.query_id for row in rows if old in read_query_tags(row.tags)]
    if not feeds and not asked:
        raise NotFound(f"There is no tag “{old}”.")
    more = () if new is None else (validate_tag(new),)
    gone = () if old in more else (old,)
    for id in feeds:
        _change_feed_tags(connection, user_id, id, more, gone)
    for id in asked:
        _change_query_tags(connection, user_id, id, more, gone)
    if more and feeds:
        follow_tag(connection, None if user_id == find_owner(connection).id else user_id, old, *more)


def _list_tagged_feeds(connection: Connection, user_id: int, tag: str) -> Sequence[int]:
    mine = (subscription_tag.c.user_id == user_id, subscription_tag.c.tag == tag)
    return connection.execute(select(subscription_tag.c.feed_id).where(*mine)).scalars().all()


def list_subscriptions(connection: Connection, user_id: int) -> list[Subscription]:
    """List a reader's subscriptions: feeds by id, then query feeds."""
    return _load_subscriptions(connection, user_id, None, None)


def find_subscriptions(
    connection: Connection, user_id: int, feed_ids: Collection[int], query_ids: Collection[int]
) -> list[Subscription]:
    """Find the subscriptions among these feeds and query feeds."""
    return _load_subscriptions(connection, user_id, sorted(feed_ids), sorted(query_ids))


def find_subscription(
    connection: Connection, user_id: int, *, feed_id: int | None = None, query_id: int | None = None
) -> Subscription | None:
    """Find a reader's subscription to a feed or query feed; None if there is none."""
    feeds, queries = [[] if id is None else [id] for id in (feed_id, query_id)]
    found = find_subscriptions(connection, user_id, feeds, queries)
    return found[0] if found else None


def find_subscribed_feeds(connection: Connection, user_id: int, feed_ids: Collection[int]) -> set[int]:
    """Return those of these feeds that a reader subscribes to."""
    found = find_subscriptions(connection, user_id, feed_ids, ())
    return {one.feed_id for one in found if one.feed_id is not None}


def list_subscription_page(
    connection: Connection, user_id: int, *, after: tuple[int, int] | None, limit: int, tag: str | None = None
) -> list[Subscription]:
    """List subscriptions beyond `after`, which is (0, feed id) or (1, query id): feeds by id, then query feeds."""
    found: list[Subscription] = []
    if after is None or after[0] == 0:
        table = subscription if tag is None else subscription_tag
        ids = select(table.c.feed_id).where(table.c.user_id == user_id, table.c.feed_id > (after[1] if after else 0))
        if tag is not None:
            ids = ids.where(subscription_tag.c.tag == tag)
        rows = connection.execute(ids.order_by(table.c.feed_id).limit(limit))
        found = find_subscriptions(connection, user_id, list(rows.scalars()), ())
        after = None
    if len(found) < limit:
        tagged = _list_query_tags(connection, user_id, after[1] if after else 0)
        mine = [id for id, tags in tagged if tag is None or tag in tags]
        found += find_subscriptions(connection, user_id, (), mine[: limit - len(found)])
    return found


def _list_query_tags(connection: Connection, user_id: int, after: int = 0) -> list[tuple[int, tuple[str, ...]]]:
    """List the query feeds of a reader beyond an id, with their tags."""
    query = select(query_subscription.c.query_id, query_subscription.c.tags).order_by(query_subscription.c.query_id)
    query = query.where(query_subscription.c.user_id == user_id, query_subscription.c.query_id > after)
    return [(row.query_id, read_query_tags(row.tags)) for row in connection.execute(query)]


def count_subscription_tags(connection: Connection, user_id: int) -> dict[str, int]:
    """Count the subscriptions of a reader by tag."""
    query = select(subscription_tag.c.tag, func.count()).where(subscription_tag.c.user_id == user_id)
    rows = connection.execute(query.group_by(subscription_tag.c.tag))
    counted: dict[str, int] = dict(map(tuple, rows))
    for _, tags in _list_query_tags(connection, user_id):
        for tag in tags:
            counted[tag] = counted.get(tag, 0) + 1
    return counted


def _load_subscriptions(
    connection: Connection, user_id: int, feed_ids: list[int] | None, query_ids: list[int] | None
) -> list[Subscription]:
    user = {"user": user_id}
    found: list[Subscription] = []
    if feed_ids is None:
        found = _read_subscriptions(connection.execute(_FEEDS, user))
    else:
        for chunk in chunks(feed_ids, CHUNK):
            some = {**user, "ids": bind_ids(connection, chunk)}
            found += _read_subscriptions(connection.execute(_SOME_FEEDS[connection.dialect.name], some))
    if query_ids is None:
        return found + _read_query_subscriptions(connection.execute(_QUERIES, user))
    for chunk in chunks(query_ids, CHUNK):
        found += _read_query_subscriptions(connection.execute(_SOME_QUERIES, {**user, "ids": chunk}))
    return found


_FEEDS = (
    select(
        subscription.c.feed_id,
        subscription.c.title,
        subscription.c.added,
        subscription.c.read_up_to,
        feed.c.url,
        feed.c.link,
        func.coalesce(feed.c.given_title, feed.c.title),
        subscription_tag.c.tag,
    )
    .join_from(subscription, feed, feed.c.id == subscription.c.feed_id)
    .outerjoin(
        subscription_tag,
        and_(
            subscription_tag.c.user_id == subscription.c.user_id, subscription_tag.c.feed_id == subscription.c.feed_id
        ),
    )
    .where(subscription.c.user_id == bindparam("user"))
    .order_by(subscription.c.feed_id, subscription_tag.c.tag)
)
_SOME_FEEDS = select_by_ids(_FEEDS, subscription.c.feed_id)
_QUERIES = (
    select(query_subscription, query_feed.c.name)
    .join(query_feed)
    .where(query_subscription.c.user_id == bindparam("user"))
    .order_by(query_subscription.c.query_id)
)
_SOME_QUERIES = _QUERIES.where(query_subscription.c.query_id.in_(bindparam("ids", expanding=True)))


def _read_subscriptions(rows: Iterable[Sequence[Any]]) -> list[Subscription]:
    """Build subscriptions to feeds from rows of `_FEEDS`; a feed with several tags has several rows."""
    found: list[Subscription] = []
    for id, same in groupby(rows, key=itemgetter(0)):
        rows_of_feed = list(same)
        _, title, added, read_up_to, url, link, shown, tag = rows_of_feed[0]
        tags = () if tag is None else tuple(row[-1] for row in rows_of_feed)
        found.append(Subscription(id, None, title or shown or url, url, link, tags, added, read_up_to))
    return found


def _read_query_subscriptions(rows: Iterable[Row[Any]]) -> list[Subscription]:
    return [
        Subscription(
            feed_id=None,
            query_id=row.query_id,
            title=row.title or row.name,
            url=f"/feeds/{row.name}",
            link=None,
            tags=read_query_tags(row.tags),
            added=row.added,
            read_up_to=row.read_up_to,
        )
        for row in rows
    ]


def count_subscribers(connection: Connection, feed_ids: Collection[int]) -> dict[int, int]:
    """Count the subscribers of each of these feeds; feeds without any are left out."""
    found: dict[int, int] = {}
    for chunk in chunks(sorted(feed_ids), CHUNK):
        query = select(subscription.c.feed_id, func.count()).where(subscription.c.feed_id.in_(chunk))
        found |= {row[0]: row[1] for row in connection.execute(query.group_by(subscription.c.feed_id))}
    return found


def count_subscribed_feeds(connection: Connection, user_id: int) -> int:
    """Count the feeds that a reader subscribes to."""
    mine = select(func.count()).select_from(subscription).where(subscription.c.user_id == user_id)
    return connection.execute(mine).scalar_one()


def list_reader_feeds(connection: Connection) -> list[int]:
    """List the feeds to which readers subscribe and no owner does."""
    owned = func.max(case((user.c.role == "owner", 1), else_=0))
    query = select(subscription.c.feed_id).join(user, user.c.id == subscription.c.user_id)
    return list(connection.execute(query.group_by(subscription.c.feed_id).having(owned == 0)).scalars())


def list_readers(connection: Connection) -> list[int]:
    """List the users who subscribe to feeds."""
    return list(
        connection.execute(select(subscription.c.user_id).distinct().order_by(subscription.c.user_id)).scalars()
    )
