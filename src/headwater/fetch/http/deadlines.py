"""Ends many requests at their deadlines with one timer; a timer for each would cost a tenth of a request.

A late block ends as with `asyncio.timeout`: its task is cancelled, and the block raises TimeoutError unless the task
was cancelled for another reason as well.
"""

from __future__ import annotations

import asyncio
import math
import time
from types import TracebackType
from typing import Any


class Deadlines:
    """Limits blocks of code in the tasks of one event loop. Call `close` at the end."""

    def __init__(self) -> None:
        self._watched: set[_Deadline] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._next_check = math.inf  # when the timer fires

    def limit(self, seconds: float) -> _Deadline:
        """Return a context manager that raises TimeoutError after `seconds`."""
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
        """Move the timer. Rare, because requests mostly start in the order of their deadlines."""
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
            raise RuntimeError("a deadline needs a running task")
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
