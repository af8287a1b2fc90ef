"""Runs work step by step or every few seconds: wakes it, retries it, and logs a repeated failure once a minute."""

from __future__ import annotations

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

REST_SECONDS = 5.0  # between two polls of a database that nobody writes to
STEP_SECONDS = 1.0  # between two steps that nobody asked for: another process may have left something to do
REPEAT_SECONDS = 60.0  # after which a failure that goes on is logged again
_BOOTED: int | None = getattr(time, "CLOCK_BOOTTIME", None)

log = structlog.get_logger()


def boot_clock() -> float:
    """Return the seconds since the machine booted: a clock that nobody sets and that runs while the machine sleeps."""
    return time.monotonic() if _BOOTED is None else time.clock_gettime(_BOOTED)


async def pause(event: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set, at most so many seconds."""
    with contextlib.suppress(TimeoutError):
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


class ChangeGate:
    """Tells whether polling a database is worth it: something was written since the last poll, or that was long ago.

    `read_mark` returns a value that changes with every write, or None where there is none to be had cheaply.

    >>> marks = iter([1, 1, 2])
    >>> gate = ChangeGate(lambda: next(marks))
    >>> [gate.is_open(), gate.is_open(), gate.is_open()]
    [True, False, True]
    """

    def __init__(self, read_mark: Callable[[], object | None] = lambda: None) -> None:
        self._read_mark = read_mark
        self._mark: object | None = None
        self._opened_at = 0.0

    def is_open(self) -> bool:
        """Whether to poll now; whoever asks does so if it is."""
        mark, now = self._read_mark(), time.monotonic()
        if mark is not None and mark == self._mark and now < self._opened_at + REST_SECONDS:
            return False
        self._mark, self._opened_at = mark, now
        return True

    def reset(self) -> None:
        """Open the gate for the next poll."""
        self._mark = None


async def run_every(
    seconds: float, work: Callable[[], Coroutine[Any, Any, None]], stop: asyncio.Event, gate: ChangeGate | None = None
) -> None:
    """Do some work every few seconds until `stop` is set; a failure is logged, and tried again next time.

    With a `gate`, work that only follows the database rests while nobody writes.
    """
    repeats = RepeatFilter()
    while not stop.is_set():
        await pause(stop, seconds)
        if stop.is_set():
            return
        if gate is not None and not gate.is_open():
            continue
        try:
            await work()
            repeats.reset()
        except Exception as error:
            if repeats.is_news(str(error)):
                log.error("upkeep_failed", work=work.__name__, error=str(error))


class StepLoop(ABC):
    """Work that is done step by step: at once while there is any, else when woken, and once a second.

    `failure_event` names the log event of a failed step. With `read_mark` (`Store.change_mark`) the loop rests while
    nobody writes to the database.
    """

    def __init__(self, failure_event: str, read_mark: Callable[[], object | None] = lambda: None) -> None:
        self._failure_event = failure_event
        self._gate = ChangeGate(read_mark)
        self._woken = asyncio.Event()

    @abstractmethod
    async def step(self) -> bool:
        """Do what is due now; return whether there was anything."""

    def wake(self) -> None:
        """Step now: there is something to do."""
        self._woken.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Step until `stop` is set. A failed step is logged and tried again: it never ends the loop."""
        stopping = asyncio.create_task(self._wake_on_stop(stop))
        try:
            busy = False
            while not stop.is_set():
                if self._gate.is_open() or busy or self._woken.is_set():
                    self._woken.clear()
                    try:
                        busy = await self.step()
                    except Exception as error:
                        log.error(self._failure_event, error=repr(error))
                        busy = False
                if not busy and not stop.is_set():
                    await pause(self._woken, STEP_SECONDS)
        finally:
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)
            await self.close()

    async def close(self) -> None:  # noqa: B027  most have nothing to let go of
        """Release what the steps used; called once, at the end."""

    async def _wake_on_stop(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._woken.set()
