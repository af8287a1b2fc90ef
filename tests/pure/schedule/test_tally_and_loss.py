"""Tallies by the hour, delays and loss forecasts are right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.schedule.quality import loss_forecast
from headwater.schedule.quality.loss_forecast import advise_on_loss, forecast_loss
from headwater.schedule.quality.tally import HOURS_KEPT, Tally
from headwater.times import DAY, HOUR

NOTHING = np.empty(0)


def test_hour_and_day_count_only_their_own_refreshes() -> None:
    tally, now = Tally(), 1000 * HOUR + 10
    tally.record(now - 30 * HOUR, weight=1, got=99, lost=99, delays=NOTHING)
    tally.record(now - 20 * HOUR, weight=10, got=5, lost=5, delays=NOTHING)
    tally.record(now, weight=100, got=3, lost=1, delays=NOTHING)
    hour, day = tally.summarise(now, 1), tally.summarise(now, 24)
    assert (hour.requests, hour.bytes, hour.got, hour.lost, hour.completeness) == (1, 100, 3, 1.0, 0.75)
    assert (day.requests, day.bytes, day.got, day.lost) == (2, 110, 8, 6.0)
    tally.record(now - 3 * DAY, weight=1, got=1, lost=0, delays=NOTHING)  # too late: a newer hour uses its slot
    assert tally.summarise(now, 24) == day
    assert tally.summarise(now + HOURS_KEPT * HOUR, 24).completeness is None


@given(st.lists(st.floats(0, 20 * DAY), min_size=1, max_size=300))
def test_quantiles_of_the_histogram_are_near_the_true_ones(delays: list[float]) -> None:
    tally, now = Tally(), 1e9
    tally.record(now, weight=0, got=len(delays), lost=0, delays=np.array(delays))
    delay = tally.summarise(now, 1).delay
    assert delay is not None
    assert delay.items == len(delays)
    assert delay.mean == pytest.approx(np.mean(delays), abs=1e-6)
    for figure, share, enough in ((delay.median, 0.5, 5), (delay.p95, 0.95, 20)):
        assert (figure is not None) == (len(delays) >= enough)
        if figure is None:
            continue
        low, high = np.quantile(delays, share, method="lower"), np.quantile(delays, share, method="higher")
        assert low / 1.25 - 1 <= figure <= high * 1.25 + 1


def test_counts_survive_saving_and_another_shape_is_refused() -> None:
    tally, again = Tally(), Tally()
    tally.record(5000.0, weight=7, got=2, lost=1.0, delays=np.array([60.0]))
    assert again.load(tally.save())
    assert again.summarise(5000.0, 1) == tally.summarise(5000.0, 1)
    assert not again.load({"hour": np.zeros(3)})
    assert again.summarise(5000.0, 1) == tally.summarise(5000.0, 1)


@given(st.integers(1, 200), st.floats(0, 2000))
def test_loss_forecast_is_near_poisson_counts(window: int, mean: float) -> None:
    forecast = forecast_loss(np.array([mean, mean + 1]), np.full(2, float(window)))
    counts = np.random.default_rng(1).poisson(mean, 4000)
    lost = np.maximum(counts - window, 0)
    slack = 5 * lost.std() / 60 + 0.02 + 0.01 * window  # the tables interpolate
    assert forecast.lost[0] == pytest.approx(lost.mean(), abs=slack)
    assert forecast.chance[0] == pytest.approx((counts > window).mean(), abs=0.05)
    assert forecast.missing[0] == pytest.approx(np.minimum(counts, window).mean() / window, abs=0.03)
    assert forecast.lost[1] >= forecast.lost[0] - 1e-9


def test_non_finite_forecasts_mean_no_loss() -> None:
    forecast = forecast_loss(np.array([np.nan, np.inf, -1.0]), np.zeros(3))
    assert forecast.lost.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"hub": True}, "hub"),
        ({"rate": 1.0}, "no feed is polled twice within 2 min"),
        ({"pause": 2 * HOUR}, "politeness requires 2 h"),
        ({"pause": 2 * HOUR, "failures": 3}, "failed 3 times and is not polled for 2 h: its page"),
        ({"budget_used": 0.95}, "raise --budget"),
        ({"budget_used": 0.95, "interval": 122.0}, "polled every 2 min, as often as possible"),
        ({}, "burst"),
    ],
)
def test_advice_follows_from_the_cause_of_the_loss(change: dict[str, float], says: str) -> None:
    usual = {"rate": 20 / HOUR, "window": 20.0, "least": 120.0, "pause": 120.0, "hub": False, "budget_used": 0.1}
    assert says in advise_on_loss(**(usual | change))  # type: ignore[arg-type]


def test_without_feeds_no_losses_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_forecast, "find_losses", None)
    assert len(forecast_loss(np.empty(0), np.empty(0)).lost) == 0
