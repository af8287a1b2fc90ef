"""Feeds: adding many at once, finding one by whatever a person typed, changing, removing."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, func, or_, select, update

from headwater.errors import InputError, NotFound
from headwater.formats.urls import normalise
from headwater.model import Feed
from headwater.store import accounts, search, subscribing, subscriptions
from headwater.store.clean import clean
from headwater.store.people_tables import mark
from headwater.store.sql import chunks, insert_new
from headwater.store.state import changed
from headwater.store.tables import (
    edition,
    feed,
    feed_tag,
    hit,
    implicit_feed,
    item,
    known,
    offered,
    query_source,
    refresh,
    seen,
)
from headwater.store.values import Added, Allowed, NewFeed

CHUNK = 1000
CHANGEABLE = ("title", "name", "weight", "paused", "url", "tags")
OF_SERVER = (
    *("etag", "last_modified", "body_hash", "last_error", "moved_to", "hub", "topic", "hints"),
    *("next_refresh", "not_before", "fresh_until", "failing_since"),
)
_FEED = select(
    feed.c.id,
    feed.c.url,
    func.coalesce(feed.c.given_title, feed.c.title).label("title"),
    feed.c.name,
    feed.c.link,
    feed.c.weight,
    feed.c.added,
    feed.c.paused,
    feed.c.gone_since,
)


def add_feeds(
    connection: Connection,
    feeds: Iterable[NewFeed],
    now: float,
    progress: Callable[[int], None] | None = None,
    *,
    adopt: bool = True,
    subscriber: int | None = None,
    allowed: Allowed | None = None,
) -> list[Added]:
    """In the caller's transaction. With `adopt` those that are here only for a query are here for themselves now.

    They are subscribed for `subscriber`, else for the owner, with their tags; only the owner's are also the feed's.
    `allowed` may refuse, by raising, and is asked where nobody else can add for the same person meanwhile.
    """
    done: list[Added] = []
    first = accounts.owner(connection).id
    if allowed is not None:
        feeds = list(feeds)
        addresses = [each.url for each in feeds]
        allowed(*subscribing.brought(connection, subscriber or first, addresses, alone=True))
    for chunk in chunks((clean(each) for each in feeds), CHUNK):
        added = _add_chunk(connection, chunk, now, tagged=subscriber in (None, first))
        if adopt:
            added = _adopt(connection, chunk, added)
            wanted = [(one.feed.id, each.tags) for each, one in zip(chunk, added, strict=True)]
            created = {one.feed.id for one in added if one.created}
            subscribing.subscribe(connection, subscriber or first, wanted, created, now)
        done += added
        if progress is not None:
            progress(len(done))
    changed(connection)
    return done


def _add_chunk(connection: Connection, new: Sequence[NewFeed], now: float, tagged: bool) -> list[Added]:
    keys = [normalise(each.url) for each in new]
    first: dict[str, NewFeed] = {}
    for key, each in zip(keys, new, strict=True):
        first.setdefault(key, each)
    here = set(connection.execute(select(feed.c.url_key).where(feed.c.url_key.in_(list(first)))).scalars())
    missing = {key: each for key, each in first.items() if key not in here}
    _refuse_taken_names(connection, missing.values())
    dialect = connection.dialect.name
    if missing:
        rows = [_new_row(key, each, now) for key, each in missing.items()]
        # Another process may add the same address at this moment; then it was not us who created it.
        inserted = connection.execute(insert_new(dialect, feed).returning(feed.c.id, feed.c.url_key), rows).all()
        created = {key for _, key in inserted}
        if inserted:
            fresh = [{"feed_id": id, "window": 0, "failures": 0, "moves": 0, "unstable": 0} for id, _ in inserted]
            connection.execute(insert_new(dialect, known), fresh)
    else:
        created = set()
    ids = {
        key: id
        for id, key in connection.execute(select(feed.c.id, feed.c.url_key).where(feed.c.url_key.in_(list(first))))
    }
    tags = {(ids[key], tag) for key, each in zip(keys, new, strict=True) for tag in each.tags}
    if tags and tagged:
        rows = [{"feed_id": id, "tag": tag} for id, tag in sorted(tags)]
        connection.execute(insert_new(dialect, feed_tag), rows)
    stored = {each.id: each for each in _read(connection, _FEED.where(feed.c.id.in_(list(ids.values()))))}
    added = []
    for key in keys:
        added.append(Added(stored[ids[key]], key in created))
        created.discard(key)  # the second time the same address is given, it is there already
    return added


def _adopt(connection: Connection, new: Sequence[NewFeed], added: list[Added]) -> list[Added]:
    """Feeds that only queries wanted get the weight they are now given, and count as registered."""
    weights = {one.feed.id: each.weight for each, one in zip(new, added, strict=True) if not one.created}
    gone = delete(implicit_feed).where(implicit_feed.c.feed_id.in_(list(weights)))
    was = connection.execute(gone.returning(implicit_feed.c.feed_id)).scalars().all() if weights else []
    for id in was:
        connection.execute(update(feed).where(feed.c.id == id).values(weight=weights[id], paused=False))
    changed = {each.id: each for each in _read(connection, _FEED.where(feed.c.id.in_(was)))} if was else {}
    return [Added(changed.get(one.feed.id, one.feed), one.created) for one in added]


def _new_row(key: str, new: NewFeed, now: float) -> dict[str, Any]:
    return {
        "url": new.url,
        "url_key": key,
        "name": new.name,
        "title": new.title,
        "given_title": None,
        "link": new.link,
        "weight": new.weight,
        "added": now,
        "paused": False,
        "gone_since": None,
    }


def _refuse_taken_names(connection: Connection, new: Iterable[NewFeed]) -> None:
    wanted: dict[str, str] = {}
    for each in new:
        if each.name is not None and wanted.setdefault(each.name, each.url) != each.url:
            raise InputError(f"Two feeds want the name “{each.name}”: {wanted[each.name]} and {each.url}.")
    if wanted:
        taken = connection.execute(select(feed.c.name, feed.c.url).where(feed.c.name.in_(list(wanted)))).first()
        if taken is not None:
            raise InputError(f"The name “{taken[0]}” already belongs to {taken[1]}. Choose another.")


def find(connection: Connection, ref: int | str) -> Feed:
    """By id, address or name, in this order."""
    conditions = []
    if isinstance(ref, int) or (ref.isascii() and ref.isdigit()):
        conditions.append(feed.c.id == min(int(ref), 2**63 - 1))
    if isinstance(ref, str):
        conditions += [feed.c.url_key == normalise(clean(ref)), feed.c.name == clean(ref)]
    for condition in conditions:
        if found := _read(connection, _FEED.where(condition)):
            return found[0]
    raise NotFound(_not_found(connection, ref))


def _not_found(connection: Connection, ref: int | str) -> str:
    if isinstance(ref, int) or ref.isdigit():
        return f"There is no feed {ref}. “headwater feeds list” shows all."
    holding = _holding(connection, clean(ref))
    if holding:
        return f"There is no feed “{ref}”. {holding}"
    # Candidates that share a beginning or a middle with what was typed, so that 100,000 feeds need not be compared.
    word = clean(ref).rstrip("/").rpartition("/")[2] or clean(ref)
    like = {part for part in (word[:4], word[-4:], word) if len(part) >= 3}
    near = [_contains(part) for part in sorted(like)]
    rows = connection.execute(select(feed.c.name, feed.c.url).where(or_(*near)).limit(200)).all() if near else []
    names = [name for row in rows for name in row if name]
    close = difflib.get_close_matches(clean(ref), names, n=3, cutoff=0.6)
    hint = f" Did you mean {' or '.join(close)}?" if close else " “headwater feeds list” shows all."
    return f"There is no feed “{ref}”.{hint}"


def _holding(connection: Connection, part: str) -> str:
    """Which feeds have it in title, name or address, where they are few: nobody removes a feed by half a title."""
    if len(part) < 3:
        return ""
    title = func.coalesce(feed.c.given_title, feed.c.title, feed.c.url)
    few = connection.execute(select(feed.c.id, title).where(_contains(part)).order_by(feed.c.id).limit(4)).all()
    if len(few) == 4:
        return f"“headwater feeds list --search '{part}'” shows those that have it in title, name or address."
    return f"Did you mean {' or '.join(f'{row[0]} ({row[1]})' for row in few)}?" if few else ""


def _contains(part: str) -> Any:
    columns = (feed.c.name, feed.c.url, feed.c.title, feed.c.given_title)
    return or_(*(column.icontains(part, autoescape=True) for column in columns))


def by_ids(connection: Connection, ids: Iterable[int]) -> dict[int, Feed]:
    """Those of these feeds that are there."""
    found: dict[int, Feed] = {}
    for chunk in chunks(sorted(ids), CHUNK):
        found |= {each.id: each for each in _read(connection, _FEED.where(feed.c.id.in_(chunk)))}
    return found


def listed(connection: Connection, after: int, limit: int | None, tag: str | None, search: str | None) -> list[Feed]:
    query = _FEED.where(feed.c.id > after).order_by(feed.c.id).limit(limit)
    if tag is not None:
        query = query.where(feed.c.id.in_(select(feed_tag.c.feed_id).where(feed_tag.c.tag == clean(tag))))
    if search is not None:
        query = query.where(_contains(clean(search)))
    return _read(connection, query)


def _read(connection: Connection, query: Select[Any]) -> list[Feed]:
    rows = connection.execute(query).all()
    tags = tags_of(connection, [row[0] for row in rows])
    return [_feed(row, tags) for row in rows]


def _feed(row: Row[Any], tags: Mapping[int, tuple[str, ...]]) -> Feed:
    return Feed(
        id=row.id,
        url=row.url,
        title=row.title,
        name=row.name,
        link=row.link,
        tags=tags.get(row.id, ()),
        weight=row.weight,
        added=row.added,
        paused=row.paused,
        gone_since=row.gone_since,
    )


def tags_of(connection: Connection, ids: Sequence[int] | None) -> dict[int, tuple[str, ...]]:
    """The tags of some feeds, or of all, by name."""
    found: dict[int, tuple[str, ...]] = {}
    tagged = select(feed_tag.c.feed_id, feed_tag.c.tag)
    some = [tagged] if ids is None else [tagged.where(feed_tag.c.feed_id.in_(chunk)) for chunk in chunks(ids, CHUNK)]
    for query in some:
        for id, tag in connection.execute(query).all():
            found[id] = (*found.get(id, ()), tag)
    return {id: tuple(sorted(tags)) for id, tags in found.items()}


def count(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(feed)).scalar_one()


def tags(connection: Connection) -> list[tuple[str, int]]:
    query = select(feed_tag.c.tag, func.count()).group_by(feed_tag.c.tag)
    return sorted((tag, number) for tag, number in connection.execute(query))


def change(connection: Connection, feed_id: int, changes: Mapping[str, Any]) -> Feed:
    if unknown := sorted(set(changes) - set(CHANGEABLE)):
        raise InputError(f"A feed has no “{unknown[0]}” to change; there are {', '.join(CHANGEABLE)}.")
    old = find(connection, feed_id)
    values = {key: clean(value) for key, value in changes.items() if key != "tags"}
    if "title" in values:
        values["given_title"] = values.pop("title")
    if "url" in values:
        values |= {"url_key": normalise(values["url"]), "gone_since": None}
    for key in ("name", "url_key"):
        _refuse_taken(connection, feed_id, key, values.get(key))
    if values:
        connection.execute(update(feed).where(feed.c.id == feed_id).values(values))
    if values.get("url", old.url) != old.url:
        _forget_server(connection, feed_id)
    if "tags" in changes:
        connection.execute(delete(feed_tag).where(feed_tag.c.feed_id == feed_id))
        rows = [{"feed_id": feed_id, "tag": clean(tag)} for tag in sorted(set(changes["tags"]))]
        if rows:
            connection.execute(insert_new(connection.dialect.name, feed_tag), rows)
        subscribing.follow_tags(connection, feed_id, [clean(tag) for tag in changes["tags"]])
    changed(connection)
    return find(connection, feed_id)


def _refuse_taken(connection: Connection, feed_id: int, key: str, value: str | None) -> None:
    if value is None:
        return
    query = select(feed.c.url).where(feed.c[key] == value, feed.c.id != feed_id)
    if (other := connection.execute(query).scalar()) is not None:
        what = "name" if key == "name" else "address"
        raise InputError(f"The {what} “{value}” already belongs to {other}. Choose another.")


def _forget_server(connection: Connection, feed_id: int) -> None:
    """What one server told us (validators, waiting times, failures) is not to be told to another."""
    empty: dict[str, Any] = dict.fromkeys(OF_SERVER)
    connection.execute(update(known).where(known.c.feed_id == feed_id).values(**empty, failures=0, moves=0))


def remove(connection: Connection, feed_id: int) -> None:
    """The feed, its items and their words, what came out of queries, what was seen, and the log.

    Outbox entries without an item are not shown.
    """
    find(connection, feed_id)
    ids = connection.execute(select(item.c.id).where(item.c.feed_id == feed_id)).scalars().all()
    for chunk in chunks(ids, CHUNK):
        search.forget(connection, chunk)
    published = select(hit.c.item_id).where(hit.c.feed_id == feed_id)
    connection.execute(delete(edition).where(edition.c.item_id.in_(published)))
    for table in (item, seen, refresh, hit, offered, query_source, mark):
        connection.execute(delete(table).where(table.c.feed_id == feed_id))
    subscriptions.part(connection, [feed_id])
    connection.execute(delete(feed).where(feed.c.id == feed_id))  # tags, known and window go with it
    changed(connection)
