"""Computes the demand of queries and readers for each feed: the scheduler's weights.

The weight of a feed is the sum over its queries of importance × selectivity × readers of the query, plus the weight
that people have given it × its own readers; all per mean number of readers of a feed (Sia & Cho's w).
Selectivity is the mean of a Beta posterior: of `offered` items of the feed the query has `kept` some. A new query
starts with the counts of its back-fill.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from statistics import fmean
from typing import NamedTuple

import numpy as np

from headwater.language.ast import CreateFeed, Query
from headwater.language.normal_form import list_sources
from headwater.query.source_scope import SourceScope
from headwater.schedule.weights import combine_query_weights
from headwater.settings import Settings
from headwater.store.content.feed_state import load_weights
from headwater.store.queries.selectivity import Selectivity, list_selectivity, load_offered_counts
from headwater.store.readers.readership import Readership, load_readership
from headwater.store.store import Store

PRIOR_KEPT, PRIOR_LEFT = 0.5, 0.5  # Jeffreys: before anything is known half is kept, after 20 items without any 2 %
MIN_WEIGHT = 0.01  # of a feed without demand: it is polled rarely, to notice when it is gone


def estimate_selectivity(kept: float, offered: float) -> float:
    """Estimate the share of a feed's items that a query keeps.

    >>> estimate_selectivity(0, 0), round(estimate_selectivity(0, 99), 3), round(estimate_selectivity(30, 99), 3)
    (0.5, 0.005, 0.305)
    """
    return (kept + PRIOR_KEPT) / (offered + PRIOR_KEPT + PRIOR_LEFT)


class Demand(NamedTuple):
    """The weight of a wanted item of a feed, the share of its items that are wanted, and the number of readers."""

    weight: float
    selectivity: float
    readers: float = 1.0


class DemandModel:
    """Computes the weights of feeds from the definitions and their counts."""

    def __init__(
        self,
        definitions: Mapping[int, CreateFeed],
        scope: SourceScope,
        sources: Iterable[Selectivity],
        offers: Mapping[int, int],
        readership: Readership | None = None,
    ) -> None:
        """Readers count if `readership` is given; else every feed and query counts as read by one."""
        self._definitions = definitions
        self._readership = readership or Readership()
        self._weighted = readership is not None
        self._scope = scope
        self._kept = {(one.query_id, one.feed_id): one for one in sources}
        self._offers = offers

    def estimate_selectivity(self, query_id: int, feed_id: int) -> float:
        known = self._kept.get((query_id, feed_id))
        if known is None:
            return estimate_selectivity(0, self._offers.get(feed_id, 0))
        return estimate_selectivity(known.kept, known.offered)

    def list_feeds(self, query_id: int) -> set[int]:
        return self._scope.find_feeds(self._definitions[query_id].query)

    def compute_demand(self, own: Mapping[int, float], times: Mapping[int, float] | None = None) -> dict[int, Demand]:
        """Compute weight and selectivity of every feed. `own` has the weights given by readers; `times` multiplies the
        importance of queries with a TARGET, by id."""
        counts = {} if times is None else times
        ids = sorted(own)
        readers = self.count_readers(ids)
        # Per mean number of readers, so that more readers do not raise the worth of all feeds together.
        mean = fmean(max(number, 1) for number in readers.values()) if self._weighted and readers else 1.0
        direct = self._readership.count_feed_readers()
        own = {feed: weight * (max(direct[feed], 1) / mean if self._weighted else 1) for feed, weight in own.items()}
        place = {feed: row for row, feed in enumerate(ids)}
        rows: list[int] = []
        importance: list[float] = []
        share: list[float] = []
        by_query = self._feeds_by_query()
        counted = {
            query: worth * counts.get(query, 1.0) * self._query_factor(query, mean)
            for query, worth in self._importance_by_query.items()
        }
        # Queries over the same sources that have kept nothing of a feed are alike: they are summed up in one row.
        for members, feeds in self._queries_by_sources:
            total = sum(counted[query] for query in members)
            rest = dict.fromkeys((feed for feed in feeds if feed in place), total)
            for query in members:
                worth = counted[query]
                for feed in by_query.get(query, ()):
                    if feed in rest:
                        rest[feed] -= worth
                        rows.append(place[feed])
                        importance.append(worth)
                        share.append(self.estimate_selectivity(query, feed))
            for feed, worth in rest.items():
                if worth > 1e-9:
                    rows.append(place[feed])
                    importance.append(worth)
                    share.append(estimate_selectivity(0, self._offers.get(feed, 0)))
        weight, passes = combine_query_weights(
            len(ids),
            np.array(rows, np.intp),
            np.array(importance, np.float64),
            np.array(share, np.float64),
            np.array([own[feed] for feed in ids], np.float64),
        )
        return {
            feed: _with_minimum(float(weight[row]), float(passes[row]), float(readers[feed]))
            for feed, row in place.items()
        }

    def count_readers(self, feeds: Iterable[int]) -> dict[int, int]:
        """Count the readers of each feed: accounts that read it or a query feed over it, each once, and visitors.

        If nobody subscribes to anything, as on a server that only commands use, every feed counts as read by one.
        """
        who = self._readership
        if not (who.subscriptions or who.query_accounts or who.query_visitors or who.feed_visitors):
            return dict.fromkeys(feeds, 1)
        groups = [
            (frozenset().union(*(who.query_accounts.get(query, ()) for query in members)), members, sources)
            for members, sources in self._queries_by_sources
        ]
        by_query: dict[int, frozenset[int]] = {}  # accounts that read the feed through queries
        found = dict.fromkeys(feeds, 0)
        for accounts, members, sources in groups:
            visitors = sum(who.query_visitors.get(query, 0) for query in members)
            if not accounts and not visitors:
                continue
            joined: dict[frozenset[int], frozenset[int]] = {}  # feeds of the same queries share one set
            for feed in sources:
                if feed in found:
                    before = by_query.get(feed, frozenset())
                    by_query[feed] = joined.setdefault(before, before | accounts)
                    found[feed] += visitors
        for feed, accounts in by_query.items():
            found[feed] += len(accounts)
        for feed, account in who.subscriptions:
            if feed in found and account not in by_query.get(feed, ()):
                found[feed] += 1
        for feed, visitors in who.feed_visitors.items():
            if feed in found:
                found[feed] += visitors
        return found

    def _query_factor(self, query_id: int, mean: float) -> float:
        return max(self._readership.count_query_readers(query_id), 1) / mean if self._weighted else 1.0

    def _feeds_by_query(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for query, feed in self._kept:
            found.setdefault(query, []).append(feed)
        return found

    @cached_property
    def _importance_by_query(self) -> dict[int, float]:
        return {id: _find_importance(create.query) for id, create in self._definitions.items()}

    @cached_property
    def _queries_by_sources(self) -> list[tuple[list[int], set[int]]]:
        members: dict[object, list[int]] = {}
        for id, create in self._definitions.items():
            members.setdefault(frozenset(leaf.source for leaf in list_sources(create.query)), []).append(id)
        return [(ids, self.list_feeds(ids[0])) for ids in members.values()]


async def load_own_weights(store: Store, only_queries: bool) -> dict[int, float]:
    """Load the weight that people have given to each feed, or zeros if only queries count."""
    weights = await store.read(load_weights)
    return dict.fromkeys(weights, 0.0) if only_queries else weights


async def load_demand_model(
    store: Store, settings: Settings, definitions: Mapping[int, CreateFeed], scope: SourceScope, now: float
) -> DemandModel:
    """Load the counts of queries and readers."""
    selectivity = await store.read(list_selectivity) if definitions else ()
    offers = await store.read(load_offered_counts) if definitions else {}
    readership = await store.read(load_readership, now) if settings.reader_weights else None
    return DemandModel(definitions, scope, selectivity, offers, readership)


def _find_importance(query: Query) -> float:
    return 1.0 if query.importance is None else query.importance


def _with_minimum(weight: float, passes: float, readers: float) -> Demand:
    if weight * passes >= MIN_WEIGHT:
        return Demand(weight, passes, readers)
    return Demand(MIN_WEIGHT, 1.0, readers)
