"""The store's side of standing queries: `store.queries`. Every method is one transaction of its own.

Functions that must share the caller's transaction are those of `store.queries` and `store.hits` (modules), run by
`transaction.run`.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence, Set

from sqlalchemy import Connection, select

from headwater.language.ast import DEFAULT_KEEP_WINDOW, Field, Query
from headwater.model import Item, QueryFeed
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.origin import Origin
from headwater.query.query_document import Emission, select_items
from headwater.store import saved_state
from headwater.store.content import feeds, items
from headwater.store.database.database import Database
from headwater.store.database.dialect import chunks
from headwater.store.people import Remover
from headwater.store.queries import hits, query_feeds, query_scripts, selectivity
from headwater.store.schema.feed_tables import feed, item
from headwater.store.values import DroppedQueries, QueryStatistics, ScriptResult, Selectivity, ShowingQueries, StoredHit

CHUNK = 1000


class QueryStore:
    """Query feeds and what comes out of them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # definitions

    async def execute(
        self, script: str, now: float, *, subscriber: int | None = None, replacing: Container[str] = ()
    ) -> ScriptResult:
        """Check a script against what is here and carry it out, wholly or (QueryError) not at all.

        What it defines holds for items that arrive from now on; a running processor fills the window from the past.
        Addresses that stand in it become feeds, wanted by nobody but queries, unless they are here already.
        What it creates or registers is subscribed for `subscriber` (a user's id), else for the owner; digests of what
        it creates or replaces go by that person's time zone. Query feeds of `replacing` (folded names, or EVERY) are
        replaced also without OR REPLACE.
        """
        return await self._database.write(query_scripts.run_script, script, now, subscriber, replacing)

    async def drop(self, name: str, cascade: bool = False, *, by: Remover) -> DroppedQueries:
        """Drop a query feed and what came of it; InputError names those that read it, unless `cascade` drops them too.

        Feeds that were here only for its sake are no longer refreshed; what they brought stays. It is kept, to be
        taken back.
        """
        return await self._database.write(query_scripts.drop_query_feed, name, cascade, by)

    async def all(self) -> list[QueryFeed]:
        """In the order in which they were made."""
        return await self._database.read(query_feeds.list_all_query_feeds)

    async def since(self, revision: int, known: Set[int]) -> tuple[list[QueryFeed], set[int]]:
        """What has been made or replaced beyond a revision, and which of the `known` ids are no more."""
        return await self._database.read(query_feeds.list_changed_query_feeds, revision, known)

    async def some(self, *, after: int = 0, limit: int = 100, subscriber: int | None = None) -> list[QueryFeed]:
        """Those beyond the id `after`, in the order in which they were made; `subscriber` is a user who reads them."""
        return await self._database.read(query_feeds.list_query_feeds, after, limit, subscriber)

    async def find(self, name: str) -> QueryFeed:
        """Without regard to case; NotFound suggests what might have been meant."""
        return await self._database.read(query_feeds.find_query_feed, name)

    async def names(self, ids: Collection[int]) -> dict[int, str]:
        """What these are called, by id; those that are not there are left out."""
        return await self._database.read(query_feeds.find_query_names, ids)

    async def readers(self, name: str) -> list[QueryFeed]:
        """Query feeds that read this one (or this source), directly or through others."""
        return await self._database.read(query_feeds.find_dependents, [name])

    async def count(self) -> int:
        return await self._database.read(query_feeds.count_query_feeds)

    async def catalogue(self) -> query_feeds.StoredCatalogue:
        """Everything that a query can name, for `language.parse`."""
        return await self._database.read(query_feeds.load_catalogue)

    async def revisions(self) -> tuple[int, int]:
        """Counters of changes, of feeds and of queries."""
        return await self._database.read(saved_state.read_revisions)

    async def origins(self) -> dict[int, Origin]:
        """Where the items of each feed come from, as queries see it."""
        return await self._database.read(load_item_origins, None)

    # what comes out

    async def stream(self, query_id: int, *, after: int = 0, limit: int = 100) -> list[StoredHit]:
        """In the order of arrival, beyond the id `after`: append-only, so that it is a cursor."""
        return await self._database.read(hits.list_hits_after, query_id, after, limit)

    async def latest(self, query_id: int, *, before: int | None = None, limit: int = 100) -> list[StoredHit]:
        """The stream backwards, from its end or from the id `before`."""
        return await self._database.read(hits.list_latest_hits, query_id, before, limit)

    async def hits(self, ids: Sequence[int]) -> list[StoredHit]:
        """These hits; those that are no more are left out."""
        return await self._database.read(hits.find_hits, ids)

    async def document(self, query: QueryFeed, now: float) -> list[StoredHit]:
        """What the feed's document shows at `now`: the window of KEEP, arranged by ORDER BY."""
        return await self._database.read(
            list_document_hits, query.id, query_feeds.read_running_definition(query).query, now
        )

    async def emitted(self, item_ids: Collection[int]) -> dict[int, ShowingQueries]:
        """Which query feeds show these items, and which have delivered them; items without any are left out."""
        return await self._database.read(hits.find_showing_queries, item_ids)

    async def published(self, names: Collection[str]) -> dict[int, dict[str, Item]]:
        """What these query feeds have published: by item, the item as each of them shows it."""
        return await self._database.read(hits.find_published_items, names)

    # statistics

    async def statistics(self, query: QueryFeed, now: float, days: float = 7.0) -> QueryStatistics:
        """Over the last `days`."""
        return await self._database.read(hits.compute_query_statistics, query.id, now, days)

    async def counts(self, ids: Collection[int] | None = None) -> dict[int, tuple[int, float]]:
        """Per query feed (of these, or all) how many hits there are, and when the last one arrived; empty ones are
        left out."""
        return await self._database.read(hits.count_hits_by_query, ids)

    async def sources(self, query_id: int | None = None) -> list[Selectivity]:
        """What a query feed (all of them: None) has kept of which feeds; feeds without any kept item are left out."""
        return await self._database.read(selectivity.list_selectivity, query_id)

    async def offers(self) -> dict[int, int]:
        """How many items of each feed have been offered to queries."""
        return await self._database.read(selectivity.load_offered_counts)

    async def implicit(self) -> set[int]:
        """Feeds that are here only because queries give their addresses."""
        return await self._database.read(query_feeds.list_implicit_feeds)

    async def activity(self, since: float) -> dict[int, tuple[int, int]]:
        """Per feed how many refreshes and how many new items there have been; feeds without either are left out."""
        return await self._database.read(hits.count_feed_activity, since)

    # the past

    async def past(
        self, *, since: float | None = None, most: int, upto: int, feed_ids: Collection[int] | None = None
    ) -> list[int]:
        """Ids of the last `most` items in the order of arrival, of these feeds, up to a position of the outbox.

        Where the feeds are thousands, items of others are among them.
        """
        return await self._database.read(hits.list_past_items, since, most, upto, feed_ids)

    async def items(self, ids: Sequence[int]) -> list[Item]:
        """These items in the order of ids; those that are no more are left out."""
        return await self._database.read(find_items, ids)


def load_item_origins(connection: Connection, feed_ids: Collection[int] | None) -> dict[int, Origin]:
    """All, or those of some feeds."""
    query = select(feed.c.id, feed.c.name, feed.c.url)
    some = feed_ids is not None and len(feed_ids) <= CHUNK
    if feed_ids is not None and some:
        query = query.where(feed.c.id.in_(sorted(feed_ids)))
    rows = connection.execute(query).all()
    tags = feeds.find_feed_tags(connection, [row.id for row in rows] if some else None)
    implicit = query_feeds.list_implicit_feeds(connection)
    return {id: Origin(name, url, tags.get(id, ()), id not in implicit) for id, name, url in rows}


def list_document_hits(connection: Connection, query_id: int, query: Query, now: float) -> list[StoredHit]:
    by_arrival = query.order is not None and query.order.field is Field.ARRIVAL
    keep = query.keep or DEFAULT_KEEP_WINDOW
    if keep.seconds is None:
        found = hits.list_window(connection, query_id, keep.count, None, by_arrival)
    else:
        found = hits.list_window(connection, query_id, None, now - keep.seconds, by_arrival)
    known = load_item_origins(connection, {one.item.feed_id for one in found})
    emissions = []
    for one in found:
        origin = known.get(one.item.feed_id) or Origin(None, f"feed:{one.item.feed_id}")
        emissions.append(Emission(AnalysedItem(one.item, origin, one.arrived), one.branches, None, one.arrived, one.id))
    by_id = {one.id: one for one in found}
    return [by_id[emission.sequence] for emission in select_items(query, emissions, now)]


def find_items(connection: Connection, ids: Sequence[int]) -> list[Item]:
    found: list[Item] = []
    for chunk in chunks(sorted(ids), CHUNK):
        query = select(item).where(item.c.id.in_(chunk)).order_by(item.c.id)
        found += [items.read_item(row) for row in connection.execute(query)]
    return found
