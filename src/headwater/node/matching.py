"""Entries of the outbox meet the standing queries: what they hit, and which queries could not be tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from headwater.query import Engine, Hit
from headwater.store.values import OutboxEntry, ShowingQueries

_NOTHING_EMITTED = ShowingQueries()

log = structlog.get_logger()


@dataclass(slots=True)
class MatchBatch:
    """The hits of some entries, and by name of a query why an item could not be tried on it."""

    hits: list[tuple[OutboxEntry, Hit]] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


def match_entries(engine: Engine, entries: Sequence[OutboxEntry], before: Mapping[int, ShowingQueries]) -> MatchBatch:
    """`before` tells of items that have changed what queries had made of them."""
    found = MatchBatch()
    seen: set[int | None] = set()
    for entry in entries:
        if entry.item.id in seen:  # all entries of an item show it as it is now
            continue
        seen.add(entry.item.id)
        arrived = entry.item.first_seen if entry.kind == "new" else entry.at
        try:
            told = before.get(entry.item.id or 0, _NOTHING_EMITTED)
            hits = engine.match(entry.item, None, arrived, told.by, told.delivered)
        except Exception as error:  # one bad item must not hold up all others
            log.error("item_not_matched", item=entry.item.id, error=repr(error))
            continue
        for failure in hits.failures:
            log.error("query_failed", query=failure.query, item=entry.item.id, error=repr(failure.error))
            found.failed.setdefault(failure.query, f"Item {entry.item.id} could not be tried: {failure.error!r}")
        found.hits += [(entry, hit) for hit in hits]
    return found
