"""Checks the rights of accounts to query feeds: owners manage the server's, readers their own within limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select

from headwater.errors import InputError
from headwater.language.ast import CreateFeed, DropFeed, FeedAddress, Statement
from headwater.language.normal_form import walk_branches
from headwater.model import QueryFeed
from headwater.store.content.feeds import FeedQuotaCheck
from headwater.store.queries import query_access, query_feeds
from headwater.store.readers.accounts import User
from headwater.store.readers.subscriptions import count_feeds_brought
from headwater.store.schema.query_tables import QUERY_IS_LIVE, query_feed


class NotYours(InputError):
    """The query feed belongs to somebody else."""


class LimitReached(InputError):
    """A reader has as many query feeds or deliveries as the owner of the server allows."""


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """The most query feeds and deliveries that a reader may have; None is no limit.

    `feeds` checks the addresses in a query.
    """

    queries: int | None = None
    deliveries: int | None = None
    feeds: FeedQuotaCheck | None = None


def check_script(
    connection: Connection, statements: Sequence[Statement], author: User, limits: ReaderLimits | None
) -> None:
    """Raise NotYours or LimitReached if the author may not run these statements."""
    named = [each for each in statements if isinstance(each, CreateFeed | DropFeed)]
    existing = {query.name.casefold(): query for query in _find_named(connection, [each.name.key for each in named])}
    creates = [each for each in named if isinstance(each, CreateFeed)]
    for query in existing.values():
        if not query_access.owns_query(author, query):
            raise NotYours(f"A query feed {query.name} exists already. Choose another name.", "text")
    if author.is_owner:
        return
    if len(named) < len(statements):
        raise NotYours("Only owners name and tag the feeds of the server: REGISTER FEED is not for readers.", "text")
    for drop in named:
        if isinstance(drop, DropFeed):
            if drop.name.key not in existing:
                raise NotYours(f"You have no query feed {drop.name.name}.", "text")
            check_drop(
                existing[drop.name.key], query_feeds.find_dependents(connection, [drop.name.name]), author, drop.cascade
            )
    if limits is not None:
        _check_limits(connection, creates, author, limits)


def check_drop(found: QueryFeed, readers: Sequence[QueryFeed], remover: User | None, cascade: bool) -> None:
    """Raise NotYours or InputError if a query feed, read by these others, may not be dropped. None drops everything."""
    if remover is not None and not query_access.owns_query(remover, found):
        raise NotYours(f"{found.name} is the query feed of another reader.")
    foreign = [query for query in readers if remover is not None and not query_access.owns_query(remover, query)]
    if foreign:
        raise InputError(f"{found.name} is read by {len(foreign)} query feeds of others, so it cannot be dropped.")
    if readers and not cascade:
        listed = ", ".join(query.name for query in readers)
        raise InputError(f"Feed {found.name} is used by {listed}. With --cascade they are dropped too.")


def _find_named(connection: Connection, keys: Sequence[str]) -> list[QueryFeed]:
    ids = query_feeds.find_ids(connection, keys)
    return query_feeds.find_query_feeds(connection, list(ids.values()))


def _check_limits(connection: Connection, creates: Sequence[CreateFeed], author: User, limits: ReaderLimits) -> None:
    mine = select(query_feed.c.key, query_feed.c.text, query_feed.c.form)
    mine = mine.where(query_feed.c.reader_id == author.id, QUERY_IS_LIVE)
    delivering = {
        row.key: query_feeds.read_definition(row.text, row.form).query.deliveries
        for row in connection.execute(mine.with_for_update())
    }
    before = sum(map(len, delivering.values()))
    delivering |= {create.name.key: create.query.deliveries for create in creates}
    if limits.queries is not None and len(delivering) > limits.queries:
        raise LimitReached(
            f"Too many query feeds: a reader may have {limits.queries:,}. Remove one, or ask an owner for more.",
            "text",
        )
    after = sum(map(len, delivering.values()))
    if limits.deliveries is not None and after > limits.deliveries and after > before:
        raise LimitReached(
            f"Too many alerts: a reader may have {limits.deliveries:,}. Remove DELIVER from another query, "
            "or ask an owner to raise the limit.",
            "text",
        )
    sources = (branch.source for create in creates for branch in walk_branches(create.query))
    addresses = [source.url for source in sources if isinstance(source, FeedAddress)]
    if limits.feeds is not None and addresses:
        limits.feeds(*count_feeds_brought(connection, author.id, addresses, alone=True))
