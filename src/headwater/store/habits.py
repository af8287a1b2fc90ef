"""What was learned of people by looking for their items, to begin the next time where they are found."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any, NamedTuple


class Step(NamedTuple):
    """About how many items are looked at: at least, and for each that is wanted."""

    least: int
    each: float

    def reach(self, wanted: int) -> int:
        return max(self.least, int(self.each * wanted) + 1)


DENSE, NEAR, WIDE, FAR = Step(0, 1.25), Step(250, 2), Step(600, 6), Step(2_000, 20)
REMEMBERED = 10_000  # people


class Habit(NamedTuple):
    """Of one person. `near`: no position was far back. `begin`: so far was to be looked for enough items."""

    near: bool = False
    begin: Step = DENSE


class Habits:
    """Of whoever was learned of last; only costs depend on it."""

    def __init__(self, most: int = REMEMBERED, steps: Sequence[Step] = (DENSE, NEAR, WIDE, FAR)) -> None:
        self._most = most
        self._steps = tuple(steps)
        self._of: dict[int, Habit] = {}  # who was learned of last comes last
        self._lock = Lock()  # SQLite's readers are threads

    def __len__(self) -> int:
        return len(self._of)

    @property
    def farthest(self) -> Step:
        return self._steps[-1]

    def of(self, user_id: int) -> Habit:
        return self._of.get(user_id, Habit())

    def learn(self, user_id: int, **news: Any) -> None:
        with self._lock:
            self._of[user_id] = self._of.pop(user_id, Habit())._replace(**news)
            if len(self._of) > self._most:
                del self._of[next(iter(self._of))]

    def enough(self, user_id: int, step: Step) -> None:
        """That enough was found by looking so far. What is farthest is looked at for lack of anything else."""
        if step in self._steps[1:-1]:
            self.learn(user_id, begin=step)

    def steps(self, user_id: int, dialect: str) -> Sequence[Step]:
        """How far to look, and how much farther if that was not far enough. SQLite stops as soon as it has enough."""
        every = self._steps[1:] if dialect == "sqlite" else self._steps
        begin = self.of(user_id).begin
        return every[every.index(begin) :] if begin in every else every
