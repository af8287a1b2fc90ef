"""The scope of a Retry-After is learned from later answers."""

from __future__ import annotations

from headwater.schedule.politeness.host_backoff import (
    GAP,
    MAX_GAP,
    PROBE,
    HostState,
    RetryAfterScope,
    note_answer,
    note_refusal,
)
from headwater.times import DAY, HOUR, WEEK


def test_the_first_refusal_holds_the_feed_and_lets_another_probe() -> None:
    host = note_refusal(HostState(), 1, 0.0, HOUR)
    assert host.blocked_until(1) == HOUR
    assert host.blocked_until(2) == PROBE


def test_refused_probe_means_the_whole_host() -> None:
    host = note_refusal(note_refusal(HostState(), 1, 0.0, HOUR), 2, 60.0, HOUR)
    assert host.scope is RetryAfterScope.HOST
    assert host.blocked_until(77) == 60 + HOUR


def test_answered_probe_means_the_feed() -> None:
    host = note_answer(note_refusal(HostState(), 1, 0.0, HOUR), 2, 60.0)
    assert host.scope is RetryAfterScope.FEED
    assert host.blocked_until(1) == HOUR
    assert host.blocked_until(2) is None


def test_a_host_known_to_mean_everybody_is_held_at_once_the_next_time() -> None:
    host = note_refusal(note_refusal(HostState(), 1, 0.0, HOUR), 2, 60.0, HOUR)
    host = note_answer(host, 1, 2 * HOUR)
    assert host.blocked_until(2) is None
    assert note_refusal(host, 1, 3 * HOUR, HOUR).blocked_until(2) == 4 * HOUR


def test_a_host_known_to_mean_the_feed_leaves_the_others_alone() -> None:
    host = note_answer(note_refusal(HostState(), 1, 0.0, HOUR), 2, 60.0)
    host = note_answer(host, 1, 2 * HOUR)
    again = note_refusal(host, 1, 3 * HOUR, HOUR)
    assert again.blocked_until(2) is None
    assert again.blocked_until(1) == 4 * HOUR


def test_contrary_evidence_overturns_the_scope() -> None:
    feedwise = note_answer(note_refusal(HostState(), 1, 0.0, HOUR), 2, 60.0)
    assert note_refusal(feedwise, 3, 90.0, HOUR).scope is RetryAfterScope.HOST
    hostwise = note_refusal(note_refusal(HostState(), 1, 0.0, HOUR), 2, 60.0, HOUR)
    in_flight = note_answer(hostwise, 3, 61.0)
    assert in_flight.scope is RetryAfterScope.FEED
    assert in_flight.blocked_until(4) is None


def test_scope_is_learned_again_after_a_week() -> None:
    host = note_refusal(note_refusal(HostState(), 1, 0.0, HOUR), 2, 60.0, HOUR)
    assert note_refusal(host, 1, WEEK + DAY, HOUR).scope is RetryAfterScope.UNKNOWN


def test_refusals_slow_the_rate_and_answers_restore_it() -> None:
    host = HostState()
    for k in range(20):
        host = note_refusal(host, k, float(k), None)
    assert host.gap == MAX_GAP
    for k in range(40):
        host = note_answer(host, k, 10 * DAY + k)
    assert host.gap == GAP
    assert host.blocked_until(3) is None


def test_a_host_with_thousands_of_refused_feeds_keeps_a_bounded_memory() -> None:
    host = HostState()
    for k in range(1000):
        host = note_refusal(host, k, float(k), HOUR)
    assert len(host.held) <= 100
    assert host.blocked_until(5) == 999 + HOUR  # by the host, although the feed's own entry was dropped
