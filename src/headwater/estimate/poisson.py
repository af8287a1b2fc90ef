"""Computes Poisson probabilities and expectations over arrays, with numpy alone.

`poisson_tail` is the regularised incomplete gamma function P(w, μ): a series where μ is small against w, a continued
fraction where it is large (Numerical Recipes §6.2). It is accurate to about 1e-10.
"""

from __future__ import annotations

import numpy as np

from headwater.arrays import Floats

_LANCZOS = (
    676.5203681218851,
    -1259.1392167224028,
    771.32342877765313,
    -176.61502916214059,
    12.507343278686905,
    -0.13857109526572012,
    9.9843695780195716e-6,
    1.5056327351493116e-7,
)


def log_gamma(x: Floats) -> Floats:
    """Return ln Γ(x) for x ≥ 1 (Lanczos, g = 7).

    >>> round(float(np.exp(log_gamma(np.array(5.0)))), 6)  # 4!
    24.0
    """
    z = np.asarray(x, dtype=np.float64) - 1.0
    total = np.full_like(z, 0.99999999999980993)
    for k, c in enumerate(_LANCZOS):
        total = total + c / (z + k + 1)
    t = z + 7.5
    return np.asarray(0.5 * np.log(2 * np.pi) + (z + 0.5) * np.log(t) - t + np.log(total))


def poisson_pmf(k: Floats, mu: Floats) -> Floats:
    """Return P(N = k) for N ~ Poisson(μ).

    >>> round(float(poisson_pmf(np.array(0.0), np.array(1.0))), 4)  # 1/e
    0.3679
    """
    k, mu = np.broadcast_arrays(np.asarray(k, np.float64), np.asarray(mu, np.float64))
    safe = np.maximum(mu, 1e-300)
    return np.where(mu > 0, np.exp(k * np.log(safe) - mu - log_gamma(k + 1)), (k == 0).astype(np.float64))


def poisson_tail(w: Floats, mu: Floats) -> Floats:
    """Return P(N ≥ w) for N ~ Poisson(μ); 1 where w ≤ 0.

    >>> round(float(poisson_tail(np.array(1.0), np.array(1.0))), 4)  # 1 − 1/e
    0.6321
    """
    w, mu = np.broadcast_arrays(np.asarray(w, np.float64), np.asarray(mu, np.float64))
    answer = np.where(w <= 0, 1.0, 0.0)
    todo = (w > 0) & (mu > 0)
    small = todo & (mu < w + 1)
    large = todo & ~small
    if small.any():
        answer[small] = _lower_gamma_series(w[small], mu[small])
    if large.any():
        answer[large] = 1.0 - _upper_gamma_fraction(w[large], mu[large])
    return np.clip(answer, 0.0, 1.0)


def expect_shown(w: Floats, mu: Floats) -> Floats:
    """Return E min(N, W) for N ~ Poisson(μ): the items, of N published, that a window of W still shows.

    >>> round(float(expect_shown(np.array(1.0), np.array(1.0))), 4)  # with W = 1, the chance of any item
    0.6321
    """
    w, mu = np.broadcast_arrays(np.asarray(w, np.float64), np.asarray(mu, np.float64))
    # Σ_{k<W} k·p(k) = μ·P(N ≤ W − 2), so E min(N, W) = μ·(1 − P(N ≥ W − 1)) + W·P(N ≥ W).
    full = poisson_tail(w, mu)
    nearly = np.where(w > 1, np.minimum(full + poisson_pmf(np.maximum(w, 1.0) - 1, mu), 1.0), 1.0)  # P(N ≥ W − 1)
    return np.asarray(np.minimum(mu * (1.0 - nearly) + w * full, np.minimum(mu, w)))


def _lower_gamma_series(w: Floats, mu: Floats) -> Floats:
    term = 1.0 / w
    total = term.copy()
    for n in range(1, 10_000):
        term = term * mu / (w + n)
        total += term
        if np.all(term <= total * 1e-13):
            break
    return total * np.exp(w * np.log(mu) - mu - log_gamma(w))


def _upper_gamma_fraction(w: Floats, mu: Floats) -> Floats:
    tiny = 1e-300
    b = mu + 1.0 - w
    c = np.full_like(b, 1 / tiny)
    d = 1.0 / np.where(b == 0, tiny, b)
    h = d.copy()
    for n in range(1, 10_000):
        a = -n * (n - w)
        b = b + 2.0
        d = a * d + b
        d = 1.0 / np.where(np.abs(d) < tiny, tiny, d)
        c = b + a / c
        c = np.where(np.abs(c) < tiny, tiny, c)
        step = d * c
        h = h * step
        if np.all(np.abs(step - 1.0) < 1e-13):
            break
    return h * np.exp(w * np.log(mu) - mu - log_gamma(w))
