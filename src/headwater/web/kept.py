"""What takes long to gather and may be a little old: gathered once for each person, however many ask, and kept a while.

It is kept a hundred times as long as it took, so that gathering takes a hundredth of the time at most, and what is
quickly gathered is always new.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

PEOPLE = 1000  # whose answers are kept
TIMES = 100.0
QUICK = 0.2  # seconds
LONGEST = 600.0  # seconds


class TimedCache:
    """Answers by what they are, and for whom."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, int], asyncio.Future[tuple[float, Any]]] = {}

    async def get_or_gather(self, what: str, user_id: int, gather: Callable[[], Awaitable[Any]]) -> Any:
        """What was gathered lately, or is just being gathered for another request, or anew."""
        key = (what, user_id)
        answer = self._answers.get(key)
        if answer is None or _is_expired(answer):
            self._answers.pop(key, None)
            while len(self._answers) >= PEOPLE:
                del self._answers[next(iter(self._answers))]
            answer = self._answers[key] = asyncio.ensure_future(_measure(gather))
        return (await asyncio.shield(answer))[1]


async def _measure(gather: Callable[[], Awaitable[Any]]) -> tuple[float, Any]:
    start = time.monotonic()
    answer = await gather()
    end = time.monotonic()
    took = end - start
    return end + (0.0 if took < QUICK else min(TIMES * took, LONGEST)), answer


def _is_expired(answer: asyncio.Future[tuple[float, Any]]) -> bool:
    if not answer.done():
        return False
    return answer.cancelled() or answer.exception() is not None or answer.result()[0] <= time.monotonic()
