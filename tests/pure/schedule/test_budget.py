"""The request budget never exceeds its cap in any minute."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import SettingsError
from headwater.schedule.budget import BudgetRecord, RequestBudget, RequestCap, split_requests

steps = st.lists(st.tuples(st.floats(0, 90), st.integers(0, 500), st.floats(0, 2000)), max_size=60)


@given(st.floats(0.05, 300), steps)
def test_no_window_of_a_minute_ever_exceeds_the_cap(cap: float, calls: list[tuple[float, int, float]]) -> None:
    budget, now, spent = RequestBudget(RequestCap(cap)), 1e9, []
    for wait, wanted, _ in calls:
        now += wait
        taken = min(wanted, budget.available(now))
        budget.spend(now, taken)
        spent.append((now, taken))
    span = max(60.0, 60.0 / cap)
    for end, _ in spent:
        assert sum(n for at, n in spent if end - span < at <= end) <= max(cap, 1)


@given(st.floats(1000, 5000), steps)
def test_reserved_bytes_never_exceed_their_cap(cap: float, calls: list[tuple[float, int, float]]) -> None:
    budget, now, spent = RequestBudget(RequestCap(300, bytes=cap)), 0.0, []
    for wait, wanted, size in calls:
        now += wait
        taken = min(wanted, budget.available(now, size))
        budget.spend(now, taken, taken * size)
        spent.append((now, taken * size))
    for end, _ in spent:
        assert sum(n for at, n in spent if end - 60 < at <= end) <= cap * (1 + 1e-9)


@given(st.floats(0.5, 300), st.floats(0, 1))
def test_greedy_caller_gets_the_whole_cap_in_the_long_run(cap: float, phase: float) -> None:
    budget, total = RequestBudget(RequestCap(cap)), 0
    for tick in range(1200):
        taken = budget.available(phase + tick)
        budget.spend(phase + tick, taken)
        total += taken
    assert total >= int(budget.rate * 1200) - 1


def test_more_bytes_than_reserved_are_owed_and_fewer_are_given_back() -> None:
    budget = RequestBudget(RequestCap(60, bytes=1000))
    budget.begin_refresh(0.0, 900.0)
    assert budget.available(1.0, 200.0) == 0
    budget.end_refresh(1.0, 900.0, 100.0)
    assert budget.available(1.0, 200.0) == 4
    budget.begin_refresh(2.0, 100.0)
    budget.end_refresh(3.0, 100.0, 5000.0)
    assert budget.available(30.0, 100.0) == 0
    assert budget.next_refill(30.0) == 63.0
    assert budget.available(63.5, 100.0) > 0


@given(st.integers(1, 40), st.lists(st.tuples(st.floats(0, 20), st.floats(0, 100), st.floats(0, 1)), max_size=120))
def test_no_minute_exceeds_the_cap_wherever_within_its_refresh_a_request_leaves(
    cap: int, refreshes: list[tuple[float, float, float]]
) -> None:
    budget, now, left, ends = RequestBudget(RequestCap(cap), burst=60), 0.0, [], []
    for wait, lasts, moment in refreshes:
        now += wait
        for end in sorted(end for end in ends if end <= now):
            budget.end_refresh(end, 0.0, 0.0)
            ends.remove(end)
        if budget.available(now):
            budget.begin_refresh(now)
            ends.append(now + lasts)
            left.append(now + moment * lasts)
    for last in left:
        assert sum(last - 60 < at <= last for at in left) <= cap


def test_a_smaller_cap_counts_what_the_larger_one_spent() -> None:
    budget = RequestBudget(RequestCap(60), burst=60)
    budget.spend(0.0, 40)
    budget.set_cap(RequestCap(30))
    assert budget.available(30.0) == 0
    assert 0 < budget.available(61.0) <= 30
    budget.set_cap(RequestCap(120))
    assert budget.rate == 2.0


def test_clock_set_back_frees_nothing() -> None:
    budget = RequestBudget(RequestCap(6), burst=60)
    budget.spend(100.0, 6)
    assert budget.available(20.0) == 0
    assert budget.available(130.0) == 0


def test_next_refill_is_when_a_refresh_is_available() -> None:
    budget = RequestBudget(RequestCap(12))
    budget.spend(0.0, budget.available(0.0))
    at = budget.next_refill(0.1)
    assert budget.available(at - 0.01) == 0
    assert budget.available(at + 0.01) == 1


def test_manual_refreshes_come_first_then_first_refreshes_then_the_strategy() -> None:
    assert split_requests(10, 2, 3) == (2, 3, 5)
    assert split_requests(4, 6, 3) == (4, 0, 0)
    assert split_requests(0, 6, 3) == (0, 0, 0)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_budget_of_zero_is_refused_with_a_message(bad: float) -> None:
    with pytest.raises(SettingsError, match="give a number above 0"):
        RequestCap(bad)
    with pytest.raises(SettingsError, match="bytes"):
        RequestCap(1, bad)


takeovers = st.lists(
    st.tuples(
        st.floats(0, 15),  # seconds until the next event
        st.booleans(),  # whether the leader changes then
        st.floats(0, 20),  # seconds until the record of a change is read
        st.floats(0, 40),  # seconds that the request takes
        st.floats(0, 1),  # where within them it arrives
        st.booleans(),  # whether the leader learns of its end
    ),
    max_size=120,
)


@given(st.integers(1, 40), takeovers)
def test_no_minute_exceeds_the_cap_however_often_the_leader_changes(
    cap: int, events: list[tuple[float, bool, float, float, float, bool]]
) -> None:
    """A record precedes each request, a request arrives within 40 s, and a new leader knows only the record."""
    longest = 40.0
    budget, now, record, saved = RequestBudget(RequestCap(cap), burst=60), 0.0, BudgetRecord(), 0.0
    arrived: list[float] = []
    running: list[tuple[float, bool]] = []  # end of each request of this leader, and whether it learns of it
    for wait, changes, gap, lasts, moment, heard in events:
        now += wait
        if changes:
            now += gap
            budget, running = RequestBudget(RequestCap(cap), burst=60), []
            budget.inherit(now, record, now - saved, longest)
            record, saved = budget.make_record(now), now
        for end, is_heard in sorted(running):
            if is_heard and end <= now:
                budget.end_refresh(end, 0.0, 0.0)
                running.remove((end, is_heard))
        if budget.available(now):
            budget.begin_refresh(now)
            record, saved = budget.make_record(now), now
            arrived.append(now + moment * lasts)
            running.append((now + lasts, heard))
    for last in arrived:
        assert sum(last - 60 < at <= last for at in arrived) <= cap


def test_the_requests_that_a_new_leader_inherits_end_at_their_time() -> None:
    budget = RequestBudget(RequestCap(6), burst=60)
    budget.inherit(100.0, BudgetRecord(3, ((10.0, 2, 0.0),)), 5.0, 30.0)
    assert (budget.available(100.0), budget.recent_usage(100.0)[0]) == (1, 5)
    assert budget.recent_usage(130.0)[0] == 5
    assert budget.recent_usage(146.0)[0] == 3  # the two of the record have left the window
    assert budget.recent_usage(189.0)[0] == 3  # the others ended at 130
    assert budget.available(191.0) == 6


def test_requests_held_back_for_others_are_not_available() -> None:
    budget = RequestBudget(RequestCap(6), burst=60)
    budget.hold_back(4)
    assert budget.available(0.0) == 2
