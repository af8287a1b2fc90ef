"""What goes wrong again and again is said when it begins and once a minute, not each time."""

from __future__ import annotations

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

import structlog

STEP_SECONDS = 1.0  # seconds between two looks that nobody asked for: another process may have left something to do

log = structlog.get_logger()


class StepLoop(ABC):
    """Somebody with such work. `failed` is the event by which a failure is logged."""

    def __init__(self, failed: str) -> None:
        self._failure_event = failed
        self._woken = asyncio.Event()

    @abstractmethod
    async def step(self) -> bool:
        """Do what is due now; False where nothing was."""

    def wake(self) -> None:
        """There is something to do: look now."""
        self._woken.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Until it is stopped. A failure, of the store perhaps, is logged and tried again: it never ends the loop."""
        stopping = asyncio.create_task(self._wake_on_stop(stop))
        try:
            while not stop.is_set():
                self._woken.clear()
                try:
                    busy = await self.step()
                except Exception as error:
                    log.error(self._failure_event, error=repr(error))
                    busy = False
                if not busy and not stop.is_set():
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._woken.wait(), STEP_SECONDS)
        finally:
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)
            await self.close()

    async def close(self) -> None:  # noqa: B027  most have nothing to let go of
        """Let go of what the steps have used; called once, at the end."""

    async def _wake_on_stop(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._woken.set()


REPEAT_SECONDS = 60.0


class RepeatFilter:
    """Remembers what was said last.

    >>> repeats = RepeatFilter(clock=iter([0.0, 1.0, 2.0, 63.0]).__next__)
    >>> [repeats.is_news(what) for what in ("the disk is full", "the disk is full", "no connection", "no connection")]
    [True, False, True, True]
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_message: str | None = None
        self._last_time = 0.0

    def is_news(self, what: str) -> bool:
        """Whether it is news, or was said long ago."""
        now = self._clock()
        if what == self._last_message and now < self._last_time + REPEAT_SECONDS:
            return False
        self._last_message, self._last_time = what, now
        return True

    def reset(self) -> None:
        """All is well again: the next time is news."""
        self._last_message = None
