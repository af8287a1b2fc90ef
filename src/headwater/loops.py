"""Runs work step by step or every few seconds: wakes it, retries it, and logs a repeated failure once a minute."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import structlog

LOOK_SECONDS = 1.0  # between two looks whether somebody has written to the database
RETRY_SECONDS = 5.0  # until failed work is tried again, unless something is written before
CLOCK_SECONDS = 10.0  # between two looks at the clock while waiting for a moment: it may be set
REPEAT_SECONDS = 60.0  # after which a failure that goes on is logged again
_BOOTED: int | None = getattr(time, "CLOCK_BOOTTIME", None)

log = structlog.get_logger()


def boot_clock() -> float:
    """Return the seconds since the machine booted: a clock that nobody sets and that runs while the machine sleeps."""
    return time.monotonic() if _BOOTED is None else time.clock_gettime(_BOOTED)


async def pause(event: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set, at most so many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class RepeatFilter:
    """Tells a new failure from one that was reported within the last minute.

    >>> repeats = RepeatFilter(clock=iter([0.0, 1.0, 2.0, 63.0]).__next__)
    >>> [repeats.is_news(what) for what in ("the disk is full", "the disk is full", "no connection", "no connection")]
    [True, False, True, True]
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_message: str | None = None
        self._last_time = 0.0

    def is_news(self, message: str) -> bool:
        """Whether the message differs from the last one, or was reported more than a minute ago."""
        now = self._clock()
        if message == self._last_message and now < self._last_time + REPEAT_SECONDS:
            return False
        self._last_message, self._last_time = message, now
        return True

    def reset(self) -> None:
        """Note a success: the next failure is news."""
        self._last_message = None


@asynccontextmanager
async def set_with(stop: asyncio.Event, event: asyncio.Event) -> AsyncIterator[None]:
    """Set the event when `stop` is set, so that one wait sees both."""

    async def follow() -> None:
        await stop.wait()
        event.set()

    following = asyncio.create_task(follow())
    try:
        yield
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


class ChangeWatch:
    """Looks once a second whether somebody has written to the database, and wakes everybody who follows it.

    `read_mark` returns a value that changes with every write, or None where that cannot be told cheaply: then every
    look wakes. One timer serves all followers, and an idle server does nothing else.
    """

    def __init__(self, read_mark: Callable[[], object | None] = lambda: None) -> None:
        self._read_mark = read_mark
        self._mark: object | None = None
        self._followers: set[asyncio.Event] = set()
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def waking(self, event: asyncio.Event) -> Iterator[None]:
        """Set the event after every change until the block ends."""
        self._followers.add(event)
        if self._timer is None:
            self._look()
        try:
            yield
        finally:
            self._followers.discard(event)
            if not self._followers and self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _look(self) -> None:
        mark = self._read_mark()  # before anybody reads: a later write is noticed by the next look
        if mark is None or mark != self._mark:
            self._mark = mark
            for event in self._followers:
                event.set()
        self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)


Work = Callable[[], Coroutine[Any, Any, None]]


async def run_every(seconds: float, work: Work, stop: asyncio.Event) -> None:
    """Do some work every few seconds until `stop` is set; a failure is logged, and tried again next time."""
    repeats = RepeatFilter()
    while not stop.is_set():
        await pause(stop, seconds)
        if not stop.is_set():
            await _try_work(work, repeats)


async def run_after_changes(changes: ChangeWatch, work: Work, stop: asyncio.Event, pause_seconds: float = 0.0) -> None:
    """Do some work now and after every change of the database, with a pause in between, until `stop` is set."""
    repeats, woken = RepeatFilter(), asyncio.Event()
    async with set_with(stop, woken):
        with changes.waking(woken):
            while not stop.is_set():
                woken.clear()
                if await _try_work(work, repeats):
                    await woken.wait()
                else:
                    await pause(woken, RETRY_SECONDS)
                await pause(stop, pause_seconds)


async def _try_work(work: Work, repeats: RepeatFilter) -> bool:
    try:
        await work()
    except Exception as error:
        if repeats.is_news(str(error)):
            log.error("upkeep_failed", work=work.__name__, error=str(error))
        return False
    repeats.reset()
    return True


class StepLoop(ABC):
    """Work that is done step by step: at once while there is any, else when woken, after a change of the database
    (`changes`), or at the moment that `find_next_due` returns.

    `failure_event` names the log event of a failed step.
    """

    def __init__(self, failure_event: str, changes: ChangeWatch, *, clock: Callable[[], float] = time.time) -> None:
        self._failure_event = failure_event
        self._changes = changes
        self._clock = clock
        self._woken = asyncio.Event()

    @abstractmethod
    async def step(self) -> bool:
        """Do the work that is due now; return whether there was any."""

    @abstractmethod
    async def find_next_due(self) -> float | None:
        """Return when work is due even if nobody writes to the database meanwhile; None if never."""

    def wake(self) -> None:
        """Step now: there is something to do."""
        self._woken.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Step until `stop` is set. A failed step is logged and tried again: it never ends the loop."""
        try:
            async with set_with(stop, self._woken):
                with self._changes.waking(self._woken):
                    while not stop.is_set():
                        self._woken.clear()
                        try:
                            if await self.step():
                                continue
                            due = await self.find_next_due()
                        except Exception as error:
                            log.error(self._failure_event, error=repr(error))
                            due = self._clock() + RETRY_SECONDS
                        await self._wait_until(due)
        finally:
            await self.close()

    async def _wait_until(self, due: float | None) -> None:
        if due is None:
            await self._woken.wait()
            return
        due = max(due, self._clock() + LOOK_SECONDS)  # work that stays due must not keep us busy
        while not self._woken.is_set() and (left := due - self._clock()) > 0:
            await pause(self._woken, min(left, CLOCK_SECONDS))

    async def close(self) -> None:  # noqa: B027  most have nothing to let go of
        """Release the resources of the steps; called once, at the end."""
