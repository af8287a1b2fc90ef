"""Politeness between refreshes: feeds wait, hosts that refuse are left alone, and a restart does not forget it."""

from __future__ import annotations

import random

import numpy as np
import pytest

from headwater.model import Ending, Known, Refresh, Validators, Verdict
from headwater.node.crawl.politeness import Politeness

URL = "http://a.example.org/1"


def courtesy(**more: float) -> Politeness:
    return Politeness(random.Random(1), **more)


def verdict(feed: int, at: float, ending: Ending) -> Verdict:
    return Verdict(Refresh(feed, at, ending), Known(feed, URL))


def refreshed(at: float) -> Known:
    return Known(1, URL, validators=Validators('"a"'), last_refresh=at, last_success=at, last_change=at)


def test_no_feed_is_asked_twice_within_two_minutes_unless_the_operator_lowers_it() -> None:
    for least, politeness in ((120.0, courtesy()), (5.0, courtesy(least=5.0))):
        facts = politeness.gather_facts([refreshed(0.0)])
        assert politeness.compute_earliest(facts, 0.0).tolist() == [least]
        assert politeness.compute_pauses(facts)[0].tolist() == [least]


def test_a_refusal_holds_the_host_and_an_answer_frees_it() -> None:
    manners = courtesy()
    assert manners.record_answer(verdict(1, 0.0, Ending.CHANGED).refresh, URL, None) is None
    assert manners.record_answer(verdict(1, 0.0, Ending.THROTTLED).refresh, URL, 600.0) == ("example.org", 60.0)
    domain, until = manners.record_answer(verdict(2, 60.0, Ending.UNCHANGED).refresh, URL, None) or ("", 0.0)
    assert (domain, until) == ("example.org", pytest.approx(80.0, abs=0.1)), "the next request keeps a gap of 20 s"
    later = manners.record_answer(verdict(2, 30 * 86400.0, Ending.UNCHANGED).refresh, URL, None)
    assert later == ("example.org", -np.inf)


def test_the_servers_word_holds_even_for_a_person_and_survives_a_restart() -> None:
    manners = courtesy()
    manners.record_answer(verdict(1, 0.0, Ending.THROTTLED).refresh, URL, 600.0)
    again = courtesy()
    again.load(manners.save())
    for one in (manners, again):
        assert one.find_hold(Known(1, URL), 30.0) == 600.0
        assert one.find_hold(Known(2, "http://other.example/"), 30.0) is None
    assert again.held_domains == pytest.approx({"example.org": 60.0})
