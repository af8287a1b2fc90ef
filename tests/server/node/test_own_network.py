"""An outage of the node's own network is detected, no feed is blamed, and fetching resumes when it ends."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace
from test_restart_and_clock import SteppingClock, crawl, settled

from headwater.model import Ending, Known, Outcome
from headwater.node.crawl.dispatcher import JobOrder, make_local_job
from headwater.node.crawl.network_outage import OutageDetector
from headwater.node.crawl.transport import FetchResult
from headwater.schedule.politeness.rules import BACK_OFF
from headwater.store.content.feed_state import load_feed_states

NOW = 1_000_000.0


def result(host: int, ending: Ending, status: int | None = None, **known: object) -> FetchResult:
    url = f"http://host{host}.example/feed"
    well = {"last_success": NOW - 3600} | known
    job = make_local_job(replace(Known(host, url), **well), JobOrder(host, 0, "due", None, False))
    return FetchResult(job, Outcome(ending, url, url, NOW, 1.0, status=status))


def lost(*hosts: int) -> list[FetchResult]:
    return [result(host, Ending.DNS) for host in hosts]


def test_three_hosts_in_a_row_without_an_answer_and_the_network_is_away() -> None:
    network = OutageDetector()
    assert network.sort_results(lost(1, 2), 9, (), NOW).counted == []
    sifted = network.sort_results(lost(3), 9, (), NOW)
    assert [one.feed_id for one in sifted.again] == [1, 2, 3]
    assert network.away_since == NOW
    assert network.sort_results(lost(4), 9, (), NOW).again == lost(4)
    back = result(5, Ending.BROKEN, 500)  # even an error is an answer
    assert network.sort_results([back], 9, (), NOW).counted == [back]
    assert network.away_since is None


def test_an_answer_from_anywhere_lays_the_blame_on_those_who_gave_none() -> None:
    network = OutageDetector()
    answer = result(3, Ending.UNCHANGED, 304)
    assert network.sort_results([*lost(1, 2), answer, *lost(4, 5)], 9, (), NOW).counted == [*lost(1, 2), answer]
    assert network.away_since is None


def test_one_host_with_many_feeds_is_one_host() -> None:
    network = OutageDetector()
    many = [replace(one, job=replace(one.job, feed_id=k)) for k in range(20) for one in lost(1)]
    network.sort_results(many, 9, (), NOW)
    assert network.away_since is None


def test_who_failed_before_or_never_answered_or_is_wished_for_proves_nothing() -> None:
    network = OutageDetector()
    failing = [result(k, Ending.TIMEOUT, failures=2) for k in range(5)]
    new = [result(k, Ending.CONNECTION, last_success=None) for k in range(5, 10)]
    wished = lost(*range(10, 15))
    assert network.sort_results([*failing, *new, *wished], 99, range(10, 15), NOW).counted == [*failing, *new, *wished]
    assert network.sort_results(lost(1, 2, 3), 2, (), NOW).counted == lost(1, 2, 3), "too few hosts to tell"
    assert network.away_since is None


def test_suspects_of_which_nothing_more_is_heard_count_when_they_could_be_asked_again() -> None:
    network = OutageDetector()
    network.sort_results(lost(1, 2), 9, (), NOW)
    assert network.release_suspects([2, 7]) == lost(2)
    assert network.sort_results(lost(1), 9, (), NOW + BACK_OFF).counted == lost(1)


async def test_an_outage_costs_no_feed_its_place_and_ends_with_the_first_answer(farm, given, eventually) -> None:
    made = await farm(feeds=12, hosts=6, speed=1, hints=False)
    clock = SteppingClock()
    crawler, end = await crawl(made, given(), clock, budget=100_000)
    await eventually(lambda: settled(crawler) == 12, "all feeds refreshed once")
    await made.stop()
    clock.offset += 7200.0
    await eventually(lambda: crawler.status().network_away_since is not None, "the outage is noticed")
    await asyncio.sleep(0.6)  # failing probes
    asked = len(made.log)
    await made.start()
    await eventually(lambda: crawler.status().network_away_since is None, "somebody answers")
    await eventually(lambda: len({line.feed for line in list(made.log)[asked:]}) == 12, "all are asked again at once")
    await eventually(lambda: not crawler.scheduler.feed_table.in_flight.any(), "and written")
    known = await crawler.scheduler._store.read(load_feed_states, range(1, 13))
    await end()
    assert [one.failures for one in known.values()] == [0] * 12
