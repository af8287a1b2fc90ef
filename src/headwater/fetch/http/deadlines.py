"""Deadlines of many requests under one timer: one for each would cost a tenth of the request.

What takes too long is ended as `asyncio.timeout` does it: its task is cancelled where it waits, and what comes out of
the block is TimeoutError, unless somebody else has cancelled the task too.
"""

from __future__ import annotations

import asyncio
import math
import time
from types import TracebackType
from typing import Any


class Deadlines:
    """Use `within` in tasks of one event loop, and `close` at the end."""

    def __init__(self) -> None:
        self._watched: set[_Deadline] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._next_check = math.inf  # when the timer looks for what is late

    def limit(self, seconds: float) -> _Deadline:
        """A block that may take so long."""
        return _Deadline(self, time.monotonic() + seconds)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._next_check = None, math.inf

    def start_watching(self, deadline: _Deadline) -> None:
        self._watched.add(deadline)
        if deadline.until < self._next_check:
            self._set_timer(deadline.until)

    def stop_watching(self, deadline: _Deadline) -> None:
        self._watched.discard(deadline)

    def _set_timer(self, moment: float) -> None:
        """Requests mostly begin in the order in which they must end, so the timer is rarely set anew."""
        self.close()
        self._next_check = moment
        self._timer = asyncio.get_running_loop().call_later(max(moment - time.monotonic(), 0.0), self._expire_late)

    def _expire_late(self) -> None:
        self._next_check, now = math.inf, time.monotonic()
        for deadline in self._watched:
            if deadline.until <= now:
                deadline.expire()
        left = [deadline.until for deadline in self._watched if deadline.until > now]
        if left:
            self._set_timer(min(left))


class _Deadline:
    __slots__ = ("_all", "_before", "_passed", "_task", "until")

    def __init__(self, every: Deadlines, until: float) -> None:
        self._all = every
        self.until = until
        self._passed = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("only a task can be ended")
        self._task: asyncio.Task[Any] = task
        self._before = task.cancelling()
        self._all.start_watching(self)

    def expire(self) -> None:
        if not self._passed:
            self._passed = True
            self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._all.stop_watching(self)
        if self._passed and self._task.uncancel() <= self._before and kind is asyncio.CancelledError:
            raise TimeoutError from error
