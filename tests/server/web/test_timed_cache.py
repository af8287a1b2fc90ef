"""The timed cache computes a value once for concurrent callers and keeps it for a minute."""

from __future__ import annotations

import asyncio

import pytest

from headwater.web import site
from headwater.web.site import TimedCache


async def test_requests_at_once_share_one_gathering_and_a_failure_is_not_cached() -> None:
    answers, gathered = TimedCache(), 0

    async def gather() -> int:
        nonlocal gathered
        gathered += 1
        await asyncio.sleep(0.01)
        if gathered == 1:
            raise ValueError
        return gathered

    first = await asyncio.gather(*(answers.get_or_gather("page", 1, gather) for _ in range(5)), return_exceptions=True)
    assert [type(one) for one in first] == [ValueError] * 5
    assert await asyncio.gather(*(answers.get_or_gather("page", 1, gather) for _ in range(5))) == [2] * 5
    assert await answers.get_or_gather("page", 1, gather) == 2
    assert await answers.get_or_gather("page", 2, gather) == 3
    assert await answers.get_or_gather("other", 1, gather) == 4


async def test_who_goes_away_does_not_take_it_from_the_others() -> None:
    answers, go = TimedCache(), asyncio.Event()

    async def gather() -> str:
        await go.wait()
        return "there"

    impatient, patient = (asyncio.create_task(answers.get_or_gather("page", 1, gather)) for _ in range(2))
    await asyncio.sleep(0)
    impatient.cancel()
    go.set()
    assert await patient == "there"


async def test_a_value_is_gathered_anew_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "CACHE_SECONDS", 0.0)
    cache, gathered = TimedCache(), iter(range(9))

    async def gather() -> int:
        return next(gathered)

    assert [await cache.get_or_gather("page", 1, gather) for _ in range(3)] == [0, 1, 2]


async def test_the_oldest_values_make_room_for_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "MAX_CACHED_VALUES", 2)
    cache, gathered = TimedCache(), iter(range(9))

    async def gather() -> int:
        return next(gathered)

    assert [await cache.get_or_gather("page", user, gather) for user in (1, 2, 3, 3, 1)] == [0, 1, 2, 2, 3]
