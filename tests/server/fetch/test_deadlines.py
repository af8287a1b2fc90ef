"""Many deadlines share one timer: each block ends in time and disturbs no other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from headwater.fetch.http.guarded_session import Deadlines


@pytest.fixture
def deadlines() -> Iterator[Deadlines]:
    made = Deadlines()
    yield made
    made.close()


async def lasting(deadlines: Deadlines, seconds: float, within: float) -> float:
    """Return the seconds until the block was cancelled; 0 if it was not."""
    begin = time.monotonic()
    try:
        with deadlines.limit(within):
            await asyncio.sleep(seconds)
    except TimeoutError:
        return time.monotonic() - begin
    return 0.0


async def test_each_block_ends_at_its_own_deadline_in_whatever_order_they_began(deadlines: Deadlines) -> None:
    limits = [0.3, 0.1, 0.2, 0.15, 0.1]
    took = await asyncio.gather(*(lasting(deadlines, 30, limit) for limit in limits))
    for limit, real in zip(limits, took, strict=True):
        assert limit <= real < 20  # the delay depends on the load; without a deadline, a block lasts 30


async def test_what_ends_in_time_is_left_alone(deadlines: Deadlines) -> None:
    took = await asyncio.gather(lasting(deadlines, 0.0, 0.1), lasting(deadlines, 30, 0.1), lasting(deadlines, 0.3, 30))
    assert [bool(each) for each in took] == [False, True, False]


async def test_a_task_goes_on_after_a_deadline_and_meets_the_next(deadlines: Deadlines) -> None:
    for _ in range(3):
        assert await lasting(deadlines, 30, 0.02) > 0
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()
    assert await lasting(deadlines, 0.05, 30) == 0


async def test_who_is_cancelled_by_others_is_cancelled(deadlines: Deadlines) -> None:
    task = asyncio.create_task(lasting(deadlines, 30, 30))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_counts_also_where_the_deadline_passes_at_the_same_moment(deadlines: Deadlines) -> None:
    task = asyncio.create_task(lasting(deadlines, 30, 0.01))
    await asyncio.sleep(0)
    time.sleep(0.05)  # noqa: ASYNC251  # the timer is late, and finds a task that somebody else cancels too
    asyncio.get_running_loop().call_soon(task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_timeout_around_the_block_is_not_taken_for_the_block_s_own(deadlines: Deadlines) -> None:
    async def impatient() -> None:
        async with asyncio.timeout(0.05):
            await lasting(deadlines, 30, 30)

    with pytest.raises(TimeoutError):
        await impatient()


async def test_a_thousand_blocks_need_one_timer(deadlines: Deadlines, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    timers = []
    set_timer = loop.call_later
    monkeypatch.setattr(loop, "call_later", lambda *given: timers.append(given) or set_timer(*given))
    for _ in range(1000):
        with deadlines.limit(30):
            pass
    assert len(timers) == 1


async def test_other_errors_come_through(deadlines: Deadlines) -> None:
    with pytest.raises(ValueError, match="x"), deadlines.limit(30):
        raise ValueError("x")
