"""Every strategy by its name."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.estimate.named import find_class, index_by_name
from headwater.schedule.adaptive_ttl import AdaptiveTTL
from headwater.schedule.advarss import AdvaRSS
from headwater.schedule.allocation import Allocation
from headwater.schedule.base import Strategy
from headwater.schedule.cgm_age import CgmAge
from headwater.schedule.cgm_freshness import CgmFreshness
from headwater.schedule.combined import Combined
from headwater.schedule.commafeed import CommaFeed
from headwater.schedule.fix import Fix1d, Fix1h
from headwater.schedule.fix_learned import FixLearned
from headwater.schedule.freshrss import FreshRSS
from headwater.schedule.mediacloud import MediaCloud
from headwater.schedule.min_delay import MinDelay
from headwater.schedule.miniflux import Miniflux
from headwater.schedule.miniflux_entry_frequency import MinifluxEntryFrequency
from headwater.schedule.moving_average import MovingAverageInterval
from headwater.schedule.newsblur import NewsBlur
from headwater.schedule.only_sat import OnlySat
from headwater.schedule.only_tau import OnlyTau
from headwater.schedule.post_rate import PostRateInterval
from headwater.schedule.reader import LemonReader
from headwater.schedule.reference import Reference
from headwater.schedule.retrieval import Retrieval
from headwater.schedule.round_robin import RoundRobin
from headwater.schedule.stormcrawler import StormCrawler
from headwater.schedule.top_utility import TopUtility
from headwater.schedule.two_steps import TwoSteps
from headwater.schedule.uniform import Uniform
from headwater.schedule.value import Value
from headwater.schedule.value_index import ValueIndex

STRATEGIES: Mapping[str, type[Strategy]] = index_by_name(
    [
        Uniform,
        Fix1h,
        Fix1d,
        MovingAverageInterval,
        FixLearned,
        PostRateInterval,
        AdvaRSS,
        MinDelay,
        RoundRobin,
        OnlySat,
        OnlyTau,
        TwoSteps,
        TopUtility,
        Reference,
        Allocation,
        Retrieval,
        Combined,
        CgmAge,
        CgmFreshness,
        AdaptiveTTL,
        Miniflux,
        MinifluxEntryFrequency,
        NewsBlur,
        CommaFeed,
        FreshRSS,
        LemonReader,
        MediaCloud,
        StormCrawler,
        Value,
        ValueIndex,
    ]
)


def load(spec: str) -> type[Strategy]:
    """The strategy called `spec`, or a person's own as `package.module:Name`."""
    return find_class(spec, STRATEGIES, Strategy, "strategy")
