"""What is learned of people by looking for their items: it steers where the next look begins, and does not grow."""

from __future__ import annotations

from headwater.store.readers.habits import DENSE, FAR, NEAR, WIDE, ReaderHabits


def test_a_look_begins_where_enough_was_found_the_last_time() -> None:
    habits = ReaderHabits()
    assert habits.list_steps(1, "postgresql") == (DENSE, NEAR, WIDE, FAR)
    assert habits.list_steps(1, "sqlite") == (NEAR, WIDE, FAR)
    for step, begin in ((DENSE, DENSE), (NEAR, NEAR), (WIDE, WIDE), (FAR, WIDE)):
        habits.record_enough(1, step)
        assert habits.list_steps(1, "postgresql")[0] == begin
    assert habits.list_steps(1, "sqlite") == (WIDE, FAR)
    assert habits.list_steps(2, "postgresql")[0] == DENSE


def test_whether_positions_are_near_and_where_to_begin_are_learned_apart() -> None:
    habits = ReaderHabits()
    habits.learn_habit(1, near=True)
    habits.record_enough(1, NEAR)
    assert habits.find_habit(1) == (True, NEAR)
    habits.learn_habit(1, near=False)
    assert habits.find_habit(1) == (False, NEAR)


def test_who_was_learned_of_longest_ago_is_forgotten_where_there_are_too_many() -> None:
    habits = ReaderHabits(most=3)
    for user in (1, 2, 3, 1, 4):
        habits.record_enough(user, WIDE)
    assert len(habits) == 3
    assert [habits.find_habit(user).begin for user in (1, 2, 3, 4)] == [WIDE, DENSE, WIDE, WIDE]
