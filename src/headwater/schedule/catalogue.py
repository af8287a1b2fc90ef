"""Lists the strategies with their equations, sources, the papers' spellings and the meaning of their parameters."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.estimate.parameters import CatalogueEntry, ParameterNote

_TAU: Mapping[str, ParameterNote] = {
    "tau": ParameterNote("τ: the refresh threshold to begin with", 0),
    "capped": ParameterNote("whether a cycle keeps to b; false: b holds on average, as in the papers' experiments"),
    "raise_by": ParameterNote("Θ: factor of τ after more than b refreshes", 1),
    "lower_by": ParameterNote("θ: factor of τ after fewer than p·b refreshes", 0, 1),
    "enough": ParameterNote("p: the share of b that is enough", 0, 1),
}
_ADVARSS: Mapping[str, ParameterNote] = {
    "c": ParameterNote("c: what one more subscriber adds to the rank", 0),
    "politeness": ParameterNote("seconds between two refreshes of a feed", 0),
}
_ALLOCATION: Mapping[str, ParameterNote] = {"period": ParameterNote("T: seconds between two plans", 1)}
_RETRIEVAL: Mapping[str, ParameterNote] = {
    "method": ParameterNote("iterative refinement, or exhaustive search with pruning", choices=("refine", "search"))
}
_BATCH: Mapping[str, ParameterNote] = {
    "batch": ParameterNote("feeds taken at a time; none: all that are due", 1),
    "batch_every": ParameterNote("seconds between two batches", 0),
}

STRATEGY_CATALOGUE: Mapping[str, CatalogueEntry] = {
    "uniform": CatalogueEntry("score = now − last", "all papers", ("Uniform scheduling",)),
    "round_robin": CatalogueEntry("score = now − last, as a queue", "advaRSS, section 5", ("round-robin policy",)),
    "reference": CatalogueEntry("all candidates", "thesis 4.4.2", ("Reference",)),
    "top_utility": CatalogueEntry("the b largest Uti = age·Div − ∫Div", "Horincar et al., section 5", ("topKUtility",)),
    "only_tau": CatalogueEntry("Uti ≥ τ; τ by alg. 4.2", "thesis eq. 4.4, alg. 4.2", ("OnlyTau",), _TAU),
    "only_sat": CatalogueEntry("the b largest Div_A among Div_F ≥ W", "thesis alg. 4.1, step 1", ("OnlySat",)),
    "two_steps": CatalogueEntry(
        "saturated feeds, then Uti ≥ b/(b − b_sat)·τ", "thesis alg. 4.1", ("2Steps", "2 steps"), _TAU
    ),
    "advarss": CatalogueEntry("rank = articles·(1 + c·subscribers)", "advaRSS eq. 2", ("advaRSS",), _ADVARSS),
    "min_delay": CatalogueEntry(
        "∫ λ(t)(now − t) dt · (1 + c·subscribers)", "advaRSS, section 5", ("minimum delay policy",), _ADVARSS
    ),
    "value_index": CatalogueEntry(
        "the best b by items at risk × age",
        "ours",
        (),
        {
            "step": ParameterNote("length of a cycle, seconds", 1e-9),
            "freshness": ParameterNote("weight of fresh windows", 0, 1),
            "delay": ParameterNote("weight of waiting items", 0),
        },
    ),
    "fix_1h": CatalogueEntry("u = 1 h", "Urbansky 3.1", ("Fix 1h",)),
    "fix_1d": CatalogueEntry("u = 24 h", "Urbansky 3.1", ("Fix 1d",)),
    "fix_learned": CatalogueEntry("u = mean gap of the first window, else 1 h", "Urbansky eq. 1", ("Fix Learned",)),
    "moving_average": CatalogueEntry(
        "u = mean gap of the last window, with a virtual item at an empty poll",
        "Urbansky eq. 1–2",
        ("Moving Average", "MAV"),
        {"window": ParameterNote("w: the dates averaged", 2, 10_000)},
    ),
    "post_rate": CatalogueEntry(
        "u until Σ postRate(t) ≥ 1", "Urbansky eq. 3", ("Post Rate", "individual-based history adaptive")
    ),
    "adaptive_ttl": CatalogueEntry(
        "u = share·(now − last change)",
        "Bright, Gal & Raschid",
        ("Alex protocol",),
        {"share": ParameterNote("share of the age of the last change", 0)},
    ),
    "value": CatalogueEntry(
        "refresh when loss and waiting are worth the price that meets the budget",
        "ours",
        (),
        {
            "price": ParameterNote("a fixed price; none: the price that meets the budget", 0),
            "plan": ParameterNote("whether pauses are planned ahead for all feeds together"),
            "delay": ParameterNote("weight of waiting items", 0),
            "loss": ParameterNote("weight of lost items", 0),
            "freshness": ParameterNote("weight of fresh windows", 0),
            "dispersion": ParameterNote("variance of counts relative to Poisson, for the risk of loss", 0),
            "fast": ParameterNote("whether loops over many rows are compiled with numba"),
        },
    ),
    "allocation": CatalogueEntry(
        "m ∝ √(w·λ), evenly spaced",
        "Sia & Cho, Theorem 1",
        ("Resource allocation only", "Resource allocation"),
        _ALLOCATION,
    ),
    "retrieval": CatalogueEntry(
        "λ(τⱼ)·(τⱼ₊₁ − τⱼ) = ∫ λ since τⱼ₋₁, equal frequencies",
        "Sia & Cho, Theorems 2, 3",
        ("Retrieval scheduling only", "Retrieval scheduling"),
        _RETRIEVAL,
    ),
    "combined": CatalogueEntry(
        "m ∝ √(w·λ) at the best times of the day", "Sia & Cho, 4.4", ("Combined policy",), _RETRIEVAL
    ),
    "cgm_age": CatalogueEntry("least average age", "Cho & Garcia-Molina 2003", ("CGM03(Age)",), _ALLOCATION),
    "cgm_freshness": CatalogueEntry(
        "1 − (1 + r)e^−r = μλ/w", "Cho & Garcia-Molina 2003", ("CGM03(Freshness)",), _ALLOCATION
    ),
    "miniflux": CatalogueEntry("min(max(60 min, hint), 24 h)", "Miniflux", (), _BATCH),
    "miniflux_entry_frequency": CatalogueEntry("7 d / entries of the last week", "Miniflux", (), _BATCH),
    "newsblur": CatalogueEntry("by stories a day and subscribers", "NewsBlur"),
    "commafeed": CatalogueEntry("mean gap of the document / 2", "CommaFeed"),
    "freshrss": CatalogueEntry(
        "ttl, not before the cache expires",
        "FreshRSS",
        (),
        {"ttl": ParameterNote("seconds between two refreshes, at least 900", 0)},
    ),
    "reader": CatalogueEntry(
        "the next multiple of grid", "lemon24/reader", (), {"grid": ParameterNote("seconds between two grid points", 1)}
    ),
    "mediacloud": CatalogueEntry("by the overlap of two documents", "Media Cloud"),
    "stormcrawler": CatalogueEntry("× 1.5 without a change, × .8 after one", "StormCrawler"),
}
