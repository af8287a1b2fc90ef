"""Runs a script of statements in one transaction, or not at all."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import groupby

from sqlalchemy import Connection, insert, select, update

from headwater.errors import InputError, QueryError
from headwater.formats.values.links import normalise_url
from headwater.language import parse
from headwater.language.ast import CreateFeed, DropFeed, FeedAddress, Position, RegisterFeed
from headwater.language.diagnostics import Diagnostics
from headwater.language.normal_form import walk_branches
from headwater.store.content import feeds
from headwater.store.content.feeds import NewFeed
from headwater.store.maintenance import trash
from headwater.store.maintenance.trash_entries import Remover
from headwater.store.queries import query_feeds, query_ownership
from headwater.store.queries.query_ownership import ReaderLimits
from headwater.store.queries.source_references import count_broken_queries, note_missing_sources
from headwater.store.readers import accounts, subscriptions
from headwater.store.saved_state import bump_revision
from headwater.store.schema.feed_tables import FEED_IS_LIVE, feed
from headwater.store.schema.query_tables import QUERY_IS_LIVE, implicit_feed, query_feed


@dataclass(frozen=True, slots=True)
class StatementResult:
    """The result of one statement: "created", "replaced", "dropped" or "registered", and the name."""

    action: str
    name: str


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """The results of a script's statements, and warnings for its author."""

    done: tuple[StatementResult, ...]
    warnings: tuple[object, ...] = ()
    undo: tuple[int, ...] = ()  # trash entries of the dropped feeds and query feeds


@dataclass(frozen=True, slots=True)
class DroppedQueries:
    """The names of the dropped query feeds, and the trash entry by which they can be restored."""

    names: tuple[str, ...]
    undo: int


IMPLICIT_WEIGHT = 0.0  # of feeds that nobody subscribes to: queries add weight of their own


def run_script(
    connection: Connection,
    text: str,
    now: float,
    *,
    subscriber: int | None = None,
    replacing: Container[str] = (),
    limits: ReaderLimits | None = None,
) -> ScriptResult:
    """Run a script in the caller's writing transaction. QueryError lists everything that is wrong with it.

    `subscriber`, by default the owner, is subscribed to new query feeds; their digests follow that user's time zone.
    Query feeds of `replacing` need no OR REPLACE (`language.parse`). The same user can restore dropped feeds. A reader
    creates and drops query feeds of their own, within `limits`.
    """
    author = accounts.find_user(connection, subscriber) if subscriber else accounts.find_owner(connection)
    reader_id = None if author.is_owner else author.id
    script = parse(text, query_feeds.load_catalogue(connection, reader_id), replacing=replacing)
    query_ownership.check_script(connection, script.statements, author, limits)
    report = Diagnostics(text)
    done: list[StatementResult] = []
    undo: list[int] = []
    for kind, run in groupby(script.statements, type):
        if kind is CreateFeed:
            done += _create_query_feeds(
                connection, [each for each in run if isinstance(each, CreateFeed)], now, author.id, reader_id
            )
            continue
        if kind is DropFeed:
            drops = [(each.name.name, each.cascade) for each in run if isinstance(each, DropFeed)]
            done += _drop_objects(connection, drops, Remover(subscriber, now), undo)
            continue
        for statement in run:
            if isinstance(statement, RegisterFeed):
                done += _register_feed(connection, statement, now, subscriber, report)
    report.raise_errors()
    if query_feeds.pause_unreferenced_feeds(connection):
        bump_revision(connection)
    if count_broken_queries(connection):
        note_missing_sources(connection)  # a new definition may have mended those that read it
    return ScriptResult(tuple(done), script.warnings, tuple(undo))


def drop_query_feed(connection: Connection, name: str, cascade: bool = False, *, by: Remover) -> DroppedQueries:
    """Drop a query feed; with `cascade` also the query feeds that read it, if the remover may drop them too."""
    found = query_feeds.find_query_feed(connection, name)
    users = query_feeds.find_dependents(connection, [name])
    remover = None if by.user_id is None else accounts.find_user(connection, by.user_id)
    query_ownership.check_drop(found, users, remover, cascade)
    undo: list[int] = []
    done = _drop_objects(connection, [(found.name, cascade)], by, undo)
    if query_feeds.pause_unreferenced_feeds(connection):
        bump_revision(connection)
    return DroppedQueries(tuple(one.name for one in done), undo[0])


def _create_query_feeds(
    connection: Connection, statements: Sequence[CreateFeed], now: float, author: int, reader_id: int | None
) -> list[StatementResult]:
    """Create or replace query feeds all at once, because a script may contain a hundred thousand."""
    last = {statement.name.key: statement for statement in statements}
    ids, there = query_feeds.save_definitions(connection, list(last.values()), now, author, reader_id)
    if reader_id is not None:
        bump_revision(connection)  # the feeds get the hidden tags of this reader
    new = [id for key, id in ids.items() if key not in there]
    subscriptions.subscribe_to_query_feeds(connection, author, new, now)
    used = {key: _list_addresses(statement) for key, statement in last.items()}
    feeds_at = _add_address_feeds(
        connection, {address: url for each in used.values() for address, url in each.items()}, now
    )
    query_feeds.set_query_addresses(
        connection,
        {ids[key]: [feeds_at[address] for address in each] for key, each in used.items()},
        [ids[key] for key in there],
    )
    done = []
    for statement in statements:
        done.append(StatementResult("replaced" if statement.name.key in there else "created", statement.name.name))
        there.add(statement.name.key)
    return done


def _list_addresses(statement: CreateFeed) -> dict[str, str]:
    """Return the addresses in a query, by their normalised form."""
    sources = (branch.source for branch in walk_branches(statement.query))
    return {normalise_url(source.url): source.url for source in sources if isinstance(source, FeedAddress)}


def _add_address_feeds(connection: Connection, addresses: dict[str, str], now: float) -> dict[str, int]:
    """Return the feeds at these addresses; missing ones are added as implicit feeds, which only queries read."""
    if not addresses:
        return {}
    new = [NewFeed(url, weight=IMPLICIT_WEIGHT) for url in addresses.values()]
    added = feeds.add_feeds(connection, new, now, adopt=False, tagged=False)
    rows = [{"feed_id": one.feed.id} for one in added if one.created]
    if rows:
        connection.execute(insert(implicit_feed), rows)
    return {address: one.feed.id for address, one in zip(addresses, added, strict=True)}


def _drop_objects(
    connection: Connection, drops: Sequence[tuple[str, bool]], by: Remover, undo: list[int]
) -> list[StatementResult]:
    """Move feeds and query feeds, given as (name, cascade), to the trash.

    Adds the trash entries to `undo`: one for all query feeds, one for each feed.
    """
    gone: dict[int, str] = {}
    done: list[StatementResult] = []
    for name, cascade in drops:
        row = connection.execute(
            select(query_feed.c.id).where(query_feed.c.key == name.casefold(), QUERY_IS_LIVE)
        ).first()
        users = query_feeds.find_dependents(connection, [name]) if cascade else []
        source = _find_named_feed(connection, name) if row is None else None
        if source is not None:  # as “feeds remove” does, with its items
            undo.append(trash.move_feed_to_trash(connection, source, by, cascade))
        ids = sorted(({row.id} if row is not None else set()) | {user.id for user in users} - gone.keys())
        new = {query.id: query.name for query in query_feeds.find_query_feeds(connection, ids)}
        done += [StatementResult("dropped", each) for each in new.values() or [name]]
        gone |= new
    if gone:
        undo.append(trash.move_query_feeds_to_trash(connection, list(gone), by))
    return done


def _find_named_feed(connection: Connection, name: str) -> int | None:
    rows = connection.execute(select(feed.c.id, feed.c.name).where(feed.c.name.is_not(None), FEED_IS_LIVE)).all()
    return next((row.id for row in rows if row.name.casefold() == name.casefold()), None)


def _register_feed(
    connection: Connection, statement: RegisterFeed, now: float, subscriber: int | None, report: Diagnostics
) -> list[StatementResult]:
    """Add a feed with name and tags, or name an existing one; an implicit feed becomes a registered one."""
    url, name = statement.address.url, statement.name.name
    try:
        new = NewFeed(url, name=name, tags=statement.tags)
        [added] = subscriptions.add_and_subscribe(connection, [new], now, subscriber=subscriber)
    except InputError as error:
        raise QueryError(str(error)) from error
    if added.feed.name is not None and added.feed.name != name:
        position = Position(*statement.address.pos)
        report.add_error(
            position, f"the feed is registered already, as {added.feed.name}", f"read it as {added.feed.name}"
        )
        return []
    if added.feed.name is None:
        connection.execute(update(feed).where(feed.c.id == added.feed.id).values(name=name))
        bump_revision(connection)
    return [StatementResult("registered", name)]
