"""Tells who may read which published feed: everybody, accounts of the server, or holders of a token."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, delete, func, insert, select, update

from headwater.errors import InputError, NotFound
from headwater.store import saved_state
from headwater.store.content import outbox
from headwater.store.database.dialect import insert_or_ignore
from headwater.store.maintenance.trash_entries import TRASHED_FEED_TOKENS, Remover, add_trash_entry, take_rows
from headwater.store.queries import query_access
from headwater.store.queries.query_access import PRIVATE, PUBLIC, SHARED, VISIBILITIES
from headwater.store.queries.query_feeds import find_dependents, find_query_feed
from headwater.store.queries.source_references import note_missing_sources
from headwater.store.readers.accounts import User
from headwater.store.schema.publication_tables import feed_token, published_path
from headwater.store.schema.query_tables import QUERY_IS_LIVE, hit, query_feed
from headwater.store.schema.reader_tables import query_subscription, user

LIST_PATH = "/feeds"  # the owner's subscription list, /feeds.opml
_QUERY_PREFIX = "/feeds/"


@dataclass(frozen=True, slots=True)
class PublicAccess:
    """The public feeds (folded paths), and the path that each token (by its SHA-256) opens."""

    public: frozenset[str] = frozenset()
    tokens: Mapping[bytes, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PrivateFeedToken:
    """A token that opens a private feed, without its secret."""

    path: str
    label: str
    created: float


def read_publication_version(connection: Connection) -> Hashable:
    """Return a value that changes whenever a published document may have changed."""
    return (
        outbox.find_last_position(connection),
        outbox.read_checkpoint(connection, "queries"),
        connection.execute(select(func.max(hit.c.id))).scalar(),
        saved_state.read_revision(connection, saved_state.FEEDS),
        *read_access_version(connection),
    )


def read_access_version(connection: Connection) -> tuple[int, int]:
    """Return a value that changes whenever somebody may read more or less than before."""
    queries, published = saved_state.QUERIES, saved_state.PUBLISHED
    return saved_state.read_revision(connection, queries), saved_state.read_revision(connection, published)


def load_public_access(connection: Connection) -> PublicAccess:
    """Load the public feeds, and which token opens which feed."""
    public = set(connection.execute(select(published_path.c.path).where(published_path.c.public)).scalars())
    keys = connection.execute(select(query_feed.c.key).where(query_feed.c.visibility == PUBLIC, QUERY_IS_LIVE))
    public.update(f"{_QUERY_PREFIX}{key}" for key in keys.scalars())
    rows = connection.execute(select(feed_token.c.hash, feed_token.c.path))
    return PublicAccess(frozenset(public), {bytes(row.hash): row.path for row in rows})


def may_read_path(connection: Connection, path: str, reader: User, *, signed_in: bool = True) -> bool:
    """Return whether an account may read a published feed: its own, and query feeds shared with the server.

    Without `signed_in`, the sender is taken for the owner because there is no password yet: a feed that was made
    private needs a token all the same.
    """
    if not path.startswith(_QUERY_PREFIX):
        made = connection.execute(select(published_path.c.path).where(published_path.c.path == path.casefold()))
        return reader.is_owner and (signed_in or made.first() is None)
    try:
        found = find_query_feed(connection, path.removeprefix(_QUERY_PREFIX))
    except NotFound:
        return False
    return query_access.may_read_query(reader, found) and (signed_in or found.visibility != PRIVATE)


def list_restricted_paths(connection: Connection) -> dict[str, str]:
    """Return the tags and query feeds of the server that were made private or shared."""
    tags = select(published_path.c.path).where(~published_path.c.public).order_by(published_path.c.path)
    found = dict.fromkeys(connection.execute(tags).scalars(), PRIVATE)
    query = select(query_feed.c.key, query_feed.c.visibility).where(query_feed.c.reader_id.is_(None), QUERY_IS_LIVE)
    for key, visibility in connection.execute(query.order_by(query_feed.c.key)):
        if visibility in (PRIVATE, SHARED):
            found[f"{_QUERY_PREFIX}{key}"] = visibility
    return found


def set_private(connection: Connection, path: str, private: bool) -> None:
    """Make a published feed (/feeds/NAME, /tags/TAG or /feeds, the list) private, or public."""
    set_visibility(connection, path, PRIVATE if private else PUBLIC)


def set_visibility(connection: Connection, path: str, visibility: str) -> None:
    """Make a published feed private, shared with the accounts of the server (query feeds only), or public.

    Readers who may not read a query feed any more lose their subscription to it, and their query feeds that read it
    publish nothing new.
    """
    if visibility not in VISIBILITIES:
        raise InputError(f"There is no visibility “{visibility}”; there are {', '.join(VISIBILITIES)}.", "visibility")
    if path.startswith(_QUERY_PREFIX):
        found = find_query_feed(connection, path.removeprefix(_QUERY_PREFIX))
        connection.execute(update(query_feed).where(query_feed.c.id == found.id).values(visibility=visibility))
        if visibility == PRIVATE:
            _end_foreign_subscriptions(connection, found.id, found.reader_id)
        if find_dependents(connection, [found.name]):
            note_missing_sources(connection)
    elif visibility == SHARED:
        raise InputError("Only query feeds can be shared. Make it public, or give a token.", "visibility")
    else:
        path = path.casefold()
        connection.execute(delete(published_path).where(published_path.c.path == path))
        connection.execute(insert(published_path), {"path": path, "public": visibility == PUBLIC})
    saved_state.bump_revision(connection, saved_state.PUBLISHED)


def _end_foreign_subscriptions(connection: Connection, query_id: int, reader_id: int | None) -> None:
    own = user.c.id == reader_id if reader_id is not None else user.c.role == "owner"
    owners = select(user.c.id).where(own)
    foreign = query_subscription.c.user_id.not_in(owners)
    connection.execute(delete(query_subscription).where(query_subscription.c.query_id == query_id, foreign))


def add_feed_token(connection: Connection, path: str, hash: bytes, label: str, now: float) -> None:
    """Save the SHA-256 of a token that opens a private feed."""
    values = {"hash": hash, "path": path.casefold(), "label": label, "created": now}
    connection.execute(insert_or_ignore(connection, feed_token), values)
    saved_state.bump_revision(connection, saved_state.PUBLISHED)


def revoke_feed_tokens(connection: Connection, path: str, label: str | None = None, *, by: Remover) -> tuple[int, int]:
    """Revoke the tokens of a feed, or those with a label; returns how many, and the number of the trash entry.

    NotFound if there are none.
    """
    path = path.casefold()
    which = [feed_token.c.path == path] + ([] if label is None else [feed_token.c.label == label])
    rows = take_rows(connection, feed_token, *which)
    if not rows:
        named = "" if label is None else f" called “{label}”"
        raise NotFound(f"{path} has no token{named}. “headwater publish list” shows all.")
    saved_state.bump_revision(connection, saved_state.PUBLISHED)
    return len(rows), add_trash_entry(connection, by, TRASHED_FEED_TOKENS, path, {feed_token.name: rows})


def list_feed_tokens(connection: Connection) -> list[PrivateFeedToken]:
    """List the tokens of all private feeds, by path."""
    rows = connection.execute(select(feed_token).order_by(feed_token.c.path, feed_token.c.created))
    return [PrivateFeedToken(row.path, row.label, row.created) for row in rows]
