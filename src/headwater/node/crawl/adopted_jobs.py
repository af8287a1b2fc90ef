"""Tracks the jobs that the leader before us had in flight, so that a change of leaders never fetches too much.

A job leaves its transport only when its result is handed in, and a result only when it is stored. So everything in
flight when we take over is either a job that can be listed, or among the results that waited at that moment.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.node.crawl.transport import JobSender


class AdoptedJobs:
    """Looked through once when we take over, and again until none of them is left."""

    def __init__(self, sender: JobSender) -> None:
        self._sender = sender
        self._feeds: set[int] = set()  # whose jobs were in flight when we took over, and still are
        self._ended: set[int] = set()  # of these: the job is gone, its result may not be stored yet
        self._unstored_up_to: int | None = None  # the newest result that waited when we took over, until it is stored
        self._ended_by = 0

    async def adopt(self) -> frozenset[int]:
        """Return the feeds whose jobs are in flight."""
        self._feeds = await self._sender.list_in_flight()
        self._unstored_up_to = await self._sender.find_newest_result()
        return frozenset(self._feeds)

    def recheck(self, feeds: Iterable[int]) -> None:
        """Doubt the jobs of these feeds: the transport was made anew, and they may be lost."""
        self._feeds |= set(feeds)

    async def has_unstored_results(self) -> bool:
        """Whether results from before our time wait to be stored: until then nobody knows which feeds they are of."""
        if self._unstored_up_to is not None and await self._sender.is_stored_up_to(self._unstored_up_to):
            self._unstored_up_to = None
        return self._unstored_up_to is not None

    async def pop_ended(self) -> set[int]:
        """Return the feeds whose jobs are over and whose results, if any, are stored; each feed once."""
        if self._feeds:
            waiting = await self._sender.list_in_flight()
            gone = self._feeds - waiting
            if gone:
                self._feeds &= waiting
                self._ended |= gone
                self._ended_by = await self._sender.find_newest_result()
        if not self._ended or not await self._sender.is_stored_up_to(self._ended_by):
            return set()
        ended, self._ended = self._ended, set()
        return ended
