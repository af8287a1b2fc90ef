"""Computes the demand of queries and readers for each feed: the scheduler's weights.

The weight of a feed is the sum over its queries of importance × selectivity, plus the weight given by its readers.
Selectivity is the mean of a Beta posterior: of `offered` items of the feed the query has `kept` some. A new query
starts with the counts of its back-fill.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headwater.language.ast import CreateFeed, Query
from headwater.language.normal_form import list_sources
from headwater.query.source_scope import SourceScope
from headwater.schedule.weights import combine_query_weights
from headwater.store.content.feed_state import load_weights
from headwater.store.queries.selectivity import Selectivity
from headwater.store.store import Store

PRIOR_KEPT, PRIOR_LEFT = 0.5, 0.5  # Jeffreys: before anything is known half is kept, after 20 items without any 2 %
MIN_WEIGHT = 0.01  # of a feed without demand: it is polled rarely, to notice when it is gone


def estimate_selectivity(kept: float, offered: float) -> float:
    """Estimate the share of a feed's items that a query keeps.

    >>> estimate_selectivity(0, 0), round(estimate_selectivity(0, 99), 3), round(estimate_selectivity(30, 99), 3)
    (0.5, 0.005, 0.305)
    """
    return (kept + PRIOR_KEPT) / (offered + PRIOR_KEPT + PRIOR_LEFT)


@dataclass(frozen=True, slots=True)
class Demand:
    """The weight of a wanted item of a feed, and the share of its items that are wanted."""

    weight: float
    selectivity: float


class DemandModel:
    """Computes the weights of feeds from the definitions and their counts."""

    def __init__(
        self,
        definitions: Mapping[int, CreateFeed],
        scope: SourceScope,
        sources: Iterable[Selectivity],
        offers: Mapping[int, int],
    ) -> None:
        self._definitions = definitions
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
        place = {feed: row for row, feed in enumerate(ids)}
        rows: list[int] = []
        importance: list[float] = []
        share: list[float] = []
        by_query = self._feeds_by_query()
        counted = {query: worth * counts.get(query, 1.0) for query, worth in self._importance_by_query.items()}
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
        return {feed: _with_minimum(float(weight[row]), float(passes[row])) for feed, row in place.items()}

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


async def load_reader_weights(store: Store, only_queries: bool) -> dict[int, float]:
    """Load the weight that readers give to each feed, or zeros if only queries count."""
    weights = await store.read(load_weights)
    return dict.fromkeys(weights, 0.0) if only_queries else weights


def _find_importance(query: Query) -> float:
    return 1.0 if query.importance is None else query.importance


def _with_minimum(weight: float, passes: float) -> Demand:
    if weight * passes >= MIN_WEIGHT:
        return Demand(weight, passes)
    return Demand(MIN_WEIGHT, 1.0)
