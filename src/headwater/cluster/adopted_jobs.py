"""What the leader before us had in flight: it is counted as ours, so that leaders may change as often as they like
without one more feed being fetched than there is room for.

A job is gone from its buffer only when its result is in the next one, and a result only when it is stored. So whatever
was on its way when we took over is either a job that can be named, or among the results that waited at that moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class InFlightSource(Protocol):
    """What carries jobs and results can be looked into."""

    async def list_in_flight(self) -> set[int]:
        """Feeds that have a job which nobody has finished."""
        ...

    async def find_newest_result(self) -> int:
        """The number of the newest result that was handed in."""
        ...

    async def is_stored_up_to(self, number: int) -> bool:
        """Whether all results up to that number are stored."""
        ...


class AdoptedJobs:
    """Looked through once when we take over, and again until nothing of it is left."""

    def __init__(self, buffers: InFlightSource) -> None:
        self._source = buffers
        self._feeds: set[int] = set()  # with jobs that were on their way when we took over, and still are
        self._ended: set[int] = set()  # of these: the job is gone, what came of it may not be stored yet
        self._unstored_up_to: int | None = None  # the newest result that waited when we took over, until it is stored
        self._ended_by = 0

    async def adopt(self) -> frozenset[int]:
        """The feeds whose jobs are on their way."""
        self._feeds = await self._source.list_in_flight()
        self._unstored_up_to = await self._source.find_newest_result()
        return frozenset(self._feeds)

    def recheck(self, feeds: Iterable[int]) -> None:
        """Nobody knows whether the jobs of these are still there: a stream has been made anew."""
        self._feeds |= set(feeds)

    async def has_unstored_results(self) -> bool:
        """Whether results of before us are still to be stored: until then nobody knows which feeds they are of."""
        if self._unstored_up_to is not None and await self._source.is_stored_up_to(self._unstored_up_to):
            self._unstored_up_to = None
        return self._unstored_up_to is not None

    async def pop_ended(self) -> set[int]:
        """Feeds, each told once, whose jobs are over, and what came of them, if anything, is stored."""
        if self._feeds:
            there = await self._source.list_in_flight()
            gone = self._feeds - there
            if gone:
                self._feeds &= there
                self._ended |= gone
                self._ended_by = await self._source.find_newest_result()
        if not self._ended or not await self._source.is_stored_up_to(self._ended_by):
            return set()
        ended, self._ended = self._ended, set()
        return ended
