"""How many refreshes per second each feed should get: closed forms under a common price.

Three aims, one method (Lagrange): least total delay of postings (Sia & Cho), least average age and greatest average
freshness of copies (Cho & Garcia-Molina). All take rates and weights and return frequencies that sum to `total`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headwater.estimate.base import Floats

# r = λ/f on a grid fine enough for linear interpolation in logarithms to be good to five digits.
_R = np.geomspace(1e-4, 1e4, 8001)
# 1 − (1 + r)·e^−r and r²/2 − 1 + (1 + r)·e^−r; both cancel for small r, where their series say r²/2 and r³/3.
_FRESH = np.where(_R < 1e-2, _R**2 / 2 - _R**3 / 3, -np.expm1(-_R) - _R * np.exp(-_R))
_AGE = np.where(_R < 1e-2, _R**3 / 3 - _R**4 / 8, _R**2 / 2 - 1 + (1 + _R) * np.exp(-_R))


def allocate_for_delay(rates: Floats, weights: Floats, total: float) -> Floats:
    """m_i = k·√(w_i·λ_i) with Σ m_i = M (Sia & Cho, Theorem 1).

    >>> allocate_for_delay(np.array([1.0, 4.0, 16.0]), np.ones(3), 14.0).tolist()  # 1 : 2 : 4
    [2.0, 4.0, 8.0]
    """
    root = np.sqrt(np.maximum(weights * rates, 0.0))
    return np.asarray(root * (total / max(float(root.sum()), 1e-300)))


def allocate_for_age(rates: Floats, weights: Floats, total: float) -> Floats:
    """Least Σ w·A, A the time-averaged age of a copy: r²/2 − 1 + (1 + r)e^−r = μλ²/w with r = λ/f.

    Cho & Garcia-Molina (2003), whose example has five pages that change 1 to 5 times a day and five visits
    (they print .84 for the first):

    >>> allocate_for_age(np.arange(1.0, 6.0), np.ones(5), 5.0).round(3).tolist()
    [0.835, 0.968, 1.034, 1.071, 1.093]
    """
    return _allocate_by_price(
        lambda mu: _solve_ratio(_AGE, mu * rates**2 / np.maximum(weights, 1e-300)), rates, weights, total
    )


def allocate_for_freshness(rates: Floats, weights: Floats, total: float) -> Floats:
    """Greatest Σ w·F, F the share of time a copy is fresh: 1 − (1 + r)e^−r = μλ/w; nothing where μλ/w ≥ 1.

    What changes too often is given up, which is what ruins the delay (Sia & Cho, Table 2).

    >>> allocate_for_freshness(np.arange(1.0, 6.0), np.ones(5), 5.0).round(2).tolist()
    [1.15, 1.36, 1.35, 1.14, 0.0]
    """
    return _allocate_by_price(
        lambda mu: _solve_ratio(_FRESH, mu * rates / np.maximum(weights, 1e-300)), rates, weights, total
    )


def _solve_ratio(curve: Floats, wanted: Floats) -> Floats:
    """r where the rising `curve` reaches `wanted`; +inf above it."""
    log_r = np.interp(np.log(np.maximum(wanted, 1e-300)), np.log(curve), np.log(_R))
    beyond = wanted > curve[-1] if curve is _AGE else wanted >= 1.0
    return np.where(beyond & (curve is _FRESH), np.inf, np.exp(log_r))


def _allocate_by_price(ratio: Callable[[float], Floats], rates: Floats, weights: Floats, total: float) -> Floats:
    """The frequencies λ/r(μ) at the price μ where they sum to `total`, found by halving its logarithm."""
    if not len(rates) or total <= 0:
        return np.zeros(len(rates))

    def frequencies(log_mu: float) -> Floats:
        return np.asarray(rates / ratio(float(np.exp(log_mu))))

    low, high = -200.0, 200.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if frequencies(middle).sum() > total else (low, middle)
    answer = frequencies(high)
    return np.asarray(answer * (total / max(float(answer.sum()), 1e-300)))
