"""A node learns from the log the refreshes of other processes, and those that a killed node had not saved."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pytest

from headwater.assembly import build
from headwater.fetch.client import Fetcher
from headwater.model import Ending, Known, Refresh
from headwater.node.crawl.feed_table import FeedTable
from headwater.node.crawl.lessons import Lesson, replay_refreshes, teach_strategy
from headwater.node.new_feed import STORE_SECONDS, add_feed_from_address
from headwater.schedule import STRATEGIES
from headwater.schedule.strategy import Strategy
from headwater.store.content.feed_state import ScheduleRow
from headwater.store.content.feeds import NewFeed
from headwater.store.content.refreshes import list_refreshes
from headwater.store.opening import open_store
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.times import DAY

FEEDS = 5


def row(feed: int, last: float | None = None) -> ScheduleRow:
    url = f"http://{feed}.example/"
    return ScheduleRow(feed, url, 1.0, None, False, None, 0, last, last, None, None, None, None, 0, None)


def knowing(name: str) -> tuple[Strategy, FeedTable]:
    strategy, roster = STRATEGIES[name](), FeedTable()
    roster.upsert_feeds([row(feed) for feed in range(FEEDS)], {})
    strategy.resize(FEEDS)
    return strategy, roster


def log(days: int) -> list[Refresh]:
    rng, told = np.random.default_rng(1), []
    for day in range(1, days + 1):
        for feed in range(FEEDS):
            at = day * DAY + 60.0 * feed
            dates = np.sort(rng.uniform(at - DAY, at, rng.poisson(3.0)))
            told.append(Refresh(feed, at, Ending.CHANGED, new=len(dates), window=20, published=tuple(dates.tolist())))
    return told


def live(strategy: Strategy, roster: FeedTable, told: list[Refresh]) -> None:
    for first in range(0, len(told), FEEDS):
        batch = told[first : first + FEEDS]
        lessons = [Lesson(one, Known(one.feed_id, ""), "", shown=one.published) for one in batch]
        teach_strategy(strategy, roster, [(one.refresh.feed_id, one) for one in lessons])


@pytest.mark.parametrize("name", ["value", "two_steps", "miniflux_entry_frequency"])
def test_learning_from_the_log_is_learning_live(name: str) -> None:
    told = log(12)
    one, other = knowing(name), knowing(name)
    live(*one, told)
    live(*other, told[: 5 * FEEDS])  # then it was killed
    replay_refreshes(*other, told[3 * FEEDS :][::-1])  # some of it twice, and out of order
    for key, array in one[0].save().items():
        assert np.array_equal(array, other[0].save()[key], equal_nan=array.dtype.kind == "f"), key
    assert np.array_equal(one[1].table.last, other[1].table.last)
    assert not len(other[1].unlearned)


async def test_a_feed_added_with_its_first_items_is_believed_and_left_in_peace(farm, given, eventually) -> None:
    made = await farm(feeds=4, speed=1)  # its hints ask for minutes
    settings = given(strategy="value", least_interval=60.0)
    async with (
        await open_store(settings.database_url) as store,
        Fetcher(allow_private=True) as fetcher,
    ):

        async def add(k: int) -> int:
            told = await add_feed_from_address(
                store, fetcher, made.url(k), now=time.time(), choose=lambda _, found: found[0]
            )
            return told.feed.id

        early = await add(0)
        async with build("node", settings) as node:
            late = await add(1)
            roster = node.crawl.scheduler.feed_table
            await eventually(
                lambda: (k := roster.find_row(late)) is not None and roster.learned_until[k] > 0, "it is noticed"
            )
            await asyncio.sleep(1.0)
            for feed in (early, late):
                [first] = await store.read(list_refreshes, feed)  # no second request
                estimator, here = node.crawl.scheduler.strategy.estimator, np.array([roster.find_row(feed)])
                assert estimator is not None
                [believed] = estimator.daily_rate(here, np.array([first.at])) * DAY
                shown = (first.new - 1) / (first.at - first.published[0]) * DAY
                assert shown / 5 < believed < 2 * shown  # one document is weak evidence
                assert roster.earliest[roster.find_row(feed)] > first.at + 59
    assert len(made.log) == 2


async def test_what_a_command_refreshed_while_nobody_watched_is_known_after_the_start(farm, given) -> None:
    made = await farm(feeds=1, speed=1)
    settings = given(strategy="value", least_interval=60.0)
    async with await open_store(settings.database_url) as store, Fetcher(allow_private=True) as fetcher:
        told = await add_feed_from_address(
            store, fetcher, made.url(0), now=time.time(), choose=lambda _, found: found[0]
        )
        async with build("node", settings):
            pass
        [first] = await store.read(list_refreshes, told.feed.id)
        async with build("node", settings) as node:  # the state was saved, so nothing is learned twice
            [at] = node.crawl.scheduler.feed_table.learned_until
            assert at == first.at


async def test_a_feed_whose_first_refresh_is_being_stored_is_not_asked(farm, given, eventually) -> None:
    made = await farm(feeds=2, speed=1)
    settings = given(strategy="value")
    async with await open_store(settings.database_url) as store, build("node", settings):
        new = [NewFeed(made.url(0), not_before=time.time() + STORE_SECONDS), NewFeed(made.url(1))]
        await store.write(add_and_subscribe, new, time.time())
        await eventually(lambda: made.log, "the other feed is asked")
        await asyncio.sleep(0.5)
        assert {one.path for one in made.log} == {"/feeds/1"}
