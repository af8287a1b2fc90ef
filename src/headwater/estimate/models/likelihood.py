"""Horincar's thesis, 7.4: maximum likelihood with saturated windows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headwater.arrays import Bools, Floats, Ragged, Rows
from headwater.estimate.estimator import MIN_RATE, PRIOR_RATE, FirstRefreshEstimator
from headwater.estimate.feed_columns import Column
from headwater.estimate.poisson import poisson_pmf, poisson_tail

STOP, ROUNDS = 1e-4, 30  # ε and maxIterations of alg. 7.1


def log_likelihood_gradient(rate: Floats, span: Floats, count: Floats, cut: Bools) -> Floats:
    """Return ∂ ln L/∂λ of a publication profile, one line of observations per row (thesis 7.4.3).

    An exact count adds x/λ − Δt (the thesis prints x·Δt/λ, which is not the derivative of its own likelihood). A count
    censored at W = x adds Δt·P(N = W − 1)/P(N ≥ W), to which the thesis's sum telescopes. Unused places have Δt = 0.

    >>> log_likelihood_gradient(np.array([1.0]), np.array([[10.0]]), np.array([[5.0]]), np.array([[False]])).tolist()
    [-5.0]
    """
    terms = np.where(span > 0, count / rate[:, None] - span, 0.0)
    cut = cut & (span > 0)
    if cut.any():
        w, mu = count[cut], (rate[:, None] * span)[cut]
        tail = poisson_tail(w, mu)
        # Far below the true rate both probabilities vanish; their ratio tends to W/μ.
        pull = np.where(tail > 1e-250, poisson_pmf(w - 1, mu) / np.maximum(tail, 1e-250), w / np.maximum(mu, 1e-300))
        terms[cut] = span[cut] * pull
    return np.asarray(terms.sum(axis=1))


def maximise_likelihood(
    rate: Floats,
    span: Floats,
    count: Floats,
    cut: Bools,
    *,
    least: float = MIN_RATE,
    stop: float = STOP,
    rounds: int = ROUNDS,
) -> Floats:
    """Run algorithm 7.1: climb λ ← λ + ε·gradient until λ moves by less than `stop`, never below `least`.

    With the step ε = λ/ΣΔt the ascent is the EM iteration for censored counts: it never overshoots, and without
    censored counts it arrives at Σx/ΣΔt in one step. If every count is censored, the likelihood has no maximum; the
    climb then ends at three times the face value.
    """
    rate = np.maximum(rate, least)
    total = np.maximum(span.sum(axis=1), 1e-300)
    highest = np.where((cut | (span == 0)).all(axis=1), 3 * count.sum(axis=1) / total, np.inf)
    moving = np.flatnonzero(span.sum(axis=1) > 0)
    for _ in range(rounds):
        if not len(moving):
            break
        old = rate[moving]
        step = old / total[moving] * log_likelihood_gradient(old, span[moving], count[moving], cut[moving])
        rate[moving] = np.clip(old + step, least, np.maximum(highest[moving], least))
        moving = moving[np.abs(rate[moving] - old) > stop * old]
    return rate


class Likelihood(FirstRefreshEstimator):
    """Estimate the rate of a homogeneous Poisson process from the last n refreshes, censored at W (thesis 7.4).

    A window that came back all new says only “at least W”, so feeds that overflow do not pull the rate down.

    >>> e, row = Likelihood(1), np.array([0])
    >>> for span, new in ((10, 5), (15, 1), (8, 3), (20, 8)):  # the thesis's example profile: 17 items in 53 minutes
    ...     e.observe(row, np.array([0.0]), np.array([60.0 * span]), np.array([float(new)]), np.array([False]))
    >>> (e.expected(row, np.array([0.0]), np.array([53 * 60.0]))).round(2).tolist()
    [17.0]
    """

    name = "likelihood"

    def __init__(
        self,
        feeds: int = 0,
        *,
        observations: int = 10,
        rate: float = PRIOR_RATE,
        least: float = MIN_RATE,
        stop: float = STOP,
        rounds: int = ROUNDS,
    ) -> None:
        self.observations, self._prior, self._least = observations, rate, least
        self._stop, self._rounds = stop, rounds
        super().__init__(feeds)

    def layout(self) -> Mapping[str, Column]:
        n = (self.observations,)
        return {
            "rate": Column(self._prior),
            "span": Column(0.0, n),
            "count": Column(0.0, n),
            "cut": Column(0, n, np.int8),
        }

    def learn_first(self, rows: Rows, end: Floats, rate: Floats, published: Ragged | None) -> None:
        """Count the dates of the first window as one observation: n − 1 items since the oldest."""
        known = np.flatnonzero(~np.isnan(rate))
        if published is None or not len(known):
            return
        new = (published.counts[known] - 1).astype(np.float64)
        self.learn(rows[known], end[known] - new / rate[known], end[known], new, np.zeros(len(known), bool), None)

    def learn(
        self, rows: Rows, start: Floats, end: Floats, new: Floats, saturated: Bools, published: Ragged | None
    ) -> None:
        fresh = {"span": end - start, "count": new, "cut": saturated & (new > 0)}
        for key, value in fresh.items():
            self._columns[key][rows] = np.column_stack([self._columns[key][rows][:, 1:], value])
        span, count = (self._columns[key][rows].astype(np.float64) for key in ("span", "count"))
        rate = self._columns["rate"][rows].astype(np.float64)
        self._columns["rate"][rows] = maximise_likelihood(
            rate,
            span,
            count,
            self._columns["cut"][rows] == 1,
            least=self._least,
            stop=self._stop,
            rounds=self._rounds,
        )

    def expected(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        return self._columns["rate"][rows] * np.maximum(end - start, 0.0)

    def delay(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        return np.asarray(self._columns["rate"][rows] * np.maximum(end - start, 0.0) ** 2 / 2)
