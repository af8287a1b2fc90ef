"""Which row of the scheduler's arrays is which feed, and what of each feed the crawler keeps in memory.

Everything else about a feed is read from the store when its turn comes, so that memory grows by some hundred bytes a
feed. Rows are appended and never move; a removed feed leaves a row that is no candidate any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from headwater.estimate.base import Bools, Floats, Rows
from headwater.fetch.hosts import registered_domain
from headwater.node.wants import Want
from headwater.schedule.base import Table
from headwater.store.values import ScheduleRow

ASSUMED_WINDOW = 10.0  # until a feed's first document shows how long it is


def host_of(url: str) -> str:
    """The registered domain that is asked for this address."""
    host, _, port = url.partition("://")[2].partition("/")[0].partition(":")
    plain = host.isascii() and host.replace(".", "").replace("-", "").isalnum() and (not port or port.isdigit())
    if plain:  # a million feeds are told apart at a start
        return registered_domain(host)
    return registered_domain(urlsplit(url).hostname or "")


class Roster:
    """The feeds of this process as arrays; `table` is what strategies see of them."""

    def __init__(self) -> None:
        self.table = Table.of(0)
        self.ids: NDArray[np.int64] = np.empty(0, np.int64)
        self.host: Rows = np.empty(0, np.intp)
        self.allowed: Floats = np.empty(0)  # not before this time, whatever a strategy says
        self.host_until: Floats = np.empty(0)  # one per host: the host as a whole asked us to wait
        self.active: Bools = np.empty(0, bool)  # neither paused nor gone nor removed
        self.busy: Bools = np.empty(0, bool)  # a refresh of it is under way
        self.learned: Floats = np.empty(0)  # the latest refresh that the strategy has learned from
        self._over: Floats = np.empty(0)  # when its last refresh was over, on the monotonic clock
        self._wants: Mapping[int, Want] = {}
        self._row: dict[int, int] = {}
        self._hosts: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def hosts(self) -> int:
        return len(self._hosts)

    def row(self, feed_id: int) -> int | None:
        return self._row.get(feed_id)

    def feeds(self) -> set[int]:
        return set(self._row)

    def rows(self, feed_ids: Iterable[int]) -> Rows:
        return np.array([self._row[feed] for feed in feed_ids if feed in self._row], np.intp)

    def candidates(self, now: float) -> Bools:
        heard = self.table.last <= self.learned  # of one that others refreshed we must hear first what came of it
        return self.active & ~self.busy & heard & (self.allowed <= now) & (self.host_until[self.host] <= now)

    @property
    def untried(self) -> Bools:
        """Feeds of which nothing is known because nobody has tried: their first refresh is still to come."""
        return np.isneginf(self.table.last) & np.isneginf(self.allowed)

    @property
    def missed(self) -> Rows:
        """Feeds that were refreshed without the strategy hearing of it: by a command, or before it was killed."""
        return np.flatnonzero((self.table.last > self.learned) & (self.ids >= 0) & ~self.busy)

    @property
    def unjudged(self) -> Rows:
        """Feeds that have been refreshed and for which nobody has said yet when they may be again."""
        return np.flatnonzero(np.isneginf(self.allowed) & np.isfinite(self.table.last) & self.active & ~self.busy)

    def room(self, per_host: int) -> Rows:
        """How many refreshes each host may get on top of those under way."""
        busy = np.bincount(self.host[self.busy], minlength=self.hosts)
        return np.maximum(per_host - busy, 0)

    def hold_host(self, domain: str, until: float) -> None:
        """Leave every feed of a domain alone until then."""
        if domain in self._hosts:
            self.host_until[self._hosts[domain]] = until

    def release(self, feed_ids: Iterable[int], moment: float) -> None:
        """Their refreshes are over and written, at this moment of the monotonic clock."""
        rows = self.rows(feed_ids)
        self.busy[rows] = False
        self._over[rows] = moment

    def take(self, feeds: Iterable[ScheduleRow], allowed: Mapping[int, float], since: float = np.inf) -> None:
        """Feeds as the store has them: new ones get a row, others are brought up to date.

        Reading began at the moment `since`. Of a feed that has been refreshed meanwhile the store may not have known
        yet what we have learned: it would be refreshed a second time at once.
        """
        known = list(feeds)
        fresh = [feed for feed in known if feed.feed_id not in self._row]
        if fresh:
            self._append(fresh, allowed)
        if len(fresh) == len(known):
            return
        new = {feed.feed_id for feed in fresh}
        for feed in known:
            if feed.feed_id in new:
                continue
            row = self._row[feed.feed_id]
            self.host[row] = self._host(feed.url)
            back = not self.active[row]
            self.active[row] = _active(feed)
            wanted = self._wants.get(feed.feed_id) or Want(feed.weight, 1.0)
            self.table.weight[row], self.table.selectivity[row] = wanted.weight, wanted.selectivity
            if self.busy[row] or self._over[row] >= since:
                continue
            last = _last(feed)
            if feed.feed_id in allowed or back or last != self.table.last[row]:
                self.allowed[row] = allowed.get(feed.feed_id, -np.inf)
            self.table.window[row] = feed.window or ASSUMED_WINDOW
            self.table.last[row] = last

    def want(self, wants: Mapping[int, Want]) -> None:
        """What queries make of the feeds' weights, from now on."""
        self._wants = wants
        for feed, wanted in wants.items():
            row = self._row.get(feed)
            if row is not None:
                self.table.weight[row], self.table.selectivity[row] = wanted.weight, wanted.selectivity

    def drop(self, feed_ids: Iterable[int]) -> None:
        for feed in feed_ids:
            row = self._row.pop(feed, None)
            if row is not None:
                self.active[row] = False
                self.ids[row] = -1

    def _append(self, fresh: list[ScheduleRow], allowed: Mapping[int, float]) -> None:
        """Rows for feeds that have none, column by column: a start takes all of a store's."""
        start, more = len(self.ids), len(fresh)
        wants = [self._wants.get(feed.feed_id) or Want(feed.weight, 1.0) for feed in fresh] if self._wants else None
        table = Table.of(more, ASSUMED_WINDOW)
        table.weight[:] = [feed.weight for feed in fresh] if wants is None else [one.weight for one in wants]
        table.selectivity[:] = 1.0 if wants is None else [one.selectivity for one in wants]
        table.window[:] = [feed.window or ASSUMED_WINDOW for feed in fresh]
        table.last[:] = [_last(feed) for feed in fresh]
        ids = [feed.feed_id for feed in fresh]
        self.ids = np.concatenate([self.ids, np.array(ids, np.int64)])
        self.host = np.concatenate([self.host, np.array([self._host(feed.url) for feed in fresh], np.intp)])
        self.allowed = np.concatenate([self.allowed, np.array([allowed.get(feed, -np.inf) for feed in ids])])
        self.active = np.concatenate([self.active, np.array([_active(feed) for feed in fresh], bool)])
        self.busy = np.concatenate([self.busy, np.zeros(more, bool)])
        self.learned = np.concatenate([self.learned, np.full(more, -np.inf)])
        self._over = np.concatenate([self._over, np.full(more, -np.inf)])
        self.table = _joined(self.table, table)
        self._row |= {feed: start + k for k, feed in enumerate(ids)}

    def _host(self, url: str) -> int:
        index = self._hosts.setdefault(host_of(url), len(self._hosts))
        if index == len(self.host_until):
            room = np.full(max(2 * index, 64), -np.inf)
            room[:index] = self.host_until
            self.host_until = room
        return index


def _active(feed: ScheduleRow) -> bool:
    return not feed.paused and feed.gone_since is None


def _last(feed: ScheduleRow) -> float:
    return -np.inf if feed.last_success is None else feed.last_success


def _joined(one: Table, other: Table) -> Table:
    """Both tables, one below the other."""
    names = [name for name in Table.__slots__ if getattr(one, name) is not None]
    return Table(**{name: np.concatenate([getattr(one, name), getattr(other, name)]) for name in names})
