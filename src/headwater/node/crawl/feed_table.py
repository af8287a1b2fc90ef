"""Keeps the scheduler's columns in memory, one row per feed.

The rest of a feed is read from the store when it is refreshed, so memory grows by a few hundred bytes per feed. Rows
are appended and never move; a removed feed leaves an inactive row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Bools, Floats, Rows
from headwater.fetch.http.address_guard import is_local_domain
from headwater.formats.values.domains import registered_domain_of_url
from headwater.node.queries.demand import Demand
from headwater.schedule.politeness.rules import PolitenessFacts, is_skipped, measure_skipped
from headwater.schedule.refresh_cost import update_means
from headwater.schedule.strategy import Table
from headwater.store.content.feed_state import ScheduleRow

WHOLE_DOCUMENT = 20.0  # bytes of a document relative to those of a 304: the cost of a poll without validators
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
        self.of_readers: Bools = np.empty(0, bool)  # only readers subscribe to it, no owner
        self.in_flight: Bools = np.empty(0, bool)  # it is being refreshed
        self.shown_next: Floats = np.empty(0)  # the next refresh as the store shows it; NaN: none
        self.learned_until: Floats = np.empty(0)  # the latest refresh that the strategy has learned from
        self.skip_hours: NDArray[np.int32] = np.empty(0, np.int32)  # bit h: not in that hour, UTC
        self.skip_days: NDArray[np.int32] = np.empty(0, np.int32)  # bit d: not on that weekday
        self.mean_bytes: Floats = np.empty(0)  # of a feed's refreshes, learned; NaN: none yet
        self.mean_seconds: Floats = np.empty(0)
        self._deadlines: Mapping[int, float] = {}  # seconds, by feed: the intervals that TARGETs of queries need
        self._released_at: Floats = np.empty(0)  # end of its last refresh, by the monotonic clock
        self._demand: Mapping[int, Demand] = {}
        self.is_own_host: Bools = np.empty(0, bool)  # one per host: it belongs to our own network
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
        ready = self.active & ~self.in_flight & learned & (self.earliest <= now) & (self.host_until[self.host] <= now)
        # `earliest` was computed at the last refresh; a feed that falls due later may do so within a skipped hour.
        skipping = np.flatnonzero(ready & ((self.skip_hours | self.skip_days) != 0))
        ready[skipping[is_skipped(self.skip_hours[skipping], self.skip_days[skipping], now)]] = False
        return ready

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
            self.active[row] = self.table.active[row] = _is_active(feed)
            self.at_most[row] = _longest_pause(feed)
            self._set_at_most(row)
            self._set_demand(row, self._demand.get(feed.feed_id) or Demand(feed.weight, 1.0))
            if self.in_flight[row] or self._released_at[row] >= since:
                continue
            last = _last_success(feed)
            if feed.feed_id in allowed or back or last != self.table.last[row]:
                self.earliest[row] = allowed.get(feed.feed_id, -np.inf)
            self.table.window[row] = feed.window or ASSUMED_WINDOW
            self.table.last[row] = last

    def set_demand(self, demand: Mapping[int, Demand]) -> bool:
        """Set the weights and selectivities that queries and readers give to the feeds.

        Returns whether any has changed by more than a tenth: selectivities are estimates that move with every item.
        """
        self._demand = demand
        before = self.table.weight * self.table.selectivity
        for feed, wanted in demand.items():
            row = self._row_of_feed.get(feed)
            if row is not None:
                self._set_demand(row, wanted)
        worth = self.table.weight * self.table.selectivity
        return bool((np.abs(worth - before) > 0.1 * np.maximum(before, worth)).any())

    def set_reader_feeds(self, feed_ids: Collection[int]) -> None:
        """Set the feeds to which only readers subscribe."""
        self.of_readers[:] = False
        self.of_readers[self.find_rows(feed_ids)] = True

    def _set_demand(self, row: int, wanted: Demand) -> None:
        table = self.table
        table.weight[row], table.selectivity[row], table.subscribers[row] = wanted

    def note_costs(self, rows: Rows, size: Floats, seconds: Floats) -> None:
        """Learn the bytes and seconds that the refreshes of these rows took."""
        self.mean_bytes[rows] = update_means(self.mean_bytes[rows], size)
        self.mean_seconds[rows] = update_means(self.mean_seconds[rows], seconds)

    def restore_costs(self, means: Iterable[tuple[int, float, float]]) -> None:
        """Take over what refreshes took before the start: feed, mean bytes, mean seconds."""
        for feed, size, seconds in means:
            row = self._row_of_feed.get(feed)
            if row is not None:
                self.mean_bytes[row], self.mean_seconds[row] = size, seconds

    def set_deadlines(self, deadlines: Mapping[int, float]) -> bool:
        """Set the intervals, in seconds by feed, that TARGETs of queries need; return whether any has changed."""
        changed = deadlines != self._deadlines
        before, self._deadlines = self._deadlines, deadlines
        for feed in {*before, *deadlines} if changed else ():
            row = self._row_of_feed.get(feed)
            if row is not None:
                self._set_at_most(row)
        return changed

    def _set_at_most(self, row: int) -> None:
        self.table.at_most[row] = min(self.at_most[row], self._deadlines.get(int(self.ids[row]), np.inf))

    def deactivate(self, rows: Rows) -> None:
        """Refresh these rows no more: their feeds are gone for good."""
        self.active[rows] = self.table.active[rows] = False

    def set_politeness(self, rows: Rows, facts: PolitenessFacts, pause: Floats, reason: NDArray[np.int8]) -> None:
        """Set what politeness asks of these rows: pauses between polls, skipped hours and days, pushes."""
        self.table.pause[rows], self.table.reason[rows] = pause, reason
        self.table.pushed[rows] = facts.pushed
        self.table.heavy[rows] = np.where(facts.validators, 1.0, WHOLE_DOCUMENT)
        self.skip_hours[rows], self.skip_days[rows] = facts.skip_hours, facts.skip_days
        self.table.open[rows], self.table.closed[rows] = 1.0, 0.0
        for place in np.flatnonzero((facts.skip_hours | facts.skip_days) != 0).tolist():
            row = rows[place]
            self.table.open[row], self.table.closed[row] = measure_skipped(
                int(facts.skip_hours[place]), int(facts.skip_days[place])
            )

    def remove_feeds(self, feed_ids: Iterable[int]) -> None:
        for feed in feed_ids:
            row = self._row_of_feed.pop(feed, None)
            if row is not None:
                self.active[row] = self.table.active[row] = False
                self.ids[row] = -1

    def _append_feeds(self, fresh: list[ScheduleRow], allowed: Mapping[int, float]) -> None:
        """Append rows column by column, since at a start these are all feeds of the store."""
        start, more = len(self.ids), len(fresh)
        table = Table.of(more, ASSUMED_WINDOW)
        if self._demand:
            demand = [self._demand.get(feed.feed_id) or Demand(feed.weight, 1.0) for feed in fresh]
            table.weight[:], table.selectivity[:], table.subscribers[:] = zip(*demand, strict=True)
        else:
            table.weight[:] = [feed.weight for feed in fresh]
        table.window[:] = [feed.window or ASSUMED_WINDOW for feed in fresh]
        table.last[:] = [_last_success(feed) for feed in fresh]
        ids = [feed.feed_id for feed in fresh]
        self.ids = np.concatenate([self.ids, np.array(ids, np.int64)])
        self.host = np.concatenate([self.host, np.array([self._find_host(feed.url) for feed in fresh], np.intp)])
        self.earliest = np.concatenate([self.earliest, np.array([allowed.get(feed, -np.inf) for feed in ids])])
        self.at_most = np.concatenate([self.at_most, np.array([_longest_pause(feed) for feed in fresh])])
        table.active[:] = [_is_active(feed) for feed in fresh]
        table.at_most[:] = [min(_longest_pause(feed), self._deadlines.get(feed.feed_id, np.inf)) for feed in fresh]
        self.active = np.concatenate([self.active, table.active])
        self.skip_hours = np.concatenate([self.skip_hours, np.zeros(more, np.int32)])
        self.skip_days = np.concatenate([self.skip_days, np.zeros(more, np.int32)])
        self.in_flight = np.concatenate([self.in_flight, np.zeros(more, bool)])
        self.of_readers = np.concatenate([self.of_readers, np.zeros(more, bool)])
        shown = [np.nan if feed.next_refresh is None else feed.next_refresh for feed in fresh]
        self.shown_next = np.concatenate([self.shown_next, np.array(shown)])
        self.learned_until = np.concatenate([self.learned_until, np.full(more, -np.inf)])
        self._released_at = np.concatenate([self._released_at, np.full(more, -np.inf)])
        self.mean_bytes = np.concatenate([self.mean_bytes, np.full(more, np.nan)])
        self.mean_seconds = np.concatenate([self.mean_seconds, np.full(more, np.nan)])
        self.table = _concatenate(self.table, table)
        self._row_of_feed |= {feed: start + k for k, feed in enumerate(ids)}

    def _find_host(self, url: str) -> int:
        domain = registered_domain_of_url(url)
        index = self._host_indices.setdefault(domain, len(self._host_indices))
        if index == len(self.host_until):
            room = np.full(max(2 * index, 64), -np.inf)
            room[:index] = self.host_until
            self.host_until = room
            self.is_own_host = np.concatenate([self.is_own_host, np.zeros(len(room) - index, bool)])
        self.is_own_host[index] = is_local_domain(domain)
        return index

    def find_host(self, domain: str) -> int | None:
        return self._host_indices.get(domain)


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
