"""Feeds of readers get at most their share of the budget in any minute."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.schedule.group_share import GroupShare, limit_group

steps = st.lists(st.tuples(st.floats(0.0, 30.0), st.integers(0, 40)), max_size=60)


@given(st.floats(0.01, 1.0), st.integers(1, 200), steps)
def test_no_minute_has_more_than_the_share(share: float, cap: int, wishes: list[tuple[float, int]]) -> None:
    group, now, spent = GroupShare(share), 0.0, list[tuple[float, int]]()
    for pause, wished in wishes:
        now += pause
        number = min(wished, group.count_room(now, cap))
        group.spend(now, number)
        spent.append((now, number))
    for start, _ in spent:
        assert sum(number for at, number in spent if start <= at < start + 60) <= max(share * cap, 1)


@given(st.floats(0.01, 0.99), st.integers(1, 200), st.integers(0, 300))
def test_the_next_moment_has_room_and_none_before(share: float, cap: int, wished: int) -> None:
    group = GroupShare(share)
    group.spend(100.0, min(wished, group.count_room(100.0, cap)))
    moment = group.find_refill(130.0, cap)
    assert moment == 130.0 or group.count_room(moment - 0.001, cap) == 0
    assert group.count_room(moment, cap) > 0


def test_a_clock_set_back_does_not_hold_the_group() -> None:
    group = GroupShare(0.5)
    group.spend(1e9, 5)
    assert group.count_room(100.0, 10) == 5


@given(st.lists(st.booleans(), max_size=30), st.integers(0, 10))
def test_rows_keep_their_order_and_the_group_its_room(members: list[bool], room: int) -> None:
    is_in_group = np.array(members, bool)
    rows = np.arange(len(members))[::-1].astype(np.intp)
    kept = limit_group(rows, is_in_group, room)
    assert kept.tolist() == [row for row in rows if row in set(kept.tolist())]
    assert int(is_in_group[kept].sum()) == min(room, sum(members))
    assert (~is_in_group[kept]).sum() == (~is_in_group).sum()
