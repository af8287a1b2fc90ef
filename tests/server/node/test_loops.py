"""Loops wait instead of polling: they wake after a change of the database, at a due time, or when woken."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from headwater import loops
from headwater.loops import ChangeWatch, StepLoop, run_after_changes, run_every
from headwater.store.opening import open_store
from headwater.store.saved_state import save_state


async def stop_after(
    work: Callable[[asyncio.Event], object], seconds: float, holds: Callable[[], bool] = lambda: True
) -> None:
    """Run work for so many seconds, and longer on a busy machine: until the condition holds."""
    stop = asyncio.Event()
    running = asyncio.create_task(work(stop))  # type: ignore[arg-type]
    await asyncio.sleep(seconds)
    while not holds():  # noqa: ASYNC110  the work sets no event
        await asyncio.sleep(0.01)
    stop.set()
    await asyncio.wait_for(running, 60.0)


class Steps(StepLoop):
    def __init__(self, changes: ChangeWatch, due: float | None = None, work: int = 0) -> None:
        super().__init__("steps_failed", changes)
        self.due, self.work = due, work
        self.times: list[float] = []
        self.closed = False

    async def step(self) -> bool:
        self.times.append(time.time())
        self.work -= 1
        return self.work >= 0

    async def find_next_due(self) -> float | None:
        return self.due

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "LOOK_SECONDS", 0.01)


@pytest.fixture
def unchanged() -> ChangeWatch:
    return ChangeWatch(lambda: 1)


@pytest.mark.usefixtures("fast")
class TestStepLoop:
    async def test_steps_while_there_is_work_and_then_waits(self, unchanged: ChangeWatch) -> None:
        steps = Steps(unchanged, work=5)
        await stop_after(steps.run, 0.2, lambda: len(steps.times) >= 6)
        # the last step belongs to the stop or to the check at the start
        assert len(steps.times) in (6, 7)
        assert steps.closed

    async def test_waits_for_the_due_moment(self, unchanged: ChangeWatch) -> None:
        due = time.time() + 0.15
        steps = Steps(unchanged, due)
        await stop_after(steps.run, 0.5, lambda: len(steps.times) > 2)
        assert len([at for at in steps.times if at < due]) <= 2

    async def test_work_that_stays_due_is_not_tried_without_pause(self, unchanged: ChangeWatch) -> None:
        steps = Steps(unchanged, due=0.0)
        await stop_after(steps.run, 0.2, lambda: len(steps.times) > 2)
        assert all(later - earlier > 0.9 * loops.LOOK_SECONDS for earlier, later in pairwise(steps.times[:-1]))

    async def test_wakes_after_a_change(self) -> None:
        marks = [1]
        steps = Steps(ChangeWatch(lambda: marks[0]))
        running = asyncio.create_task(stop_after(steps.run, 1.0, lambda: len(steps.times) > before))
        await asyncio.sleep(0.3)
        before = len(steps.times)
        marks[0] = 2
        await running
        assert len(steps.times) == before + 1

    async def test_looks_each_time_where_changes_cannot_be_told(self) -> None:
        steps = Steps(ChangeWatch())
        await stop_after(steps.run, 0.0, lambda: len(steps.times) > 2)

    async def test_a_failed_step_is_tried_again(self, unchanged: ChangeWatch, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(loops, "RETRY_SECONDS", 0.05)

        class Failing(Steps):
            async def step(self) -> bool:
                await super().step()
                raise RuntimeError("the disk is full")

        steps = Failing(unchanged)
        await stop_after(steps.run, 0.3, lambda: len(steps.times) > 2)
        assert all(later - earlier > 0.04 for earlier, later in pairwise(steps.times[:-1]))


@pytest.mark.usefixtures("fast")
async def test_work_after_changes_rests_without_any(unchanged: ChangeWatch) -> None:
    calls: list[float] = []

    async def work() -> None:
        calls.append(time.time())

    await stop_after(lambda stop: run_after_changes(unchanged, work, stop), 0.2)
    assert len(calls) in (1, 2)


@pytest.mark.usefixtures("fast")
async def test_work_after_changes_pauses_in_between() -> None:
    calls: list[float] = []

    async def work() -> None:
        calls.append(time.time())

    await stop_after(lambda stop: run_after_changes(ChangeWatch(), work, stop, 0.1), 0.35, lambda: len(calls) >= 3)
    assert all(later - earlier > 0.09 for earlier, later in pairwise(calls[:-1]))


async def test_no_timer_is_left_when_nobody_follows() -> None:
    looks = 0

    def read_mark() -> int:
        nonlocal looks
        looks += 1
        return 1

    watch = ChangeWatch(read_mark)
    with watch.waking(asyncio.Event()), watch.waking(asyncio.Event()):
        assert looks == 1  # one check for all
    assert watch._timer is None


async def test_run_every_waits_first() -> None:
    calls: list[float] = []

    async def work() -> None:
        calls.append(time.time())

    await stop_after(lambda stop: run_every(math.inf, work, stop), 0.05)
    assert not calls


async def test_the_mark_of_sqlite_changes_with_every_commit_and_only_then(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    async with await open_store(url) as store, await open_store(url) as other:
        read_mark = store._database.read_change_mark
        seen = [read_mark()]
        for number in range(300):  # many within one tick of the file system's clock
            await (store, other)[number % 2].write(save_state, "mark", 1, b"%d" % number, float(number))
            seen.append(read_mark())
        assert all(mark is not None for mark in seen)
        assert all(one != later for one, later in pairwise(seen))
        await store.write(lambda connection: None)
        assert read_mark() == seen[-1]
