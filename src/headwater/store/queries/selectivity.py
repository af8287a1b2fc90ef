"""Counts how much of each feed a query keeps.

Offered items are counted per feed, kept ones per pair of query and feed that has kept something (docs/decisions/0074).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from headwater.store.database.dialect import chunks, upsert
from headwater.store.schema.query_tables import offered_count, selectivity

if TYPE_CHECKING:
    from headwater.store.queries.hits import NewHit


@dataclass(frozen=True, slots=True)
class Selectivity:
    """The part of one feed that a query feed keeps: `kept` of `offered` items."""

    query_id: int
    feed_id: int
    kept: int
    offered: int


CHUNK = 500


def count_kept(connection: Connection, new: Sequence[NewHit]) -> None:
    """Count hits that queries have kept for the first time."""
    counts: dict[tuple[int, int], int] = {}
    for one in new:
        if one.hit.fresh:  # hits that fill the window of a new query feed are counted by `set_selectivity`
            key = (one.query_id, one.hit.original.feed_id)
            counts[key] = counts.get(key, 0) + 1
    if counts:
        statement = upsert(connection, selectivity)
        statement = statement.on_conflict_do_update(
            index_elements=["query_id", "feed_id"], set_={"kept": selectivity.c.kept + statement.excluded.kept}
        )
        rows = [{"query_id": q, "feed_id": f, "kept": number, "base": 0} for (q, f), number in counts.items()]
        connection.execute(statement, rows)


def count_offered(connection: Connection, counts: Mapping[int, int]) -> None:
    """Add to the number of items of each feed that were offered to queries."""
    if counts:
        statement = upsert(connection, offered_count)
        statement = statement.on_conflict_do_update(
            index_elements=["feed_id"], set_={"number": offered_count.c.number + statement.excluded.number}
        )
        connection.execute(statement, [{"feed_id": id, "number": number} for id, number in sorted(counts.items())])


def raise_offered_counts(connection: Connection, past: Mapping[int, int]) -> None:
    """Raise the offered counts to the numbers of past items that a new query was filled from."""
    before = load_offered_counts(connection)
    more = {id: number - before.get(id, 0) for id, number in past.items() if number > before.get(id, 0)}
    if more:
        count_offered(connection, more)
        mine = selectivity.c.feed_id == bindparam("feed")
        raised = update(selectivity).where(mine).values(base=selectivity.c.base + bindparam("by"))
        # The older queries were not offered these items: their shares stay the same.
        connection.execute(raised, [{"feed": id, "by": number} for id, number in sorted(more.items())])


def set_selectivity(connection: Connection, counts: Mapping[int, Mapping[int, tuple[int, int]]]) -> None:
    """Replace the counts of queries by (kept, offered) per feed among past items."""
    for chunk in chunks(sorted(counts), CHUNK):
        connection.execute(delete(selectivity).where(selectivity.c.query_id.in_(chunk)))
    total = load_offered_counts(connection)
    rows = [
        {"query_id": query, "feed_id": id, "kept": kept, "base": total.get(id, 0) - of}
        for query, feeds in counts.items()
        for id, (kept, of) in feeds.items()
        if kept
    ]
    if rows:
        connection.execute(insert(selectivity), rows)


def list_selectivity(connection: Connection, query_id: int | None = None) -> list[Selectivity]:
    """List how much queries keep of which feeds; feeds of which nothing was kept are left out."""
    query = select(selectivity, func.coalesce(offered_count.c.number, 0).label("offered"))
    query = query.outerjoin(offered_count, offered_count.c.feed_id == selectivity.c.feed_id)
    if query_id is not None:
        query = query.where(selectivity.c.query_id == query_id)
    return [
        Selectivity(row.query_id, row.feed_id, row.kept, max(row.offered - row.base, row.kept))
        for row in connection.execute(query)
    ]


def load_offered_counts(connection: Connection) -> dict[int, int]:
    """Load how many items of each feed have been offered to queries."""
    return {row.feed_id: row.number for row in connection.execute(select(offered_count))}
