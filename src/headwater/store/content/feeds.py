"""Adds, finds, lists, changes, merges and deletes feeds and their tags."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, delete, exists, func, insert, or_, select, update

from headwater.errors import InputError, NotFound
from headwater.formats.values.links import normalise_url
from headwater.formats.write.hidden_addresses import hide_fetch_address
from headwater.model import Feed, Item
from headwater.store.content import search, trashed_feeds, websub_leases
from headwater.store.content.articles import delete_articles
from headwater.store.content.items import delete_earlier_versions
from headwater.store.database.dialect import bind_ids, chunks, fetch_rows, has_id, insert_or_ignore
from headwater.store.readers.accounts import OWNER
from headwater.store.saved_state import bump_revision
from headwater.store.schema.feed_tables import FEED_IS_LIVE, feed, feed_state, feed_tag, refresh
from headwater.store.schema.item_tables import item, item_story, seen_identity
from headwater.store.schema.metadata import replace_unstorable
from headwater.store.schema.query_tables import (
    QUERY_IS_LIVE,
    hit,
    implicit_feed,
    item_version,
    offered_count,
    query_feed,
    selectivity,
)
from headwater.store.schema.reader_tables import USER_IS_LIVE, mark, subscription, subscription_tag, user

# Called with the number of new feeds and the number of feeds that only this reader reads; raises to refuse.
FeedQuotaCheck = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class NewFeed:
    """A feed to be added. `title` is provisional: the publisher's own replaces it at the first refresh.

    Nobody refreshes it before the time `not_before`.
    """

    url: str
    title: str | None = None
    name: str | None = None
    link: str | None = None
    tags: tuple[str, ...] = ()
    weight: float = 1.0
    not_before: float | None = None


@dataclass(frozen=True, slots=True)
class AddedFeed:
    """A feed that was to be added, and whether it was created just now."""

    feed: Feed
    created: bool


def sort_added(added: Sequence[AddedFeed]) -> tuple[list[int], list[int], list[int]]:
    """Return the indexes of the new feeds, of those that existed before, and of duplicates in the list (two
    spellings of one address, with and without :443, which only the store recognises)."""
    created = {one.feed.id for one in added if one.created}
    new = [place for place, one in enumerate(added) if one.created]
    before = [place for place, one in enumerate(added) if one.feed.id not in created]
    twice = [place for place, one in enumerate(added) if one.feed.id in created and not one.created]
    return new, before, twice


def check_merge(connection: Connection, into: int, gone: int) -> Feed:
    """Return the feed that a merge would delete. Raises NotFound, and InputError if both are the same."""
    if into == gone:
        raise InputError("A feed cannot be merged with itself: choose another.")
    find_feed(connection, into)
    return find_feed(connection, gone)


def merge_feeds(connection: Connection, into: int, gone: int) -> int:
    """Move the items of one feed to another and delete it for good; returns how many moved. Items that `into` has
    under the same identity are deleted with the feed."""
    old = check_merge(connection, into, gone)
    theirs = seen_identity.alias("theirs")
    has = exists(select(theirs.c.key).where(theirs.c.feed_id == into, theirs.c.key == seen_identity.c.key))
    rows = connection.execute(
        select(seen_identity.c.key, seen_identity.c.item_id).where(seen_identity.c.feed_id == gone, ~has)
    ).all()
    # An item has several keys if its feed has changed its identity; it stays behind if `into` knows one of them.
    known = select(seen_identity.c.item_id).where(seen_identity.c.feed_id == gone, has)
    there = set(connection.execute(known).scalars())
    ids = [id for id in dict.fromkeys(row.item_id for row in rows) if id is not None and id not in there]
    moved = seen_identity.c.feed_id == gone
    connection.execute(update(seen_identity).where(moved, ~has).values(feed_id=into))
    for table, column in ((item, item.c.id), (hit, hit.c.item_id)):
        for start in range(0, len(ids), 500):
            connection.execute(update(table).where(column.in_(ids[start : start + 500])).values(feed_id=into))
    if old.tags:
        tags = [{"feed_id": into, "tag": tag} for tag in old.tags]
        connection.execute(insert_or_ignore(connection, feed_tag), tags)
    _move_readers(connection, into, gone)
    kept = find_feed(connection, into)
    if old.name is not None and kept.name is None:  # queries go on reading the feed by the name of the other
        connection.execute(update(feed).where(feed.c.id == gone).values(name=None))
        connection.execute(update(feed).where(feed.c.id == into).values(name=old.name))
    from headwater.store.queries.source_references import follow_change  # loads the query language

    follow_change(connection, old, kept.name or old.name, kept.url)
    delete_feed(connection, gone)
    return len(ids)


def _move_readers(connection: Connection, into: int, gone: int) -> None:
    """Subscribe the readers of the second feed to the first, with their tags and marks; readers of both keep those
    of the first."""
    mine = select(subscription).where(subscription.c.feed_id == gone)
    rows = [dict(row._mapping) | {"feed_id": into} for row in connection.execute(mine)]
    if rows:
        connection.execute(insert_or_ignore(connection, subscription), rows)
    tagged = select(subscription_tag).where(subscription_tag.c.feed_id == gone)
    tags = [dict(row._mapping) | {"feed_id": into} for row in connection.execute(tagged)]
    if tags:
        connection.execute(insert_or_ignore(connection, subscription_tag), tags)
    here = select(item.c.id).where(item.c.feed_id == into)
    connection.execute(update(mark).where(mark.c.feed_id == gone, mark.c.item_id.in_(here)).values(feed_id=into))


CHUNK = 1000
CHANGEABLE = ("title", "name", "weight", "interval", "paused", "url", "tags")
SERVER_COLUMNS = (
    *("etag", "last_modified", "body_hash", "last_error", "moved_to", "hub", "topic", "hints"),
    *("next_refresh", "not_before", "fresh_until", "failing_since"),
)
_FEED_QUERY = select(
    feed.c.id,
    feed.c.url,
    func.coalesce(feed.c.given_title, feed.c.title).label("title"),
    feed.c.name,
    feed.c.link,
    feed.c.weight,
    feed.c.interval,
    feed.c.added,
    feed.c.paused,
    feed.c.gone_since,
).where(FEED_IS_LIVE)


def add_feeds(
    connection: Connection, new: Iterable[NewFeed], now: float, *, adopt: bool = True, tagged: bool = True
) -> list[AddedFeed]:
    """Add feeds and return them in the order given; an address that exists already (normalised) is not added again,
    and one in the trash is restored.

    InputError if another feed has the name. With `adopt`, feeds that exist only because queries give their addresses
    are registered; with `tagged`, the feeds get the tags. `readers.subscriptions.add_and_subscribe` also subscribes.
    """
    done: list[AddedFeed] = []
    for chunk in chunks(map(replace_unstorable, new), CHUNK):
        added = _add_chunk(connection, chunk, now, tagged=tagged)
        done += _adopt_implicit_feeds(connection, chunk, added) if adopt else added
    bump_revision(connection)
    return done


def _add_chunk(connection: Connection, new: Sequence[NewFeed], now: float, tagged: bool) -> list[AddedFeed]:
    keys = [normalise_url(each.url) for each in new]
    first: dict[str, NewFeed] = {}
    for key, each in zip(keys, new, strict=True):
        first.setdefault(key, each)
    at_these = (feed.c.url_key.in_(list(first)), FEED_IS_LIVE)
    trashed_feeds.restore_addresses(connection, list(first))
    here = set(connection.execute(select(feed.c.url_key).where(*at_these)).scalars())
    missing = {key: each for key, each in first.items() if key not in here}
    _require_free_names(connection, missing.values())
    if missing:
        rows = [_feed_row(key, each, now) for key, each in missing.items()]
        # Another process may add the same address at this moment; then it has created the feed, not we.
        inserted = connection.execute(
            insert_or_ignore(connection, feed).returning(feed.c.id, feed.c.url_key), rows
        ).all()
        created = {key for _, key in inserted}
        if inserted:
            state = {"window": 0, "failures": 0, "moves": 0, "unstable": 0}
            fresh = [{"feed_id": id, "not_before": missing[key].not_before, **state} for id, key in inserted]
            connection.execute(insert_or_ignore(connection, feed_state), fresh)
    else:
        created = set()
    ids = {key: id for id, key in connection.execute(select(feed.c.id, feed.c.url_key).where(*at_these))}
    tags = {(ids[key], tag) for key, each in zip(keys, new, strict=True) for tag in each.tags}
    if tags and tagged:
        rows = [{"feed_id": id, "tag": tag} for id, tag in sorted(tags)]
        connection.execute(insert_or_ignore(connection, feed_tag), rows)
    stored = {each.id: each for each in _read_feeds(connection, _FEED_QUERY.where(feed.c.id.in_(list(ids.values()))))}
    added = []
    for key in keys:
        added.append(AddedFeed(stored[ids[key]], key in created))
        created.discard(key)  # the second time the same address is given, it is there already
    return added


def _adopt_implicit_feeds(connection: Connection, new: Sequence[NewFeed], added: list[AddedFeed]) -> list[AddedFeed]:
    """Register the implicit feeds among these, which only queries read, with the given weights."""
    weights = {one.feed.id: each.weight for each, one in zip(new, added, strict=True) if not one.created}
    gone = delete(implicit_feed).where(implicit_feed.c.feed_id.in_(list(weights)))
    was = connection.execute(gone.returning(implicit_feed.c.feed_id)).scalars().all() if weights else []
    for id in was:
        connection.execute(update(feed).where(feed.c.id == id).values(weight=weights[id], paused=False))
    changed = {each.id: each for each in _read_feeds(connection, _FEED_QUERY.where(feed.c.id.in_(was)))} if was else {}
    return [AddedFeed(changed.get(one.feed.id, one.feed), one.created) for one in added]


def _feed_row(key: str, new: NewFeed, now: float) -> dict[str, Any]:
    return {
        "url": new.url,
        "url_key": key,
        "name": new.name,
        "title": new.title,
        "given_title": None,
        "link": new.link,
        "weight": new.weight,
        "interval": None,
        "added": now,
        "paused": False,
        "gone_since": None,
    }


def _require_free_names(connection: Connection, new: Iterable[NewFeed]) -> None:
    wanted: dict[str, str] = {}
    for each in new:
        if each.name is not None and wanted.setdefault(each.name, each.url) != each.url:
            raise InputError(f"Two feeds want the name “{each.name}”: {wanted[each.name]} and {each.url}.")
    if wanted:
        same = select(feed.c.name, feed.c.url).where(feed.c.name.in_(list(wanted)), FEED_IS_LIVE)
        taken = connection.execute(same).first()
        if taken is not None:
            raise InputError(f"The name “{taken[0]}” already belongs to {taken[1]}. Choose another.")
        for name in wanted:
            _require_no_query_name(connection, name)


def _require_no_query_name(connection: Connection, name: str) -> None:
    """Raise InputError if a query feed has the name: queries could not tell the two apart."""
    same = select(query_feed.c.name).where(query_feed.c.key == name.casefold(), QUERY_IS_LIVE)
    if (taken := connection.execute(same).scalar()) is not None:
        raise InputError(f"The name “{name}” belongs to the query feed {taken}. Choose another.")


def find_feed(connection: Connection, ref: int | str) -> Feed:
    """Find a feed by id, address or name. Raises NotFound with suggestions."""
    conditions = []
    if isinstance(ref, int) or (ref.isascii() and ref.isdigit()):
        conditions.append(feed.c.id == min(int(ref), 2**63 - 1))
    if isinstance(ref, str):
        conditions += [feed.c.url_key == normalise_url(replace_unstorable(ref)), feed.c.name == ref]
    for condition in conditions:
        if found := _read_feeds(connection, _FEED_QUERY.where(condition)):
            return found[0]
    raise NotFound(_suggest_feeds(connection, ref))


def _suggest_feeds(connection: Connection, ref: int | str) -> str:
    if isinstance(ref, int) or ref.isdigit():
        return f"There is no feed {ref}. “headwater feeds list” shows all."
    holding = _describe_partial_matches(connection, ref)
    if holding:
        return f"There is no feed “{ref}”. {holding}"
    # Only candidates that share a part with the typed text are compared, not 100,000 feeds.
    word = ref.rstrip("/").rpartition("/")[2] or ref
    like = {part for part in (word[:4], word[-4:], word) if len(part) >= 3}
    near = [_contains_text(part) for part in sorted(like)]
    rows = connection.execute(select(feed.c.name, feed.c.url).where(or_(*near)).limit(200)).all() if near else []
    names = [name for row in rows for name in row if name]
    close = difflib.get_close_matches(ref, names, n=3, cutoff=0.6)
    hint = f" Did you mean {' or '.join(close)}?" if close else " “headwater feeds list” shows all."
    return f"There is no feed “{ref}”.{hint}"


def _describe_partial_matches(connection: Connection, part: str) -> str:
    """Name the feeds that contain the text in title, name or address, if they are few."""
    if len(part) < 3:
        return ""
    title = func.coalesce(feed.c.given_title, feed.c.title, feed.c.url)
    few = connection.execute(select(feed.c.id, title).where(_contains_text(part)).order_by(feed.c.id).limit(4)).all()
    if len(few) == 4:
        return f"“headwater feeds list --search '{part}'” shows those that have it in title, name or address."
    return f"Did you mean {' or '.join(f'{row[0]} ({row[1]})' for row in few)}?" if few else ""


def _contains_text(part: str) -> Any:
    columns = (feed.c.name, feed.c.url, feed.c.title, feed.c.given_title)
    return and_(FEED_IS_LIVE, or_(*(column.icontains(part, autoescape=True) for column in columns)))


def find_feeds(connection: Connection, ids: Iterable[int]) -> dict[int, Feed]:
    """Find feeds by id; those that do not exist are left out."""
    found: dict[int, Feed] = {}
    for chunk in chunks(sorted(ids), CHUNK):
        found |= {each.id: each for each in _read_feeds(connection, _FEED_QUERY.where(feed.c.id.in_(chunk)))}
    return found


def list_feeds(
    connection: Connection,
    *,
    after: int = 0,
    limit: int | None = None,
    tag: str | None = None,
    search: str | None = None,
) -> list[Feed]:
    """List feeds by id, beyond `after`; `search` is part of a title, name or address."""
    query = _FEED_QUERY.where(feed.c.id > after).order_by(feed.c.id).limit(limit)
    if tag is not None:
        query = query.where(feed.c.id.in_(select(feed_tag.c.feed_id).where(feed_tag.c.tag == tag)))
    if search is not None:
        query = query.where(_contains_text(search))
    return _read_feeds(connection, query)


def _read_feeds(connection: Connection, query: Select[Any]) -> list[Feed]:
    rows = connection.execute(query).all()
    tags = find_feed_tags(connection, [row[0] for row in rows])
    return [_read_feed(row, tags) for row in rows]


def _read_feed(row: Row[Any], tags: Mapping[int, tuple[str, ...]]) -> Feed:
    return Feed(
        id=row.id,
        url=row.url,
        title=row.title,
        name=row.name,
        link=row.link,
        tags=tags.get(row.id, ()),
        weight=row.weight,
        interval=row.interval,
        added=row.added,
        paused=row.paused,
        gone_since=row.gone_since,
    )


def find_feed_tags(connection: Connection, ids: Sequence[int] | None) -> dict[int, tuple[str, ...]]:
    """Find the tags of these feeds, or of all, sorted by name."""
    found: dict[int, tuple[str, ...]] = {}
    only = "" if ids is None else f" WHERE {has_id(connection, 'feed_id')}"
    values = {} if ids is None else {"ids": bind_ids(connection, ids)}
    for id, tag in fetch_rows(connection, f"SELECT feed_id, tag FROM feed_tag{only}", values):
        found[id] = (*found.get(id, ()), tag)
    return {id: tuple(sorted(tags)) for id, tags in found.items()}


def count_feeds(connection: Connection) -> int:
    """Count the feeds."""
    return int(fetch_rows(connection, "SELECT COUNT(*) FROM feed WHERE deleted_at IS NULL", {})[0][0])


def count_feed_tags(connection: Connection) -> list[tuple[str, int]]:
    """Count the feeds of each tag, sorted by tag."""
    query = select(feed_tag.c.tag, func.count()).group_by(feed_tag.c.tag)
    return sorted((tag, number) for tag, number in connection.execute(query))


def change_feed(connection: Connection, /, feed_id: int, **changes: Any) -> Feed:
    """Change title, name, weight, interval, paused, url or tags.

    A title set here stays until it is set to None; then the publisher's is shown again. Queries that read the feed by
    its name or address are rewritten. InputError if the name or address belongs to another feed, or the name to a query
    feed.
    """
    if unknown := sorted(set(changes) - set(CHANGEABLE)):
        raise InputError(f"A feed has no “{unknown[0]}” to change; there are {', '.join(CHANGEABLE)}.")
    old = find_feed(connection, feed_id)
    values = {key: replace_unstorable(value) for key, value in changes.items() if key != "tags"}
    if "title" in values:
        values["given_title"] = values.pop("title")
    if "url" in values:
        values |= {"url_key": normalise_url(values["url"]), "gone_since": None}
    for key in ("name", "url_key"):
        _require_free_value(connection, feed_id, key, values.get(key))
    if "name" in values or "url" in values:
        from headwater.store.queries.source_references import follow_change  # loads the query language

        follow_change(connection, old, values.get("name", old.name), values.get("url", old.url))
    if values:
        connection.execute(update(feed).where(feed.c.id == feed_id).values(values))
    if values.get("url", old.url) != old.url:
        _reset_server_state(connection, feed_id)
    if "tags" in changes:
        connection.execute(delete(feed_tag).where(feed_tag.c.feed_id == feed_id))
        rows = [{"feed_id": feed_id, "tag": tag} for tag in sorted(set(changes["tags"]))]
        if rows:
            connection.execute(insert_or_ignore(connection, feed_tag), rows)
        _copy_tags_to_owner(connection, feed_id, changes["tags"])
    bump_revision(connection)
    return find_feed(connection, feed_id)


def _copy_tags_to_owner(connection: Connection, feed_id: int, tags: Iterable[str]) -> None:
    """Make a feed's tags those of the owner's subscription too, if the owner subscribes to it."""
    owner = select(user.c.id).where(user.c.role == OWNER, USER_IS_LIVE).order_by(user.c.id).limit(1).scalar_subquery()
    query = select(subscription.c.user_id).where(subscription.c.user_id == owner, subscription.c.feed_id == feed_id)
    owner_id = connection.execute(query).scalar()
    if owner_id is None:
        return
    theirs = (subscription_tag.c.user_id == owner_id, subscription_tag.c.feed_id == feed_id)
    connection.execute(delete(subscription_tag).where(*theirs))
    rows = [{"user_id": owner_id, "feed_id": feed_id, "tag": tag} for tag in sorted(set(tags))]
    if rows:
        connection.execute(insert(subscription_tag), rows)


def _require_free_value(connection: Connection, feed_id: int, key: str, value: str | None) -> None:
    if value is None:
        return
    query = select(feed.c.url).where(feed.c[key] == value, feed.c.id != feed_id, FEED_IS_LIVE)
    if (other := connection.execute(query).scalar()) is not None:
        what = "name" if key == "name" else "address"
        raise InputError(f"The {what} “{value}” already belongs to {other}. Choose another.")
    if key == "name":
        _require_no_query_name(connection, value)


def _reset_server_state(connection: Connection, feed_id: int) -> None:
    """Forget validators, waiting times and failures of the old server: they mean nothing to another one."""
    empty: dict[str, Any] = dict.fromkeys(SERVER_COLUMNS)
    connection.execute(update(feed_state).where(feed_state.c.feed_id == feed_id).values(**empty, failures=0, moves=0))


def delete_feed(connection: Connection, feed_id: int) -> None:
    """Delete a feed for good: its items and their words, its hits, its seen identities, and its log.

    Outbox entries without an item are not shown.
    """
    ids = connection.execute(select(item.c.id).where(item.c.feed_id == feed_id)).scalars().all()
    for chunk in chunks(ids, CHUNK):
        search.remove_from_index(connection, chunk)
        delete_earlier_versions(connection, chunk)
        delete_articles(connection, chunk)
        connection.execute(delete(item_story).where(item_story.c.item_id.in_(chunk)))
    published = select(hit.c.item_id).where(hit.c.feed_id == feed_id)
    connection.execute(delete(item_version).where(item_version.c.item_id.in_(published)))
    for table in (item, seen_identity, refresh, hit, offered_count, selectivity, mark):
        connection.execute(delete(table).where(table.c.feed_id == feed_id))
    websub_leases.cancel_leases(connection, [feed_id])
    connection.execute(delete(feed).where(feed.c.id == feed_id))  # tags, known and window go with it
    bump_revision(connection)


def hide_fetch_addresses(connection: Connection, items: Sequence[Item]) -> list[Item]:
    """Return the items without the addresses of their feeds that may hold a secret."""
    feeds = find_feeds(connection, {one.feed_id for one in items}) if items else {}
    return [
        one if (feed := feeds.get(one.feed_id)) is None else hide_fetch_address(one, feed.url, feed.link)
        for one in items
    ]
