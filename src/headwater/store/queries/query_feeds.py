"""Saves definitions of query feeds, finds their dependents and activates them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, case, delete, func, insert, or_, select, update

from headwater.errors import NotFound, QueryError
from headwater.language import Catalogue, reread
from headwater.language.ast import CreateFeed, Query
from headwater.language.binary_form import pack_statement, unpack_statement
from headwater.language.diagnostics import quote_input
from headwater.language.normal_form import list_read_feeds
from headwater.model import QueryFeed
from headwater.query.reader_scope import limit_to_reader
from headwater.store.content import outbox
from headwater.store.database.dialect import chunks, fetch_rows
from headwater.store.queries import hits
from headwater.store.saved_state import QUERIES, bump_revision
from headwater.store.schema.feed_tables import FEED_IS_LIVE, feed, feed_tag
from headwater.store.schema.query_tables import PRIVATE_SOURCE, QUERY_IS_LIVE, implicit_feed, query_address, query_feed
from headwater.store.schema.reader_tables import subscription, subscription_tag

CHUNK = 1000


def read_definition(text: str, form: bytes | None = None) -> CreateFeed:
    """Return the CREATE statement of a stored text; `form` is its packed form, which is faster to read."""
    return unpack_statement(form, text) or reread(text)


def read_query(query: QueryFeed) -> CreateFeed:
    """Return the latest definition as it is run: the query of a reader reads what that reader may see."""
    return limit_to_reader(read_definition(query.text, query.form), query.reader_id)


def read_running_definition(query: QueryFeed) -> CreateFeed:
    """Return the definition that the query processor runs, or the one that it will run first."""
    if query.active is None or query.active == query.text:
        return read_query(query)
    return limit_to_reader(read_definition(query.active), query.reader_id)


class _LazyDefinitions(Mapping[str, Query]):
    """Query feeds by folded name, parsed on access: a script seldom uses more than a few of 100,000."""

    def __init__(self, stored: Mapping[str, tuple[str, str, bytes | None]]) -> None:
        self._stored = stored

    def __getitem__(self, key: str) -> Query:
        _, text, form = self._stored[key]
        return read_definition(text, form).query

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)


@dataclass(frozen=True)
class StoredCatalogue(Catalogue):
    """The catalogue of a store."""

    stored: Mapping[str, tuple[str, str, bytes | None]] = field(default_factory=dict)  # folded name → name, text, form
    readers: Mapping[str, int] = field(default_factory=dict)  # folded name → the reader whose query it is

    @cached_property
    def names(self) -> dict[str, str]:
        return {**self.source_names, **{key: name for key, (name, _, _) in self.stored.items()}}

    @cached_property
    def definitions(self) -> Mapping[str, Query]:  # type: ignore[override]
        return _LazyDefinitions(self.stored)


def load_catalogue(connection: Connection, reader_id: int | None = None) -> StoredCatalogue:
    """Load everything that a query can name: feeds, tags and query feeds.

    For a reader: the feeds that this reader subscribes to, and the reader's tags. Query feeds are those of the reader
    or of the server, and those that others share.
    """
    named = select(feed.c.name, feed.c.url).where(feed.c.name.is_not(None), FEED_IS_LIVE)
    title = func.coalesce(feed.c.given_title, feed.c.title)
    titled = select(title, feed.c.url).where(title.is_not(None), FEED_IS_LIVE)
    tags = select(feed_tag.c.tag).distinct()
    columns = (query_feed.c.key, query_feed.c.name, query_feed.c.text, query_feed.c.form, query_feed.c.reader_id)
    own = query_feed.c.reader_id.is_(None) if reader_id is None else query_feed.c.reader_id == reader_id
    kept = select(*columns).where(QUERY_IS_LIVE, or_(own, query_feed.c.visibility.in_(("shared", "public"))))
    if reader_id is not None:
        named = named.join(subscription, subscription.c.feed_id == feed.c.id).where(subscription.c.user_id == reader_id)
        titled = titled.join(subscription, subscription.c.feed_id == feed.c.id)
        titled = titled.where(subscription.c.user_id == reader_id)
        tags = select(subscription_tag.c.tag).where(subscription_tag.c.user_id == reader_id).distinct()
    queries = connection.execute(kept).all()
    return StoredCatalogue(
        sources={row.name: row.url for row in connection.execute(named)},
        tags=frozenset(connection.execute(tags).scalars()),
        titles=tuple((row[0], row[1]) for row in connection.execute(titled)),
        stored={row.key: (row.name, row.text, row.form) for row in queries},
        readers={row.key: row.reader_id for row in queries if row.reader_id is not None},
    )


_NAMES = [each.name for each in fields(QueryFeed)]
_QUERY_FEEDS = select(*(query_feed.c[name] for name in _NAMES)).where(QUERY_IS_LIVE)
_TEXT, _ACTIVE = _NAMES.index("text"), _NAMES.index("active")


def _read_query_feed(row: Row[Any]) -> QueryFeed:
    """Build a query feed. Equal texts are shared, which saves a tenth of the memory of 100,000 query feeds."""
    values = list(row)
    if values[_ACTIVE] == values[_TEXT]:
        values[_ACTIVE] = values[_TEXT]
    return QueryFeed(*values)


def list_all_query_feeds(connection: Connection) -> list[QueryFeed]:
    """List all query feeds by id."""
    return [_read_query_feed(row) for row in connection.execute(_QUERY_FEEDS.order_by(query_feed.c.id))]


def list_changed_query_feeds(
    connection: Connection, revision: int, known: Set[int]
) -> tuple[list[QueryFeed], set[int]]:
    """List the query feeds changed after a revision, and which of the `known` ids no longer exist."""
    new = _QUERY_FEEDS.where(query_feed.c.revision > revision).order_by(query_feed.c.id)
    changed = [_read_query_feed(row) for row in connection.execute(new)]
    if count_query_feeds(connection) == len(known | {query.id for query in changed}):
        return changed, set()
    return changed, set(known) - set(connection.execute(select(query_feed.c.id).where(QUERY_IS_LIVE)).scalars())


def list_query_feeds(
    connection: Connection, *, after: int = 0, limit: int = 100, which: ColumnElement[bool] | None = None
) -> list[QueryFeed]:
    """List query feeds by id, beyond `after`: all, or those of a condition."""
    query = _QUERY_FEEDS.where(query_feed.c.id > after).order_by(query_feed.c.id).limit(limit)
    if which is not None:
        query = query.where(which)
    return [_read_query_feed(row) for row in connection.execute(query)]


def find_query_feeds(connection: Connection, ids: Collection[int]) -> list[QueryFeed]:
    """Find query feeds by id, in the order in which they were made."""
    found: list[QueryFeed] = []
    for chunk in chunks(sorted(ids), CHUNK):
        query = _QUERY_FEEDS.where(query_feed.c.id.in_(chunk)).order_by(query_feed.c.id)
        found += [_read_query_feed(row) for row in connection.execute(query)]
    return found


def find_query_names(connection: Connection, ids: Collection[int]) -> dict[int, str]:
    """Find the names of query feeds by id; those that do not exist are left out."""
    found: dict[int, str] = {}
    for chunk in chunks(ids, CHUNK):
        query = select(query_feed.c.id, query_feed.c.name).where(query_feed.c.id.in_(chunk), QUERY_IS_LIVE)
        found |= {row.id: row.name for row in connection.execute(query)}
    return found


def find_query_feed(connection: Connection, name: str) -> QueryFeed:
    """Find a query feed by name. Raises NotFound with a suggestion."""
    row = connection.execute(_QUERY_FEEDS.where(query_feed.c.key == name.casefold())).first()
    if row is None:
        known = select(query_feed.c.name).where(QUERY_IS_LIVE, query_feed.c.reader_id.is_(None))
        names = connection.execute(known.limit(10_000)).scalars().all()
        close = difflib.get_close_matches(name[:60], names, n=1, cutoff=0.6)
        hint = f"Did you mean {close[0]}?" if close else "“headwater query list” shows all."
        raise NotFound(f"There is no query feed {quote_input(name)}. {hint}")
    return _read_query_feed(row)


def save_definitions(
    connection: Connection, creates: Sequence[CreateFeed], now: float, author: int, reader_id: int | None = None
) -> tuple[dict[str, int], set[str]]:
    """Create or replace query feeds, in the caller's transaction; they apply to outbox entries from now on.

    New ones belong to `reader_id`, or to the server. Returns their ids by folded name, and the names that existed.
    """
    outbox.lock_outbox(connection)
    position = outbox.find_last_position(connection)
    revision = bump_revision(connection, QUERIES)
    rows = {create.name.key: _definition_row(create, position, revision, author) for create in creates}
    _require_no_source_names(connection, rows)
    there = find_ids(connection, rows)
    new = [row | {"created": now, "reader_id": reader_id} for key, row in rows.items() if key not in there]
    if new:
        connection.execute(insert(query_feed), new)
    replaced = [row | {"of_query": there[key], "replaced": now} for key, row in rows.items() if key in there]
    if replaced:
        connection.execute(_REPLACE, replaced)
    return find_ids(connection, rows), set(there)


def _require_no_source_names(connection: Connection, keys: Collection[str]) -> None:
    """Raise QueryError if a feed has one of the folded names. A reader's catalogue does not have every feed."""
    named = connection.execute(select(feed.c.name).where(feed.c.name.is_not(None), FEED_IS_LIVE)).scalars()
    taken = next((name for name in named if name.casefold() in keys), None)
    if taken is not None:
        raise QueryError(f"The name {taken} belongs to a feed. Choose another name for the query feed.")


def _definition_row(create: CreateFeed, position: int, revision: int, author: int) -> dict[str, Any]:
    return {
        "key": create.name.key,
        "name": create.name.name,
        "text": create.text,
        "position": position,
        "importance": 1.0 if create.query.importance is None else create.query.importance,
        "problem": None,
        "form": pack_statement(create),
        "revision": revision,
        "author_id": author,
    }


_GIVEN_COLUMNS = (
    "key",
    "name",
    "text",
    "position",
    "importance",
    "problem",
    "form",
    "revision",
    "author_id",
    "replaced",
)
_REPLACE = update(query_feed).where(query_feed.c.id == bindparam("of_query"))
_REPLACE = _REPLACE.values({name: bindparam(name) for name in _GIVEN_COLUMNS})
_SET_FORM = update(query_feed).where(
    query_feed.c.id == bindparam("of_query"), query_feed.c.text == bindparam("of_text")
)
_SET_FORM = _SET_FORM.values(form=bindparam("form"))


def save_packed_forms(connection: Connection, forms: Sequence[tuple[QueryFeed, bytes]]) -> None:
    """Keep the packed forms of definitions that had none, or one of another version."""
    rows = [{"of_query": query.id, "of_text": query.text, "form": form} for query, form in forms]
    if rows:
        connection.execute(_SET_FORM, rows)


def find_ids(connection: Connection, keys: Iterable[str]) -> dict[str, int]:
    """Find the ids of query feeds by folded name."""
    found: dict[str, int] = {}
    for chunk in chunks(keys, CHUNK):
        query = select(query_feed.c.key, query_feed.c.id).where(query_feed.c.key.in_(chunk), QUERY_IS_LIVE)
        rows = connection.execute(query)
        found |= {row.key: row.id for row in rows}
    return found


def find_dependents(connection: Connection, names: Iterable[str]) -> list[QueryFeed]:
    """Find the query feeds that read one of these feeds, directly or through others, by id."""
    gone = {name.casefold() for name in names}
    rest = {row.id: (row, row.text.casefold()) for row in list_all_query_feeds(connection)}
    found: list[QueryFeed] = []
    new = gone
    while new:
        # A feed that reads another has its name in its text: few of many must be parsed.
        near = [row for row, text in rest.values() if any(name in text for name in new)]
        more = [row for row in near if row.name.casefold() not in gone and list_names_read(row) & new]
        found += more
        new = {row.name.casefold() for row in more}
        gone |= new
    return sorted(found, key=lambda row: row.id)


def list_names_read(query: QueryFeed) -> set[str]:
    """Return the folded names of the feeds and query feeds that a query reads."""
    try:
        return {name.key for name in list_read_feeds(read_definition(query.text, query.form).query)}
    except (QueryError, ValueError):  # an older text that this version cannot parse reads nothing
        return set()


def delete_query_feeds(connection: Connection, ids: Sequence[int]) -> None:
    """Delete query feeds for good, with all that came of them."""
    for chunk in chunks(ids, CHUNK):
        hits.delete_hits_of_queries(connection, chunk)
        connection.execute(delete(query_feed).where(query_feed.c.id.in_(chunk)))
    bump_revision(connection, QUERIES)


def activate_definitions(connection: Connection, wanted: Sequence[QueryFeed]) -> set[int]:
    """Record that the processor runs these definitions now; returns the ids not replaced or dropped meanwhile."""
    texts = {query.id: query.text for query in wanted}
    done: set[int] = set()
    for chunk in chunks(sorted(texts), CHUNK):
        live = select(query_feed.c.id, query_feed.c.text).where(query_feed.c.id.in_(chunk), QUERY_IS_LIVE)
        rows = connection.execute(live.with_for_update())
        same = [id for id, text in rows if text == texts[id]]
        private = query_feed.c.problem.like(f"{PRIVATE_SOURCE}%")  # noted since the definition was written
        problem = case((private, query_feed.c.problem), else_=None)
        now = {"active": query_feed.c.text, "active_position": query_feed.c.position, "problem": problem}
        connection.execute(update(query_feed).where(query_feed.c.id.in_(same)).values(now))
        done.update(same)
    return done


def set_problem(connection: Connection, query: QueryFeed, problem: str) -> None:
    """Record why the processor cannot run a definition."""
    same = query_feed.c.id == query.id, query_feed.c.text == query.text
    connection.execute(update(query_feed).where(*same).values(problem=problem[:1000]))


def set_query_addresses(
    connection: Connection, addresses: Mapping[int, Collection[int]], replaced: Sequence[int]
) -> None:
    """Set which feeds each query reads by their address."""
    for chunk in chunks(replaced, CHUNK):
        connection.execute(delete(query_address).where(query_address.c.query_id.in_(chunk)))
    rows = [{"query_id": query, "feed_id": id} for query, ids in addresses.items() for id in sorted(set(ids))]
    if rows:
        connection.execute(insert(query_address), rows)


def pause_unreferenced_feeds(connection: Connection) -> int:
    """Pause implicit feeds whose address no query gives any more, and resume the others; returns how many changed."""
    wanted = select(query_address.c.feed_id)
    idle = select(implicit_feed.c.feed_id).where(implicit_feed.c.feed_id.not_in(wanted))
    done = connection.execute(update(feed).where(feed.c.id.in_(idle), ~feed.c.paused).values(paused=True)).rowcount
    resumed = select(implicit_feed.c.feed_id).where(implicit_feed.c.feed_id.in_(wanted))
    done += connection.execute(update(feed).where(feed.c.id.in_(resumed), feed.c.paused).values(paused=False)).rowcount
    return done


def list_implicit_feeds(connection: Connection) -> set[int]:
    """Return the feeds that exist only because queries give their addresses."""
    return {id for (id,) in fetch_rows(connection, "SELECT feed_id FROM implicit_feed", {})}


def count_query_feeds(connection: Connection) -> int:
    """Count the query feeds."""
    return connection.execute(select(func.count()).select_from(query_feed).where(QUERY_IS_LIVE)).scalar_one()
