"""Lists the estimators with their equations, sources, the papers' spellings and the meaning of their parameters."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.estimate.parameters import CatalogueEntry, ParameterNote

ESTIMATOR_CATALOGUE: Mapping[str, CatalogueEntry] = {
    "fixed": CatalogueEntry("expected = λ·(end − start), λ given", "all papers", ("homogeneous Poisson",)),
    "learned_once": CatalogueEntry("u = (newest − oldest)/(W − 1) of the first window", "Urbansky eq. 1"),
    "moving_average": CatalogueEntry(
        "u = mean gap of the last W items, with a virtual item at an empty poll",
        "Urbansky eq. 1–2",
        ("MAV", "Moving Average"),
        {"window": ParameterNote("w: the dates averaged", 2, 10_000)},
    ),
    "post_rate": CatalogueEntry("newItems(t) = Σ postRate(minute)", "Urbansky eq. 3", ("Post Rate",)),
    "hourly": CatalogueEntry(
        "articles = ∫ posting_rate(t)/3600 dt since the last retrieval",
        "advaRSS eq. 1",
        ("hourly indicators",),
        {
            "initial": ParameterNote("articles per hour expected of a new feed", 0),
            "least": ParameterNote("the smallest rate, articles per hour", 0),
        },
    ),
    "single": CatalogueEntry(
        "λ ← (1 − α)·λ + α·x/Δt", "thesis eq. 7.2", ("single variable", "single variable publication model")
    ),
    "periodic": CatalogueEntry(
        "one λ per slot: λᵢ ← (1 − α)·λᵢ + α·(share of x in slot i)/Δtᵢ",
        "thesis eq. 7.3",
        ("periodic publication model", "daily model"),
    ),
    "hybrid": CatalogueEntry(
        "the model of smaller |x − Div_est| at the last refresh",
        "thesis 7.2.3",
        parameters={"errors": ParameterNote("refreshes whose mean error decides; the thesis takes the last one", 1)},
    ),
    "smoothed": CatalogueEntry(
        "α falls while errors are stable and rises when they grow or stay on one side",
        "thesis 7.2.4",
        ("smoothing parameter adjustment",),
        {
            "inner": ParameterNote("the model whose α is adjusted", choices=("single", "periodic")),
            "alpha": ParameterNote("α to begin with", 0, 1),
            "lowest": ParameterNote("the smallest α", 0, 1),
            "highest": ParameterNote("the largest α", 0, 1),
            "n1": ParameterNote("n₁: refreshes of the short mean of errors", 1),
            "n2": ParameterNote("n₂: refreshes of the long mean of errors", 1),
            "n3": ParameterNote("n₃: refreshes whose errors show a drift", 1),
            "shrink": ParameterNote("factor of α while errors are stable", 0, 1),
            "grow": ParameterNote("factor of α when errors grow", 1),
            "unstable": ParameterNote("ratio of the short to the long mean of errors above which they grow", 0),
            "drift": ParameterNote("share of the last n₃ errors on one side that means a drift; 1: never", 0, 1),
            "drift_grow": ParameterNote("factor of α while the rate drifts", 1),
        },
    ),
    "likelihood": CatalogueEntry(
        "λ ← λ + ε·∂ln L/∂λ over the publication profile, counts censored at W",
        "thesis 7.4, alg. 7.1",
        ("maximum likelihood", "MLE"),
        {
            "observations": ParameterNote("n: refreshes in the publication profile", 1, 10_000),
            "rounds": ParameterNote("maxIterations of alg. 7.1", 1, 10_000),
            "stop": ParameterNote("ε: the climb ends when λ moves by less than this share", 0, 1),
        },
    ),
    "pattern": CatalogueEntry(
        "λ(t) = rate × 24·share(hour), shares by K-means",
        "Sia & Cho, 4.2–4.3",
        ("inhomogeneous Poisson", "periodic inhomogeneous Poisson", "posting pattern"),
        {
            "clusters": ParameterNote("K: the number of daily patterns", 1, 1000),
            "memory": ParameterNote("time constant of the posting rate, seconds (the paper: 14 days)", 1),
            "enough": ParameterNote("items before a feed's own hours decide its cluster", 0),
        },
    ),
    "bayes": CatalogueEntry(
        "a rate on several time scales, each shrunk to the slower one, × the week of its kind",
        "ours",
        (),
        {
            "scales": ParameterNote("memories in days, fast to slow", 1e-6),
            "doubts": ParameterNote("days by which each scale but the last is drawn to the next", 0),
            "prior": ParameterNote("items and days the slowest scale starts with; none: a wide prior", 0),
            "shaped": ParameterNote("whether hours of the week have rates of their own"),
            "shrink": ParameterNote("items until a feed's own day counts as much as its kind's", 0),
            "trusting": ParameterNote("whether forecasts are scaled by how often they came true"),
            "reset": ParameterNote("CUSUM height at which the slow memory is dropped, in standard deviations", 0),
            "dispersion": ParameterNote("variance of counts relative to Poisson", 0),
            "day": ParameterNote("length of a day, seconds", 1),
            "fast": ParameterNote("whether loops over many rows are compiled with numba"),
        },
    ),
    "forecast": CatalogueEntry(
        "ln λ(bin) = ln λ of bayes + a network's correction, within ±3",
        "ours",
        (),
        {
            "network": ParameterNote("another network than that of the package, in Python only"),
            "learning": ParameterNote("whether the network goes on learning on the server"),
            "fast": ParameterNote("whether loops over many rows are compiled with numba"),
        },
    ),
}
