"""Keeps the scheduler's columns in memory, one row per feed.

The rest of a feed is read from the store when it is refreshed, so memory grows by a few hundred bytes per feed. Rows
are appended and never move; a removed feed leaves an inactive row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Bools, Floats, Rows
from headwater.fetch.http.domains import registered_domain_of_url
from headwater.node.queries.demand import Demand
from headwater.schedule.strategy import Table
from headwater.store.content.feed_state import ScheduleRow

ASSUMED_WINDOW = 10.0  # until a feed's first document shows how long it is


class FeedTable:
    """The feeds of this process as arrays; `table` holds the columns that strategies see."""

    def __init__(self) -> None:
        self.table = Table.of(0)
        self.ids: NDArray[np.int64] = np.empty(0, np.int64)
        self.host: Rows = np.empty(0, np.intp)
        self.earliest: Floats = np.empty(0)  # politeness: not before this time
        self.host_until: Floats = np.empty(0)  # one per host: no feed of the host before this time
        self.at_most: Floats = np.empty(0)  # seconds: the longest pause that a person allows, else infinity
        self.active: Bools = np.empty(0, bool)  # not paused, gone or removed
        self.in_flight: Bools = np.empty(0, bool)  # it is being refreshed
        self.learned_until: Floats = np.empty(0)  # the latest refresh that the strategy has learned from
        self._released_at: Floats = np.empty(0)  # end of its last refresh, by the monotonic clock
        self._demand: Mapping[int, Demand] = {}
        self._row_of_feed: dict[int, int] = {}
        self._host_indices: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def host_count(self) -> int:
        return len(self._host_indices)

    def find_row(self, feed_id: int) -> int | None:
        return self._row_of_feed.get(feed_id)

    def list_feed_ids(self) -> set[int]:
        return set(self._row_of_feed)

    def find_rows(self, feed_ids: Iterable[int]) -> Rows:
        return np.array([self._row_of_feed[feed] for feed in feed_ids if feed in self._row_of_feed], np.intp)

    def find_candidates(self, now: float) -> Bools:
        learned = self.table.last <= self.learned_until  # else others refreshed it, and their lesson comes first
        return self.active & ~self.in_flight & learned & (self.earliest <= now) & (self.host_until[self.host] <= now)

    @property
    def untried(self) -> Bools:
        """Feeds that were never refreshed."""
        return np.isneginf(self.table.last) & np.isneginf(self.earliest)

    @property
    def unlearned(self) -> Rows:
        """Feeds with refreshes that the strategy has missed: of a command, or before the process was killed."""
        return np.flatnonzero((self.table.last > self.learned_until) & (self.ids >= 0) & ~self.in_flight)

    @property
    def unjudged(self) -> Rows:
        """Feeds that were refreshed and for which politeness has not computed the next time yet."""
        return np.flatnonzero(np.isneginf(self.earliest) & np.isfinite(self.table.last) & self.active & ~self.in_flight)

    def compute_host_room(self, per_host: int) -> Rows:
        """Return how many more refreshes each host may get."""
        busy = np.bincount(self.host[self.in_flight], minlength=self.host_count)
        return np.maximum(per_host - busy, 0)

    def hold_host(self, domain: str, until: float) -> None:
        """Refresh no feed of a domain before `until`."""
        if domain in self._host_indices:
            self.host_until[self._host_indices[domain]] = until

    def release_feeds(self, feed_ids: Iterable[int], moment: float) -> None:
        """Note that the refreshes of these feeds are stored, at this time of the monotonic clock."""
        rows = self.find_rows(feed_ids)
        self.in_flight[rows] = False
        self._released_at[rows] = moment

    def upsert_feeds(self, feeds: Iterable[ScheduleRow], allowed: Mapping[int, float], since: float = np.inf) -> None:
        """Add rows for new feeds and update the others from the store.

        The store was read at `since`. A feed that was refreshed afterwards keeps its columns: the stored ones are
        older and would make it due again at once.
        """
        known = list(feeds)
        fresh = [feed for feed in known if feed.feed_id not in self._row_of_feed]
        if fresh:
            self._append_feeds(fresh, allowed)
        if len(fresh) == len(known):
            return
        new = {feed.feed_id for feed in fresh}
        for feed in known:
            if feed.feed_id in new:
                continue
            row = self._row_of_feed[feed.feed_id]
            self.host[row] = self._find_host(feed.url)
            back = not self.active[row]
            self.active[row] = _is_active(feed)
            self.at_most[row] = _longest_pause(feed)
            wanted = self._demand.get(feed.feed_id) or Demand(feed.weight, 1.0)
            self.table.weight[row], self.table.selectivity[row] = wanted.weight, wanted.selectivity
            if self.in_flight[row] or self._released_at[row] >= since:
                continue
            last = _last_success(feed)
            if feed.feed_id in allowed or back or last != self.table.last[row]:
                self.earliest[row] = allowed.get(feed.feed_id, -np.inf)
            self.table.window[row] = feed.window or ASSUMED_WINDOW
            self.table.last[row] = last

    def set_demand(self, demand: Mapping[int, Demand]) -> None:
        """Set the weights and selectivities that queries and readers give to the feeds."""
        self._demand = demand
        for feed, wanted in demand.items():
            row = self._row_of_feed.get(feed)
            if row is not None:
                self.table.weight[row], self.table.selectivity[row] = wanted.weight, wanted.selectivity

    def remove_feeds(self, feed_ids: Iterable[int]) -> None:
        for feed in feed_ids:
            row = self._row_of_feed.pop(feed, None)
            if row is not None:
                self.active[row] = False
                self.ids[row] = -1

    def _append_feeds(self, fresh: list[ScheduleRow], allowed: Mapping[int, float]) -> None:
        """Append rows column by column, since at a start these are all feeds of the store."""
        start, more = len(self.ids), len(fresh)
        table = Table.of(more, ASSUMED_WINDOW)
        if self._demand:
            demand = [self._demand.get(feed.feed_id) or Demand(feed.weight, 1.0) for feed in fresh]
            table.weight[:] = [one.weight for one in demand]
            table.selectivity[:] = [one.selectivity for one in demand]
        else:
            table.weight[:] = [feed.weight for feed in fresh]
            table.selectivity[:] = 1.0
        table.window[:] = [feed.window or ASSUMED_WINDOW for feed in fresh]
        table.last[:] = [_last_success(feed) for feed in fresh]
        ids = [feed.feed_id for feed in fresh]
        self.ids = np.concatenate([self.ids, np.array(ids, np.int64)])
        self.host = np.concatenate([self.host, np.array([self._find_host(feed.url) for feed in fresh], np.intp)])
        self.earliest = np.concatenate([self.earliest, np.array([allowed.get(feed, -np.inf) for feed in ids])])
        self.at_most = np.concatenate([self.at_most, np.array([_longest_pause(feed) for feed in fresh])])
        self.active = np.concatenate([self.active, np.array([_is_active(feed) for feed in fresh], bool)])
        self.in_flight = np.concatenate([self.in_flight, np.zeros(more, bool)])
        self.learned_until = np.concatenate([self.learned_until, np.full(more, -np.inf)])
        self._released_at = np.concatenate([self._released_at, np.full(more, -np.inf)])
        self.table = _concatenate(self.table, table)
        self._row_of_feed |= {feed: start + k for k, feed in enumerate(ids)}

    def _find_host(self, url: str) -> int:
        index = self._host_indices.setdefault(registered_domain_of_url(url), len(self._host_indices))
        if index == len(self.host_until):
            room = np.full(max(2 * index, 64), -np.inf)
            room[:index] = self.host_until
            self.host_until = room
        return index


def _is_active(feed: ScheduleRow) -> bool:
    return not feed.paused and feed.gone_since is None


def _longest_pause(feed: ScheduleRow) -> float:
    return np.inf if feed.interval is None else feed.interval


def _last_success(feed: ScheduleRow) -> float:
    return -np.inf if feed.last_success is None else feed.last_success


def _concatenate(one: Table, other: Table) -> Table:
    """Return both tables as one."""
    names = [name for name in Table.__slots__ if getattr(one, name) is not None]
    return Table(**{name: np.concatenate([getattr(one, name), getattr(other, name)]) for name in names})
