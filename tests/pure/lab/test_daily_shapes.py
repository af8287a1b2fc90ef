"""Drawn rates and times follow the given power law and daily shape."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.arrays import Floats
from headwater.lab.traces import daily_shapes
from headwater.times import DAY

FAMILIES = {
    "uniform": daily_shapes.uniform_shape(),
    "peaks": daily_shapes.peak_shape(),
    "peaks over midnight": daily_shapes.peak_shape(at=(0.0,), width=3.0, floor=0.2),
    "waves": daily_shapes.wave_shape(),
    "blended": daily_shapes.blend_shape(daily_shapes.peak_shape(), 0.5),
}


@pytest.mark.parametrize("shape", FAMILIES.values(), ids=FAMILIES)
def test_every_shape_has_mean_one_and_is_never_negative(shape: Floats) -> None:
    assert shape.mean() == pytest.approx(1.0)
    assert (shape >= 0).all()


@pytest.mark.parametrize("shape", FAMILIES.values(), ids=FAMILIES)
def test_times_follow_the_shape_slot_by_slot(shape: Floats) -> None:
    rng = np.random.default_rng(7)
    days = 400
    times = daily_shapes.draw_poisson_times(rng, 100 / DAY, shape, 0.0, days * DAY)
    counts = np.bincount((times % DAY // (DAY / len(shape))).astype(int), minlength=len(shape))
    wanted = 100 * days * shape / len(shape)
    assert (counts[shape == 0] == 0).all()  # silent hours are silent
    sure = shape > 0
    chi_square = ((counts[sure] - wanted[sure]) ** 2 / wanted[sure]).sum()
    assert chi_square < sure.sum() + 5 * np.sqrt(2 * sure.sum())


@given(
    st.integers(0, 2**32), st.floats(-3, 3), st.floats(0.001, 3), st.sampled_from(sorted(FAMILIES)), st.floats(0, 50)
)
def test_times_are_sorted_and_inside_their_interval(
    seed: int, start: float, span: float, name: str, rate: float
) -> None:
    low, high = start * DAY, (start + span) * DAY
    times = daily_shapes.draw_poisson_times(np.random.default_rng(seed), rate / DAY, FAMILIES[name], low, high)
    assert (np.diff(times) >= 0).all()
    assert ((times >= low) & (times < high)).all()


def test_the_number_of_times_varies_as_a_poisson_process_does() -> None:
    rng = np.random.default_rng(3)
    shape = daily_shapes.wave_shape()
    counts = [len(daily_shapes.draw_poisson_times(rng, 20 / DAY, shape, 0.25 * DAY, 0.75 * DAY)) for _ in range(4000)]
    wanted = daily_shapes.expect_items(20 / DAY, shape, 0.25 * DAY, 0.75 * DAY)
    assert np.mean(counts) == pytest.approx(wanted, rel=0.03)
    assert np.var(counts) == pytest.approx(wanted, rel=0.1)


@given(st.floats(-10, 10), st.floats(-10, 10), st.floats(-10, 10), st.sampled_from(sorted(FAMILIES)))
def test_expectations_add_up(a: float, b: float, c: float, name: str) -> None:
    a, b, c = sorted((a * DAY, b * DAY, c * DAY))
    shape = FAMILIES[name]
    parts = daily_shapes.expect_items(1e-3, shape, a, b) + daily_shapes.expect_items(1e-3, shape, b, c)
    assert parts == pytest.approx(daily_shapes.expect_items(1e-3, shape, a, c), abs=1e-6)


@pytest.mark.parametrize("exponent", [0.0, 0.78, 1.0, 2.0])
def test_rates_follow_the_given_power_law(exponent: float) -> None:
    rates = daily_shapes.draw_power_law(np.random.default_rng(1), 200_000, 1.0, 1000.0, exponent)
    assert rates.min() >= 1
    assert rates.max() <= 1000 * (1 + 1e-9)
    edges = np.geomspace(1, 1000, 13)
    counts, _ = np.histogram(rates, edges)
    grid = np.linspace(edges[:-1], edges[1:], 2001)
    mass = np.trapezoid(grid**-exponent, grid, axis=0)
    wanted = len(rates) * mass / mass.sum()
    assert (np.abs(counts - wanted) < 5 * np.sqrt(wanted) + 5).all()
