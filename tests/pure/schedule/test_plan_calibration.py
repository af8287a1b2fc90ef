"""The calibration of the plan compares a forecast a day with the day that came, and sets how wide doubts are."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.arrays import Ragged
from headwater.schedule.promise import Beliefs, Constraints, Plan, plan
from headwater.schedule.strategy import Observed
from headwater.schedule.value.plan_calibration import PlanCalibration
from headwater.times import DAY, HOUR

ROWS = np.arange(4)


def make_plan(calibration: PlanCalibration, budget: float = 0.05) -> Plan:
    beliefs = Beliefs.of(np.full(4, 50.0), np.full(4, 100.0))
    return plan(beliefs, Constraints.of(4), budget, calibration=calibration.build(ROWS))


def live(calibration: PlanCalibration, days: int, delay_of: list[float]) -> list[float]:
    """Plan every hour; each hour brings items of a delay, as a multiple of the one foretold. Return the widths."""
    widths, now = [], 0.0
    for hour in range(24 * days):
        now = hour * HOUR
        made = make_plan(calibration)
        calibration.note_plan(ROWS, made, made.interval, now)
        times = now + HOUR - delay_of[hour // 24] * made.delay
        seen = Observed(
            ROWS,
            np.full(4, now - DAY),
            np.full(4, now + HOUR),
            np.ones(4),
            np.full(4, 100.0),
            np.zeros(4, bool),
            published=Ragged(np.arange(5), times),
            lost=np.zeros(4),
        )
        never = np.zeros(4, bool)
        calibration.observe(seen, np.full(4, 100.0), never, np.ones(4), np.full(4, np.inf), made.delay)
        widths.append(calibration.build(ROWS).delay_width)
    return widths


def test_days_outside_the_doubt_widen_it_and_days_inside_narrow_it() -> None:
    calm = live(PlanCalibration(4), 8, [1.0] * 8)
    assert calm[0] > calm[-1] > 0.9 * calm[0]  # a little
    wild = live(PlanCalibration(4), 8, [1.0, 1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    assert wild[-1] > 1.1 * calm[0]
    assert wild[24] == calm[0]  # the first day of a server is not a habit


def test_what_is_left_of_an_ample_budget_says_nothing_about_a_small_one() -> None:
    calibration = PlanCalibration(4)
    for hour in range(24 * 9):
        now, ample = hour * HOUR, hour >= 24 * 5
        made = make_plan(calibration, budget=50.0 if ample else 0.05)
        calibration.note_plan(ROWS, made, made.interval, now)
        calibration.note_choice(np.zeros(1), 1, now)
        if hour == 24 * 5 - 1:
            assert calibration.use > 1.3  # requests were left over while the budget was short
    assert calibration.use == pytest.approx(1.0, abs=0.01)


def test_a_deadline_that_the_budget_does_not_allow_is_not_taken_for_demand() -> None:
    """The plan stretches the deadline, the pauses do not follow: demand would else rise without end."""
    calibration, constraints = PlanCalibration(4), Constraints.of(4)
    constraints.at_most[:3] = HOUR
    beliefs = Beliefs.of(np.full(4, 0.5), np.full(4, 100.0))
    for hour in range(24 * 7):
        made = plan(beliefs, constraints, 0.04, calibration=calibration.build(ROWS))
        pause = np.minimum(made.interval, constraints.at_most)
        calibration.note_plan(ROWS, made, pause, hour * HOUR)
    assert calibration.demand == pytest.approx(1.0)


def test_a_wider_calibration_states_wider_doubts() -> None:
    calibration = PlanCalibration(4)
    before = make_plan(calibration).promise()
    calibration._adapt_width(0, outside=True)
    calibration._adapt_width(1, outside=True)
    after = make_plan(calibration).promise()
    assert before.delay_doubt is not None
    assert after.delay_doubt is not None
    assert after.delay == before.delay
    assert after.delay_doubt > before.delay_doubt
    assert after.completeness_doubt >= before.completeness_doubt


def test_a_forecast_of_another_budget_is_not_judged() -> None:
    calibration = PlanCalibration(4)
    live(calibration, 2, [1.0, 2.0])
    before = calibration.build(ROWS).delay_width
    made = make_plan(calibration, budget=5.0)
    calibration.note_plan(ROWS, made, made.interval, 2 * DAY + HOUR)
    assert calibration.build(ROWS).delay_width == before


def test_gaps_after_two_failures_count_in_full() -> None:
    """A feed polled every two minutes that fails at every tenth poll waits ten minutes, and twenty after the second."""
    rows, chance = np.arange(400), np.random.default_rng(5)
    calibration = PlanCalibration(len(rows))
    beliefs = Beliefs.of(np.full(400, 1e4), np.full(400, 1e6))
    made = plan(beliefs, Constraints.of(400), 1e9)
    assert made.interval == pytest.approx(120.0)
    calibration.note_plan(rows, made, made.interval, 0.0)
    one = np.ones(400)
    for poll in range(1, 200):
        gap = 120 + chance.choice([0.0, 600.0, 1800.0], 400, p=[0.9, 0.09, 0.01])
        seen = Observed(rows, 3000 * poll - gap, 3000 * poll * one, one, 1e6 * one, one > 1, lost=0 * one)
        calibration.observe(seen, 100 * one, one > 1, one, np.inf * one, gap / 2)
    built, square = calibration.build(rows), 0.9 + 0.09 * 6**2 + 0.01 * 16**2
    assert built.square is not None
    assert built.square.mean() == pytest.approx((50 * square + 5) / 55, rel=0.06)  # 5: the planned pauses


def observe_waits(calibration: PlanCalibration, now: float, gap: float, share: float) -> None:
    """Let feed 0 find an item that has waited for this share of the gap."""
    one = np.ones(1)
    found = Ragged(np.array([0, 1]), np.array([now - share * gap]))
    seen = Observed(ROWS[:1], (now - gap) * one, now * one, one, 100 * one, one > 1, published=found, lost=0 * one)
    calibration.observe(seen, 100 * one, one > 1, one, np.inf * one, gap / 2 * one)


def follow(share_of: list[float], gap_of: list[float]) -> float:
    """Return the factor of the delay after refreshes with these gaps (hours) and shares of them waited."""
    calibration, now = PlanCalibration(4), 0.0
    made = make_plan(calibration)
    calibration.note_plan(ROWS, made, made.interval, now)
    for share, gap in zip(share_of, gap_of, strict=True):
        now += gap * HOUR
        observe_waits(calibration, now, gap * HOUR, share)
    return calibration.delay_factor[0]


def test_the_length_of_gaps_does_not_move_the_factor_of_the_delay() -> None:
    """A night without polls is in the gaps of its feed; all other feeds are none the slower for it."""
    assert follow([0.5] * 100, [0.5] * 100) == pytest.approx(1.0)
    assert follow([0.5] * 100, [*[0.5] * 99, 12.0]) == pytest.approx(1.0)


def test_items_that_come_shortly_before_polls_lower_the_factor_and_one_long_gap_says_little() -> None:
    assert 0.5 < follow([0.25] * 200, [0.5] * 200) < 0.65  # half of the waiting that the gaps explain
    assert follow([*[0.5] * 99, 0.1], [*[0.5] * 99, 12.0]) > 0.92  # .84 if each item counted as much


def test_the_check_of_the_plan_has_the_items_of_the_last_day_only() -> None:
    calibration = PlanCalibration(4)
    live(calibration, 2, [3.0, 1.0])  # late on the first day
    made = make_plan(calibration)
    checked = calibration.check_plan()
    assert checked.published == 4 * 25  # of the present hour and the 24 before it
    assert checked.delay_measured is not None
    assert checked.delay_measured < 1.1 * made.delay[0]
