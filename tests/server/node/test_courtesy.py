"""Manners between refreshes: feeds wait, hosts that refuse are left alone, and a restart does not forget it."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.model import Ending, Known, Refresh, Validators, Verdict
from headwater.node.crawl.politeness import Politeness

URL = "http://a.example.org/1"


def courtesy(**more: float) -> Politeness:
    return Politeness(np.random.default_rng(1), **more)


def verdict(feed: int, at: float, ending: Ending) -> Verdict:
    return Verdict(Refresh(feed, at, ending), Known(feed, URL))


def refreshed(at: float) -> Known:
    return Known(1, URL, validators=Validators('"a"'), last_refresh=at, last_success=at, last_change=at)


def test_a_feed_that_has_earned_nothing_waits_an_hour_and_one_with_a_rate_less() -> None:
    at = courtesy().compute_earliest([refreshed(0.0)] * 2, np.array([np.nan, 1 / 600]), 0.0)
    assert 3600 <= at[0] < 4000
    assert 600 <= at[1] < 700


def test_no_rate_earns_less_than_two_minutes_unless_the_operator_lowers_it() -> None:
    assert courtesy().compute_earliest([refreshed(0.0)], np.array([1.0]), 0.0)[0] >= 120
    assert courtesy(least=5.0).compute_earliest([refreshed(0.0)], np.array([1.0]), 0.0)[0] < 10


def test_a_refusal_holds_the_host_and_an_answer_frees_it() -> None:
    manners = courtesy()
    assert manners.record_answer(verdict(1, 0.0, Ending.CHANGED).refresh, URL, None) is None
    assert manners.record_answer(verdict(1, 0.0, Ending.THROTTLED).refresh, URL, 600.0) == ("example.org", 60.0)
    domain, until = manners.record_answer(verdict(2, 60.0, Ending.UNCHANGED).refresh, URL, None) or ("", 0.0)
    assert (domain, until) == ("example.org", -np.inf)


def test_the_servers_word_holds_even_for_a_person_and_survives_a_restart() -> None:
    manners = courtesy()
    manners.record_answer(verdict(1, 0.0, Ending.THROTTLED).refresh, URL, 600.0)
    again = courtesy()
    again.load(manners.save())
    for one in (manners, again):
        assert one.find_hold(Known(1, URL), 30.0) == 600.0
        assert one.find_hold(Known(2, "http://other.example/"), 30.0) is None
    assert again.held_domains == pytest.approx({"example.org": 60.0})
