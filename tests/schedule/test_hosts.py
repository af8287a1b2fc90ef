"""Retry-After: the scope is learned from what happens."""

from __future__ import annotations

from headwater.estimate.base import DAY, HOUR, WEEK
from headwater.schedule.hosts import GAP, GAP_MOST, PROBE, Host, Scope, answered, refused


def test_the_first_refusal_holds_the_feed_and_lets_another_probe() -> None:
    host = refused(Host(), 1, 0.0, HOUR)
    assert host.until(1) == HOUR
    assert host.until(2) == PROBE


def test_a_probe_that_is_refused_makes_it_the_whole_host() -> None:
    host = refused(refused(Host(), 1, 0.0, HOUR), 2, 60.0, HOUR)
    assert host.scope is Scope.HOST
    assert host.until(77) == 60 + HOUR


def test_a_probe_that_is_answered_makes_it_the_feed() -> None:
    host = answered(refused(Host(), 1, 0.0, HOUR), 2, 60.0)
    assert host.scope is Scope.FEED
    assert host.until(1) == HOUR
    assert host.until(2) is None


def test_a_host_known_to_mean_everybody_is_held_at_once_the_next_time() -> None:
    host = refused(refused(Host(), 1, 0.0, HOUR), 2, 60.0, HOUR)
    host = answered(host, 1, 2 * HOUR)
    assert host.until(2) is None
    assert refused(host, 1, 3 * HOUR, HOUR).until(2) == 4 * HOUR


def test_a_host_known_to_mean_the_feed_leaves_the_others_alone() -> None:
    host = answered(refused(Host(), 1, 0.0, HOUR), 2, 60.0)
    host = answered(host, 1, 2 * HOUR)
    again = refused(host, 1, 3 * HOUR, HOUR)
    assert again.until(2) is None
    assert again.until(1) == 4 * HOUR


def test_contrary_evidence_overturns_a_belief() -> None:
    feedwise = answered(refused(Host(), 1, 0.0, HOUR), 2, 60.0)
    assert refused(feedwise, 3, 90.0, HOUR).scope is Scope.HOST
    hostwise = refused(refused(Host(), 1, 0.0, HOUR), 2, 60.0, HOUR)
    in_flight = answered(hostwise, 3, 61.0)
    assert in_flight.scope is Scope.FEED
    assert in_flight.until(4) is None


def test_a_belief_is_learned_anew_after_a_week() -> None:
    host = refused(refused(Host(), 1, 0.0, HOUR), 2, 60.0, HOUR)
    assert refused(host, 1, WEEK + DAY, HOUR).scope is Scope.UNKNOWN


def test_refusals_slow_the_pace_and_answers_mend_it() -> None:
    host = Host()
    for k in range(20):
        host = refused(host, k, float(k), None)
    assert host.gap == GAP_MOST
    for k in range(40):
        host = answered(host, k, 10 * DAY + k)
    assert host.gap == GAP
    assert host.until(3) is None


def test_a_host_with_thousands_of_refused_feeds_keeps_a_bounded_memory() -> None:
    host = Host()
    for k in range(1000):
        host = refused(host, k, float(k), HOUR)
    assert len(host.held) <= 100
    assert host.until(5) == 999 + HOUR  # by the host, though the feed's own line is forgotten
