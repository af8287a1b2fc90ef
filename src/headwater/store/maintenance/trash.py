"""Moves objects to the trash, restores them, and deletes them for good after a day.

A feed, query feed or user gets `deleted_at`, and its name is free at once. Small objects (a subscription, a token, a
tag) are only in the trash entry. Each `move_…_to_trash` returns the number of the entry, for `restore_from_trash`.
Restoring overwrites nothing: if a name or an address is taken, an InputError says by what.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence

from sqlalchemy import ColumnElement, Connection, case, delete, or_, select, update

from headwater.errors import InputError, NotFound
from headwater.store.content import feeds, outbox, trashed_feeds
from headwater.store.database.dialect import chunks
from headwater.store.maintenance.trash_entries import (
    SERVER_KINDS,
    TRASHED_API_TOKEN,
    TRASHED_FEED,
    TRASHED_FEED_TOKENS,
    TRASHED_QUERY_FEED,
    TRASHED_SUBSCRIPTION,
    TRASHED_TAG,
    TRASHED_USER,
    Remover,
    RestoredObject,
    TrashEntry,
    TrashRow,
    TrashRows,
    add_trash_entry,
    insert_rows,
    insert_table_rows,
    take_rows,
)
from headwater.store.queries import query_access, query_feeds, source_references
from headwater.store.readers import accounts, marks, subscriptions
from headwater.store.readers.accounts import SCOPES
from headwater.store.saved_state import FEEDS, PUBLISHED, QUERIES, bump_revision
from headwater.store.schema.feed_tables import FEED_IS_LIVE, feed, feed_tag
from headwater.store.schema.item_tables import article_query, item
from headwater.store.schema.metadata import replace_unstorable
from headwater.store.schema.publication_tables import feed_token
from headwater.store.schema.query_tables import QUERY_IS_LIVE, implicit_feed, query_address, query_feed
from headwater.store.schema.reader_tables import (
    USER_IS_LIVE,
    api_token,
    item_label,
    mark,
    query_subscription,
    subscription,
    subscription_tag,
    trash,
    user,
)

TRASH_SECONDS = 86_400.0
MAX_LISTED = 100
MAX_DELETED = 20  # entries that one transaction deletes for good
CHUNK = 500
WANTED, QUERY_TAGS, READS = "feeds wanted", "tags of query feeds", "query feeds read"  # notes beside rows


def move_feed_to_trash(connection: Connection, feed_id: int, by: Remover, cascade: bool = False) -> int:
    """Move a feed to the trash for everybody.

    InputError if queries name it, unless `cascade` moves these to the trash too, with the query feeds that read them.
    """
    gone = feeds.find_feed(connection, feed_id)
    users = source_references.find_users(connection, gone)
    if users and not cascade:
        listed = source_references.describe_users(users)
        raise InputError(f"{gone.title or gone.url} is a source of {listed}. CASCADE removes them too.")
    if users:
        others = query_feeds.find_dependents(connection, [one.name for one in users])
        move_query_feeds_to_trash(connection, sorted({one.id for one in (*users, *others)}), by)
    return trashed_feeds.trash_feed(connection, gone, by)


def move_query_feeds_to_trash(connection: Connection, ids: Sequence[int], by: Remover) -> int:
    """Move query feeds to the trash together; the caller has checked that no other query feed reads them."""
    gone = query_feeds.find_query_feeds(connection, ids)
    names = {query.name.casefold() for query in gone}
    read = set().union(*(query_feeds.list_names_read(query) for query in gone)) - names
    live = select(query_feed.c.name).where(query_feed.c.key.in_(sorted(read)), QUERY_IS_LIVE)
    rows: dict[str, list[TrashRow]] = {READS: [{"name": name} for name in connection.execute(live).scalars()]}
    for table in (query_address, article_query, query_subscription):
        rows[table.name] = []
        for chunk in chunks(sorted(ids), CHUNK):
            rows[table.name] += take_rows(connection, table, table.c.query_id.in_(chunk))
    # Tokens go along: another query feed of the same name must not be opened by them.
    paths = [f"/feeds/{name}" for name in sorted(names)]
    rows[feed_token.name] = []
    for some in chunks(paths, CHUNK):
        rows[feed_token.name] += take_rows(connection, feed_token, feed_token.c.path.in_(some))
    for chunk in chunks(sorted(ids), CHUNK):
        connection.execute(update(query_feed).where(query_feed.c.id.in_(chunk)).values(deleted_at=by.at))
    bump_revision(connection, QUERIES)
    return add_trash_entry(connection, by, TRASHED_QUERY_FEED, ", ".join(query.name for query in gone), rows, ids)


def move_user_to_trash(connection: Connection, user_id: int, by: Remover) -> int:
    """Move an account to the trash: sessions end for good, tokens open nothing, its query feeds go to the trash too.
    Its feeds are polled until it is deleted."""
    gone = accounts.require_removable(connection, user_id)
    accounts.end_all_sessions(connection, user_id)
    _trash_queries_of_reader(connection, user_id, by)
    connection.execute(update(user).where(user.c.id == user_id).values(deleted_at=by.at))
    return add_trash_entry(connection, by, TRASHED_USER, gone.name, {}, [user_id])


def _trash_queries_of_reader(connection: Connection, user_id: int, by: Remover) -> None:
    """Move the query feeds of a reader to the trash, in an entry of their own, with those that read them."""
    own = connection.execute(
        select(query_feed.c.id, query_feed.c.name).where(query_feed.c.reader_id == user_id, QUERY_IS_LIVE)
    ).all()
    if own:
        others = query_feeds.find_dependents(connection, [row.name for row in own])
        ids = sorted({row.id for row in own} | {other.id for other in others})
        move_query_feeds_to_trash(connection, ids, by)


def move_subscription_to_trash(connection: Connection, user_id: int, feed_id: int, by: Remover) -> int:
    """Move a reader's subscription to a feed to the trash; NotFound if there is none."""
    subscriptions.require_subscription(connection, user_id, feed_id)
    (mine,) = subscriptions.find_subscriptions(connection, user_id, [feed_id], ())
    query = select(feed.c.id.label("feed_id"), feed.c.weight, feed.c.paused).where(feed.c.id == feed_id)
    wanted = connection.execute(query.where(feed.c.id.not_in(select(implicit_feed.c.feed_id))))
    rows = {WANTED: [dict(row._mapping) for row in wanted]}
    for table in (subscription, subscription_tag):
        rows[table.name] = take_rows(connection, table, table.c.user_id == user_id, table.c.feed_id == feed_id)
    marked = (mark.c.user_id == user_id, mark.c.feed_id == feed_id, mark.c.starred.is_(None))
    rows[mark.name] = take_rows(connection, mark, *marked)
    bump_revision(connection, PUBLISHED)
    bump_revision(connection, FEEDS)
    subscriptions.release_unwanted_feeds(connection, [feed_id])
    return add_trash_entry(connection, by, TRASHED_SUBSCRIPTION, mine.title, rows)


def move_query_subscription_to_trash(connection: Connection, user_id: int, query_id: int, by: Remover) -> int:
    subscriptions.require_query_subscription(connection, user_id, query_id)
    name = query_feeds.find_query_names(connection, [query_id]).get(query_id, "")
    mine = (query_subscription.c.user_id == user_id, query_subscription.c.query_id == query_id)
    rows = {query_subscription.name: take_rows(connection, query_subscription, *mine)}
    return add_trash_entry(connection, by, TRASHED_SUBSCRIPTION, name, rows)


def move_api_token_to_trash(connection: Connection, user_id: int, token_id: int, by: Remover) -> int:
    """Move a token of the API to the trash; NotFound also where it is somebody else's."""
    rows = take_rows(connection, api_token, api_token.c.id == token_id, api_token.c.user_id == user_id)
    if not rows:
        raise NotFound(f"There is no token {token_id}.")
    label = rows[0]["label"] or f"number {token_id}"
    return add_trash_entry(connection, by, TRASHED_API_TOKEN, label, {api_token.name: rows})


def move_tag_to_trash(connection: Connection, user_id: int, tag: str, by: Remover) -> int:
    """Take a reader's tag off everything that has it, feeds and items, and remember where it was.

    InputError if queries read the feeds with the tag.
    """
    tag = replace_unstorable(tag)
    mine = (subscription_tag.c.user_id == user_id, subscription_tag.c.tag == tag)
    rows = {subscription_tag.name: _read_rows(connection, subscription_tag.c.feed_id, *mine)}
    owns_server = accounts.find_owner(connection).id == user_id
    users = source_references.find_tag_users(connection, None if owns_server else user_id, tag)
    if users and rows[subscription_tag.name]:
        listed = source_references.describe_users(users)
        raise InputError(f"The tag “{tag}” is a source of {listed}. Change or remove what reads it first.")
    if owns_server:
        tagged = [row["feed_id"] for row in rows[subscription_tag.name]]
        rows[feed_tag.name] = []
        for chunk in chunks(tagged, CHUNK):
            theirs = (feed_tag.c.tag == tag, feed_tag.c.feed_id.in_(chunk))
            rows[feed_tag.name] += _read_rows(connection, feed_tag.c.feed_id, *theirs)
    queries = _read_rows(connection, query_subscription.c.query_id, query_subscription.c.user_id == user_id)
    had = [row for row in queries if tag in subscriptions.read_query_tags(row["tags"])]
    rows[QUERY_TAGS] = [
        {"user_id": user_id, "query_id": row["query_id"], "tags": row["tags"], "tag": tag} for row in had
    ]
    labelled = (item_label.c.user_id == user_id, item_label.c.label == tag)
    rows[item_label.name] = take_rows(connection, item_label, *labelled)
    if rows[subscription_tag.name] or had or not rows[item_label.name]:
        subscriptions.rename_subscription_tag(connection, user_id, tag, None)
    return add_trash_entry(connection, by, TRASHED_TAG, tag, rows)


def _read_rows(connection: Connection, order: ColumnElement[int], *which: ColumnElement[bool]) -> list[TrashRow]:
    query = select(order.table).where(*which).order_by(order)
    return [dict(row._mapping) for row in connection.execute(query)]


def list_trash(
    connection: Connection, who: int | None, now: float, *, scopes: Collection[str] = SCOPES
) -> list[TrashEntry]:
    """List the entries that a user (None: the command line) can restore, the latest first."""
    query = select(trash.c.id, trash.c.kind, trash.c.label, trash.c.at, trash.c.user_id)
    query = query.where(trash.c.at >= now - TRASH_SECONDS).order_by(trash.c.id.desc()).limit(MAX_LISTED)
    if who is not None:
        personal = or_(trash.c.kind.not_in(SERVER_KINDS), trash.c.kind == TRASHED_QUERY_FEED)
        mine = personal & (trash.c.user_id == who)
        query = query.where(or_(mine, trash.c.kind.in_(SERVER_KINDS)) if "admin" in scopes else mine)
    return [
        TrashEntry(row.id, row.kind, row.label, row.at, row.at + TRASH_SECONDS, row.user_id)
        for row in connection.execute(query)
    ]


def delete_expired_trash(connection: Connection, now: float) -> int:
    """Delete entries older than a day for good, at most MAX_DELETED; returns how many."""
    return _delete_entries(connection, trash.c.at < now - TRASH_SECONDS)


def empty_trash(connection: Connection, numbers: Collection[int] | None = None) -> int:
    """Delete these entries, or all, for good, at most MAX_DELETED; returns how many."""
    return _delete_entries(connection, *([] if numbers is None else [trash.c.id.in_(sorted(numbers))]))


def _delete_entries(connection: Connection, *which: ColumnElement[bool]) -> int:
    query = select(trash.c.id, trash.c.kind, trash.c.objects).where(*which).order_by(trash.c.id).limit(MAX_DELETED)
    entries = connection.execute(query.with_for_update()).all()
    for number, kind, stored in entries:
        ids: list[int] = json.loads(stored)
        if kind == TRASHED_FEED:
            feeds.delete_feed(connection, ids[0])
        elif kind == TRASHED_QUERY_FEED:
            query_feeds.delete_query_feeds(connection, ids)
        elif kind == TRASHED_USER:
            subscriptions.release_unwanted_feeds(connection, accounts.delete_user(connection, ids[0]))
        connection.execute(delete(trash).where(trash.c.id == number))
    return len(entries)


def restore_from_trash(
    connection: Connection, number: int, who: int | None, now: float, *, scopes: Collection[str] = SCOPES
) -> RestoredObject:
    """Restore an entry. NotFound if there is none, if it is more than a day old, or if this person may not restore it.

    InputError, and nothing is changed, if something else is in its place.
    """
    entry = connection.execute(select(trash).where(trash.c.id == number).with_for_update()).first()
    if entry is None or entry.at < now - TRASH_SECONDS or not _may_restore(entry.kind, entry.user_id, who, scopes):
        raise NotFound(f"No removed object {number} can be restored: objects are kept for a day after their removal.")
    objects: list[int] = json.loads(entry.objects)
    rows: TrashRows = json.loads(entry.rows)
    if entry.kind == TRASHED_API_TOKEN:
        _check_token_scopes(rows, scopes)
    ref = _RESTORE[entry.kind](connection, objects, rows)
    connection.execute(delete(trash).where(trash.c.id == number))
    query_feeds.pause_unreferenced_feeds(connection)
    bump_revision(connection, FEEDS)
    bump_revision(connection, PUBLISHED)
    return RestoredObject(entry.kind, entry.label, ref)


def _may_restore(kind: str, by: int | None, who: int | None, scopes: Collection[str]) -> bool:
    if who is None:
        return True
    own = by == who and (kind not in SERVER_KINDS or kind == TRASHED_QUERY_FEED)  # a reader's own query feed
    return own or (kind in SERVER_KINDS and "admin" in scopes)


def _restore_feed(connection: Connection, objects: list[int], rows: TrashRows) -> int:
    (id,) = objects
    url, key, name = connection.execute(select(feed.c.url, feed.c.url_key, feed.c.name).where(feed.c.id == id)).one()
    taken = connection.execute(select(feed.c.id).where(feed.c.url_key == key, FEED_IS_LIVE)).scalar()
    if taken is not None:
        raise InputError(f"{url} is here again, as feed {taken}. Remove that one first, or keep it.")
    if name is not None:
        _require_free_name(connection, name)
    trashed_feeds.restore_feeds(connection, [id])
    return id


def _restore_query_feeds(connection: Connection, objects: list[int], rows: TrashRows) -> str | None:
    """Restore query feeds with a new position, so that the processor fills them with items that arrived meanwhile."""
    names: list[str] = []
    for chunk in chunks(objects, CHUNK):
        query = select(query_feed.c.name).where(query_feed.c.id.in_(chunk)).order_by(query_feed.c.id)
        names += connection.execute(query).scalars()
    for name in names:
        _require_free_name(connection, name)
    for row in rows[READS]:
        live = select(query_feed.c.id).where(query_feed.c.key == row["name"].casefold(), QUERY_IS_LIVE)
        if connection.execute(live).first() is None:
            raise InputError(
                f"It reads the query feed {row['name']}, which is not here any more. Bring that back first."
            )
    outbox.lock_outbox(connection)
    anew = {
        "deleted_at": None,
        "position": outbox.find_last_position(connection),
        "revision": bump_revision(connection, QUERIES),
        # A definition that was not taken up yet replaces the one before, as it would have.
        "active": case((query_feed.c.active == query_feed.c.text, None), else_=query_feed.c.active),
    }
    for chunk in chunks(objects, CHUNK):
        connection.execute(update(query_feed).where(query_feed.c.id.in_(chunk)).values(anew))
    insert_table_rows(connection, rows)
    return names[0] if names else None


def _require_free_name(connection: Connection, name: str) -> None:
    if (taken := trashed_feeds.find_name_holder(connection, name)) is not None:
        raise InputError(f"Another feed is called {taken} now. Remove that one first, or keep it.")


def _restore_user(connection: Connection, objects: list[int], rows: TrashRows) -> None:
    key = select(user.c.name_key).where(user.c.id == objects[0]).scalar_subquery()
    taken = connection.execute(select(user.c.name).where(user.c.name_key == key, USER_IS_LIVE)).scalar()
    if taken is not None:
        raise InputError(f"Another user is named “{taken}” now. Rename or remove that user first.")
    connection.execute(update(user).where(user.c.id == objects[0]).values(deleted_at=None))


def _restore_subscription(connection: Connection, objects: list[int], rows: TrashRows) -> int | None:
    """Restore title, tags and position also for a reader who has subscribed again meanwhile; later marks stay."""
    targets = ((subscription, feed.c.id, FEED_IS_LIVE), (query_subscription, query_feed.c.id, QUERY_IS_LIVE))
    for table, target, is_live in targets:
        column = "feed_id" if table is subscription else "query_id"
        for row in rows.get(table.name, ()):
            if connection.execute(select(target).where(target == row[column], is_live)).first() is None:
                kind = "feed" if table is subscription else "query feed"
                raise InputError(f"The {kind} of this subscription was removed. Restore the {kind} first.")
            if table is query_subscription:
                reader = accounts.find_user(connection, row["user_id"])
                if not query_access.may_read_query_id(connection, reader, row["query_id"]):
                    raise InputError("The query feed is private now. Ask its owner to share it.")
            connection.execute(delete(table).where(table.c.user_id == row["user_id"], table.c[column] == row[column]))
    insert_table_rows(connection, {name: some for name, some in rows.items() if name != mark.name})
    _restore_marks(connection, rows.get(mark.name, ()))
    _resume_feeds(connection, rows.get(WANTED, ()))
    return next((row["feed_id"] for row in rows.get(subscription.name, ())), None)


def _restore_marks(connection: Connection, rows: Sequence[TrashRow]) -> None:
    """Restore the marks of items that still exist, because counts rely on that; their times may have changed."""
    for chunk in chunks(rows, CHUNK):
        there = select(item.c.id).where(item.c.id.in_([row["item_id"] for row in chunk]))
        ids = set(connection.execute(there).scalars())
        fresh = [row | {"arrived": None} if row["state"] == 0 else row for row in chunk if row["item_id"] in ids]
        insert_rows(connection, mark, fresh)
    for reader in {row["user_id"] for row in rows}:
        marks.fill_mark_times(connection, reader)


def _resume_feeds(connection: Connection, rows: Sequence[TrashRow]) -> None:
    """Resume feeds that were released when their last subscription went to the trash."""
    for row in rows:
        released = delete(implicit_feed).where(implicit_feed.c.feed_id == row["feed_id"])
        if connection.execute(released).rowcount:
            values = {"weight": row["weight"], "paused": row["paused"]}
            connection.execute(update(feed).where(feed.c.id == row["feed_id"]).values(values))
            bump_revision(connection, FEEDS)


def _check_token_scopes(rows: TrashRows, scopes: Collection[str]) -> None:
    for row in rows[api_token.name]:
        if lacking := set(row["scopes"].split()) - set(scopes):
            raise InputError(f"You cannot bring back what may do more than you: {', '.join(sorted(lacking))}.")


def _restore_tag(connection: Connection, objects: list[int], rows: TrashRows) -> None:
    """Restore a tag on the feeds and query feeds that the reader subscribes to now."""
    for table in (subscription_tag, feed_tag):
        some = rows.get(table.name, ())
        for chunk in chunks(some, CHUNK):
            insert_rows(connection, table, _keep_subscribed(connection, rows, chunk))
    insert_rows(connection, item_label, rows.get(item_label.name, ()))
    for row in rows[QUERY_TAGS]:
        mine = (query_subscription.c.user_id == row["user_id"], query_subscription.c.query_id == row["query_id"])
        now = connection.execute(select(query_subscription.c.tags).where(*mine)).first()
        without = tuple(tag for tag in subscriptions.read_query_tags(row["tags"]) if tag != row["tag"])
        if now is not None and subscriptions.read_query_tags(now.tags) == without:
            connection.execute(update(query_subscription).where(*mine).values(tags=row["tags"]))
        elif now is not None:  # it has other tags since: this one more
            subscriptions.change_tags(connection, row["user_id"], query_id=row["query_id"], add=[row["tag"]])
    bump_revision(connection, FEEDS)


def _keep_subscribed(connection: Connection, rows: TrashRows, some: Sequence[TrashRow]) -> list[TrashRow]:
    (reader,) = {row["user_id"] for row in rows[subscription_tag.name]}
    mine = (subscription.c.user_id == reader, subscription.c.feed_id.in_([row["feed_id"] for row in some]))
    there = set(connection.execute(select(subscription.c.feed_id).where(*mine)).scalars())
    return [row for row in some if row["feed_id"] in there]


def _restore_rows(connection: Connection, objects: list[int], rows: TrashRows) -> None:
    insert_table_rows(connection, rows)


_RESTORE: dict[str, Callable[[Connection, list[int], TrashRows], int | str | None]] = {
    TRASHED_FEED: _restore_feed,
    TRASHED_QUERY_FEED: _restore_query_feeds,
    TRASHED_USER: _restore_user,
    TRASHED_SUBSCRIPTION: _restore_subscription,
    TRASHED_API_TOKEN: _restore_rows,
    TRASHED_TAG: _restore_tag,
    TRASHED_FEED_TOKENS: _restore_rows,
}
