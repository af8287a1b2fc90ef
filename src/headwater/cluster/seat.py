"""Something that one process at a time does: it waits for the lease, works while it holds it, and lets go."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import structlog

from headwater.cluster.timing import awake
from headwater.errors import HeadwaterError
from headwater.node.saying import Saying
from headwater.store import leases
from headwater.store.leases import Lease
from headwater.store.store import Store

SOON = 0.02  # seconds after which a lease that has run out is asked for
GRACE = 2  # leases beyond its own after which who could not renew gives the seat up by itself

log = structlog.get_logger()

Work = Callable[[Lease, asyncio.Event], Awaitable[None]]


class Seat:
    """A lease that many want. `run` calls the work with the lease and an event that is set when it has to end."""

    def __init__(self, store: Store, name: str, holder: str, seconds: float) -> None:
        self._store = store
        self.name = name
        self._holder = holder
        self._seconds = seconds
        self.held: Lease | None = None
        self._valid = 0.0
        self._saying = Saying()

    @property
    def valid(self) -> bool:
        """Whether it is ours by our own clock, which began before the database's."""
        return self.held is not None and awake() < self._valid

    async def run(self, work: Work, stop: asyncio.Event) -> None:
        """Until `stop` is set. A failure of the work is logged; the seat is given up and taken again later."""
        while not stop.is_set():
            held = await self._take()
            if held is None:
                await pause(stop, await self._until_free())
                continue
            log.info("seat_taken", seat=self.name, epoch=held.epoch)
            await self._sit(held, work, stop)
            log.info("seat_left", seat=self.name, epoch=held.epoch)

    async def _take(self) -> Lease | None:
        asked = awake()
        try:
            self.held = await self._store.write(leases.take, self.name, self._holder, self._seconds)
        except HeadwaterError as error:
            if self._saying.worth(str(error)):
                log.warning("seat_not_asked_for", seat=self.name, error=str(error))
            return None
        self._saying.over()
        self._valid = asked + self._seconds
        return self.held

    async def _until_free(self) -> float:
        """Seconds until it is worth asking again: at the very moment when the lease ends, unless it is renewed."""
        most = self._seconds / 5
        try:
            return min(most, await self._store.read(leases.left, self.name) + SOON)
        except HeadwaterError:
            return most

    async def _sit(self, held: Lease, work: Work, stop: asyncio.Event) -> None:
        over = asyncio.Event()
        keeping = asyncio.create_task(self._keep(held, stop, over))
        try:
            await work(held, over)
        except Exception as error:
            log.error("seat_failed", seat=self.name, error=repr(error))
            await pause(stop, self._seconds / 5)
        finally:
            over.set()
            await asyncio.gather(keeping, return_exceptions=True)
            self.held = None
            with contextlib.suppress(HeadwaterError):
                await self._store.write(leases.release, held)

    async def _keep(self, held: Lease, stop: asyncio.Event, over: asyncio.Event) -> None:
        stopping = asyncio.create_task(stop.wait())
        stopping.add_done_callback(lambda _: over.set())
        try:
            while not over.is_set():
                await pause(over, self._seconds / 4)
                asked = awake()
                try:
                    kept = await asyncio.wait_for(
                        self._store.statement(leases.renew, held, self._seconds), self._seconds
                    )
                except (HeadwaterError, TimeoutError) as error:
                    log.warning("seat_not_renewed", seat=self.name, error=str(error))
                    # Not ours by our clock, but nobody may have wanted it: who is starved, or waits for a database
                    # that is slow, gets it back as it was. Meanwhile every write goes by the epoch.
                    if awake() > self._valid + GRACE * self._seconds:
                        over.set()
                    continue
                if kept is None:
                    log.warning("seat_lost", seat=self.name, epoch=held.epoch)
                    over.set()
                else:
                    self._valid = asked + self._seconds
        finally:
            stopping.cancel()


async def pause(event: asyncio.Event, seconds: float) -> None:
    """Wait, but not longer than until the event."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
