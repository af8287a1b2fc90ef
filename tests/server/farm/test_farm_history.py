"""The replayed past of a farm is true: items, losses, promises and alerts follow from its publications."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.farm.demo_world import SHORT_WINDOW, make_demo_farm, make_demo_history, replay_demo
from headwater.farm.farm_history import VirtualClock
from headwater.node.quality.promises import load_promises
from headwater.node.quality.quality_report import load_last_report
from headwater.schedule.plan_facts import RESERVE
from headwater.settings import load_settings
from headwater.store.content.feeds import list_feeds
from headwater.store.content.items import list_items
from headwater.store.content.refreshes import list_refreshes, summarise_activity
from headwater.store.opening import open_store
from headwater.store.publishing.deliveries import count_deliveries
from headwater.times import DAY


async def test_two_days_of_eight_feeds_are_replayed_as_they_were(tmp_path: Path) -> None:
    given = load_settings(data=tmp_path, allow_private=True, budget=0.2, per_host=16)
    clock, now = VirtualClock(), 1_800_000_000.0
    start = now - 2.5 * DAY
    farm = make_demo_farm(8, 1, 1.0, clock, start, port=8950)
    shown: list[tuple[int, int]] = []
    async with await open_store(given.database_url) as store:
        history = replace(make_demo_history(store, given, farm, clock, now), present=lambda: now, limit=1e9)
        await replay_demo(history, start, lambda done, total: shown.append((done, total)))
        assert clock.now is None
        assert not history.hurried
        assert shown == sorted(shown)
        clock.now = now
        published = {farm.item_identity(k, one.number) for k in range(8) for one in farm.published_items(k)}
        stored = await store.read(list_items, limit=10_000)
        fresh = [one for one in stored if one.published >= start]
        assert {one.identity for one in fresh} <= published
        assert all(one.first_seen >= one.published for one in fresh)
        report = await load_last_report(store)
        assert report is not None
        assert report.strategy == "value"  # the server's default
        summary = await store.read(summarise_activity, now)
        assert summary.failing == 1
        refreshes = await store.read(list_refreshes, limit=100_000)
        losing = max(range(8), key=lambda k: farm.feed_profile(k).rate)
        caught = {one.identity for one in fresh if one.feed_id == losing + 1}
        lost = len({farm.item_identity(losing, one.number) for one in farm.published_items(losing)} - caught)
        noticed = sum(one.lost for one in refreshes)
        assert lost > 2
        assert noticed == pytest.approx(lost, rel=0.5)  # a loss is noticed, but its size is estimated
        assert all(one.window == SHORT_WINDOW for one in refreshes if one.feed_id == losing + 1 and one.window)
        for feed in await store.read(list_feeds):
            moments = sorted(one.at for one in refreshes if one.feed_id == feed.id)
            assert all(b - a >= given.least_interval - 1 for a, b in itertools.pairwise(moments))
        asked = sorted(one.at for one in refreshes)  # one request in five minutes, also from one step to the next
        assert all(b - a >= 300 - 1 for a, b in itertools.pairwise(asked))
        assert report.used_requests <= 1
        promises = {one.query: one for one in await load_promises(store, now)}
        assert set(promises) == {None, "Volcanoes", "Wire"}
        assert promises[None].day.items == round(report.day.got + report.day.lost)  # the same count on both pages
        assert promises["Wire"].kept is not True
        completeness = promises["Wire"].week.completeness
        assert completeness is not None
        assert completeness < 0.99
        counted = await store.read(count_deliveries)
        assert set(counted) <= {"sent", "due"}
        assert counted["sent"] > 0


async def test_the_limits_of_the_replay_are_known_to_the_plan(tmp_path: Path) -> None:
    """The replay polls a feed once in a step; what is said to be possible must not assume more.

    With a poll an hour, as long ago, the budget would not be scarce. Steps are fine in the last day at least.
    """
    given = load_settings(data=tmp_path, allow_private=True, budget=0.2, per_host=16)
    clock, now = VirtualClock(), 1_800_000_000.0
    start = now - 2 * DAY
    farm = make_demo_farm(4, 1, 1.0, clock, start, port=8950)
    async with await open_store(given.database_url) as store:
        history = replace(make_demo_history(store, given, farm, clock, now), present=lambda: now, limit=0.0)
        await replay_demo(history, start, lambda done, total: None)
        promises = {one.query: one for one in await load_promises(store, now)}
        report = await load_last_report(store)
    assert report is not None
    assert all("requires 1 h" not in one.helps for one in report.losing)
    assert "than a feed shows, even if it is polled every 10 min" in promises["Wire"].why
    assert history.hurried
    assert report.price is not None
    assert report.price > 10 * RESERVE
