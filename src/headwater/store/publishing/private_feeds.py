"""Tells which published feeds are private and which tokens open them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, delete, func, select

from headwater.errors import NotFound
from headwater.store import saved_state
from headwater.store.content import outbox
from headwater.store.database.dialect import insert_or_ignore
from headwater.store.maintenance.trash_entries import TRASHED_FEED_TOKENS, Remover, add_trash_entry, take_rows
from headwater.store.schema.publication_tables import feed_token, private_feed
from headwater.store.schema.query_tables import hit


@dataclass(frozen=True, slots=True)
class PublicAccess:
    """The private feeds (folded paths), and the path that each token (by its SHA-256) opens."""

    private: frozenset[str] = frozenset()
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
        *(
            saved_state.read_revision(connection, what)
            for what in (saved_state.FEEDS, saved_state.QUERIES, saved_state.PUBLISHED)
        ),
    )


def load_public_access(connection: Connection) -> PublicAccess:
    """Load the private feeds, and which token opens which."""
    private = frozenset(connection.execute(select(private_feed.c.path)).scalars())
    rows = connection.execute(select(feed_token.c.hash, feed_token.c.path))
    return PublicAccess(private, {bytes(row.hash): row.path for row in rows})


def set_private(connection: Connection, path: str, private: bool) -> None:
    """Make a published feed (/feeds/NAME or /tags/TAG) private, or public again."""
    path = path.casefold()
    connection.execute(delete(private_feed).where(private_feed.c.path == path))
    if private:
        connection.execute(insert_or_ignore(connection, private_feed), {"path": path})
    saved_state.bump_revision(connection, saved_state.PUBLISHED)


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
