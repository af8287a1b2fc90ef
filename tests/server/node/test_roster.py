"""The crawler's table of feeds stays correct while feeds are added and removed."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.node.crawl.feed_table import FeedTable
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.scheduler import Scheduler, make_budget_account
from headwater.node.queries.demand import Demand
from headwater.schedule import STRATEGIES
from headwater.settings import load_settings
from headwater.store.content.feed_state import ScheduleRow, iterate_schedule_rows
from headwater.store.content.feeds import NewFeed, list_feeds
from headwater.store.opening import open_store
from headwater.store.readers.subscriptions import add_and_subscribe


def row(feed: int, url: str | None = None, **more: object) -> ScheduleRow:
    blank = ScheduleRow(
        feed,
        url or f"http://{feed}.example/rss",
        1.0,
        None,
        False,
        None,
        0,
        None,
        None,
        None,
        None,
        None,
        None,
        0,
        None,
    )
    return blank._replace(**more)  # type: ignore[arg-type]


def test_a_feed_that_is_taken_twice_keeps_its_row_and_gets_its_new_state() -> None:
    roster = FeedTable()
    roster.upsert_feeds([row(7), row(9)], {})
    roster.upsert_feeds([row(9, weight=3.0, window=15)], {9: 500.0})
    assert (len(roster), roster.find_row(7), roster.find_row(9)) == (2, 0, 1)
    assert (roster.table.weight[1], roster.table.window[1], roster.earliest[1]) == (3.0, 15.0, 500.0)


def test_the_longest_pause_that_a_person_allows_is_a_column() -> None:
    roster = FeedTable()
    roster.upsert_feeds([row(7, interval=600.0), row(9)], {})
    assert roster.at_most.tolist() == [600.0, np.inf]
    roster.upsert_feeds([row(7), row(9, interval=1200.0)], {})
    assert roster.at_most.tolist() == [np.inf, 1200.0]


def test_an_answer_of_the_store_before_a_refresh_was_written_does_not_make_the_feed_due_again() -> None:
    roster = FeedTable()
    roster.upsert_feeds([row(1), row(2), row(3)], {})
    roster.earliest[:] = roster.table.last[:] = 900.0  # all three have been refreshed …
    roster.in_flight[roster.find_rows([1])] = True  # … and the first is not written yet
    roster.release_feeds([2], moment=50.0)
    roster.release_feeds([3], moment=20.0)
    roster.upsert_feeds([row(k, weight=2.0) for k in (1, 2, 3)], {}, since=40.0)
    assert roster.ids[roster.find_candidates(100.0) | roster.in_flight].tolist() == [1, 3]
    assert roster.table.weight.tolist() == [2.0, 2.0, 2.0]  # changes by other processes count
    assert roster.table.last.tolist() == [900.0, 900.0, -np.inf]


def test_only_active_idle_feeds_past_their_moment_are_candidates() -> None:
    roster = FeedTable()
    roster.upsert_feeds([row(1), row(2, paused=True), row(3, gone_since=5.0), row(4), row(5), row(6)], {4: 200.0})
    roster.in_flight[roster.find_rows([5])] = True
    roster.remove_feeds([6])
    assert roster.ids[roster.find_candidates(100.0)].tolist() == [1]
    assert roster.ids[roster.find_candidates(200.0)].tolist() == [1, 4]


def test_a_host_that_asked_to_be_left_alone_holds_back_all_its_feeds() -> None:
    roster = FeedTable()
    roster.upsert_feeds([row(1, "http://a.example.org/x"), row(2, "http://b.example.org/y"), row(3)], {})
    roster.hold_host("example.org", 60.0)
    assert roster.ids[roster.find_candidates(59.0)].tolist() == [3]
    assert roster.ids[roster.find_candidates(60.0)].tolist() == [1, 2, 3]


def test_a_host_has_room_for_what_is_not_under_way() -> None:
    roster = FeedTable()
    roster.upsert_feeds([row(k, "http://a.example/") for k in (1, 2, 3)] + [row(4)], {})
    roster.in_flight[[0, 1]] = True
    assert roster.compute_host_room(3).tolist() == [1, 3]
    assert roster.compute_host_room(1).tolist() == [0, 1]


def test_hosts_beyond_the_first_room_keep_what_was_held() -> None:
    roster = FeedTable()
    roster.upsert_feeds([row(0)], {})
    roster.hold_host(roster_host(0), 10.0)
    roster.upsert_feeds([row(k) for k in range(1, 500)], {})
    assert not roster.find_candidates(5.0)[0]
    assert np.count_nonzero(roster.find_candidates(5.0)) == 499


def roster_host(feed: int) -> str:
    return f"{feed}.example"


_TIMES = st.none() | st.floats(0, 1e9)
_FEEDS = st.lists(
    st.builds(
        row,
        st.integers(1, 9),
        st.sampled_from(["http://a.example/", "http://b.a.example/x", "http://c.example/"]),
        weight=st.floats(0, 5),
        paused=st.booleans(),
        gone_since=_TIMES,
        window=st.integers(0, 50),
        last_success=_TIMES,
    ),
    unique_by=lambda feed: feed.feed_id,
)


@given(_FEEDS, st.dictionaries(st.integers(1, 9), st.floats(0, 1e9)), st.sets(st.integers(1, 9)))
def test_feeds_that_come_all_at_once_are_as_if_they_had_come_one_by_one_and_again(
    feeds: list[ScheduleRow], allowed: dict[int, float], wanted: set[int]
) -> None:
    once, again = FeedTable(), FeedTable()
    for roster in (once, again):
        roster.set_demand({feed: Demand(2.0, 0.5) for feed in wanted})
    once.upsert_feeds(feeds, allowed)
    for feed in [*feeds, *feeds]:
        again.upsert_feeds([feed], allowed)
    for name in ("ids", "host", "earliest", "active", "in_flight", "learned_until", "host_count"):
        assert np.array_equal(getattr(once, name), getattr(again, name)), name
    for name in ("weight", "selectivity", "window", "last"):
        assert np.array_equal(getattr(once.table, name), getattr(again.table, name)), name


async def test_a_start_with_many_chunks_of_feeds_takes_every_one_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iterate_schedule_rows, "__defaults__", (3,))
    async with await open_store(f"sqlite:///{tmp_path}/db") as store:
        await store.write(add_and_subscribe, [NewFeed(f"http://{k}.example/rss") for k in range(40)], 1.0)
        decider = Scheduler(
            store, STRATEGIES["value"](), make_budget_account(load_settings()), Politeness(random.Random(1))
        )
        for _ in range(2):
            await decider.load_feeds()
            assert sorted(decider.feed_table.ids.tolist()) == [feed.id for feed in await store.read(list_feeds)]
            assert len(decider.strategy) == len(decider.feed_table) == 40
