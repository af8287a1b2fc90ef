"""What was learned of people by looking for their items, to begin the next time where they are found."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any, NamedTuple


class LookStep(NamedTuple):
    """About how many items are looked at: at least, and for each that is wanted."""

    least: int
    each: float

    def reach(self, wanted: int) -> int:
        return max(self.least, int(self.each * wanted) + 1)


DENSE, NEAR, WIDE, FAR = LookStep(0, 1.25), LookStep(250, 2), LookStep(600, 6), LookStep(2_000, 20)
REMEMBERED = 10_000  # people


class ReaderHabit(NamedTuple):
    """Of one person. `near`: no position was far back. `begin`: so far was to be looked for enough items."""

    near: bool = False
    begin: LookStep = DENSE


class ReaderHabits:
    """Of whoever was learned of last; only costs depend on it."""

    def __init__(self, most: int = REMEMBERED, steps: Sequence[LookStep] = (DENSE, NEAR, WIDE, FAR)) -> None:
        self._most = most
        self._steps = tuple(steps)
        self._habits: dict[int, ReaderHabit] = {}  # who was learned of last comes last
        self._lock = Lock()  # SQLite's readers are threads

    def __len__(self) -> int:
        return len(self._habits)

    @property
    def farthest(self) -> LookStep:
        return self._steps[-1]

    def find_habit(self, user_id: int) -> ReaderHabit:
        return self._habits.get(user_id, ReaderHabit())

    def learn_habit(self, user_id: int, **news: Any) -> None:
        with self._lock:
            self._habits[user_id] = self._habits.pop(user_id, ReaderHabit())._replace(**news)
            if len(self._habits) > self._most:
                del self._habits[next(iter(self._habits))]

    def record_enough(self, user_id: int, step: LookStep) -> None:
        """That enough was found by looking so far. What is farthest is looked at for lack of anything else."""
        if step in self._steps[1:-1]:
            self.learn_habit(user_id, begin=step)

    def list_steps(self, user_id: int, dialect: str) -> Sequence[LookStep]:
        """How far to look, and how much farther if that was not far enough. SQLite stops as soon as it has enough."""
        every = self._steps[1:] if dialect == "sqlite" else self._steps
        begin = self.find_habit(user_id).begin
        return every[every.index(begin) :] if begin in every else every
