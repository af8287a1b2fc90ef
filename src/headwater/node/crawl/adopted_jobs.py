"""Tracks the jobs that a previous leader had in flight, so that a change of leaders never fetches too much.

A job leaves its transport when its result is handed in, and a result when it is stored. So everything in flight at a
takeover is either a job that can be listed, or among the results that waited to be stored.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.node.crawl.transport import JobSender


class AdoptedJobs:
    """The jobs of a previous leader: listed once at the takeover, and checked until none of them is left."""

    def __init__(self, sender: JobSender) -> None:
        self._sender = sender
        self._feeds: set[int] = set()  # their jobs were in flight at the takeover, and still are
        self._ended: set[int] = set()  # their jobs have ended; the results may not be stored yet
        self._unstored_up_to: int | None = None  # the newest result at the takeover, until it is stored
        self._ended_by = 0

    async def adopt(self) -> frozenset[int]:
        """Return the feeds whose jobs are in flight."""
        self._feeds = await self._sender.list_in_flight()
        self._unstored_up_to = await self._sender.find_newest_result()
        return frozenset(self._feeds)

    def recheck(self, feeds: Iterable[int]) -> None:
        """Check the jobs of these feeds too: the transport was made anew, and they may be lost."""
        self._feeds |= set(feeds)

    async def has_unstored_results(self) -> bool:
        """Whether results from before the takeover wait to be stored; their feeds are unknown until then."""
        if self._unstored_up_to is not None and await self._sender.is_stored_up_to(self._unstored_up_to):
            self._unstored_up_to = None
        return self._unstored_up_to is not None

    async def pop_ended(self) -> set[int]:
        """Return the feeds whose jobs have ended and whose results, if any, are stored; each feed once."""
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
