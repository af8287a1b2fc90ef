"""A running node reports quality, meets targets, and survives a strategy that breaks."""

from __future__ import annotations

import time

import numpy as np
import pytest
from msgspec.structs import replace

from headwater.assembly import build
from headwater.errors import SettingsError
from headwater.model import Ending, Refresh, Verdict
from headwater.node.crawl import snapshot
from headwater.node.crawl.feed_table import FeedTable
from headwater.node.crawl.scheduler import build_configured_strategy, make_scheduler
from headwater.node.node import Node
from headwater.node.quality import quality_monitor
from headwater.node.quality.belief_sample import BeliefSample
from headwater.node.quality.feed_explanation import explain_feed_schedule
from headwater.node.quality.quality_monitor import QualityMonitor, measure_delays
from headwater.node.quality.quality_report import load_last_report
from headwater.schedule.promise import Calibration, PlanInputs
from headwater.schedule.quality.least_budget import quality_by_budget
from headwater.schedule.quality.loss_forecast import forecast_loss
from headwater.schedule.selection import Budget, Choice
from headwater.schedule.strategies.round_robin import Uniform
from headwater.schedule.strategy import Observed, Table
from headwater.settings import load_settings
from headwater.store.content.feed_state import (
    MovedTime,
    iterate_schedule_rows,
    load_feed_states,
    save_moved_times,
)
from headwater.store.content.feeds import NewFeed
from headwater.store.content.items import count_items
from headwater.store.content.refreshes import list_losses, list_refreshes
from headwater.store.content.verdicts import save_refreshes
from headwater.store.opening import open_store
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.saved_state import load_state
from headwater.times import DAY


class Breaking(Uniform):
    """Works for a while, then raises at every call."""

    name = "breaking"
    chosen = 0

    def choose(self, table: Table, now: float, budget: Budget, candidates=None) -> Choice:  # type: ignore[no-untyped-def]
        raise RuntimeError("I have had enough")


class Learning(Uniform):
    name = "learning"

    def observe(self, table: Table, seen: Observed) -> None:
        raise RuntimeError("too much")

    def save(self):  # type: ignore[no-untyped-def]
        raise RuntimeError("nothing to save")


async def refreshed(node: Node, feeds: int) -> bool:
    return len({one.feed_id for one in await node.store.read(list_refreshes, limit=1000)}) == feeds


async def all_kept(node: Node) -> bool:
    """Return whether both counts agree, which holds between two refreshes."""
    items = sum(one.new for one in await node.store.read(list_refreshes, limit=1000))
    return await node.store.read(count_items) == items > 0


async def test_a_server_that_saw_nothing_published_reports_no_quality(tmp_path) -> None:
    given = load_settings(data=tmp_path)
    async with await open_store(given.database_url) as store:
        (added,) = await store.write(add_and_subscribe, [NewFeed("https://a.example/feed")], 0.0)
        scheduler = make_scheduler(store, given)
        await scheduler.load_feeds()
        monitor = QualityMonitor(store, scheduler, 120.0)
        table = scheduler.feed_table.table
        table.last[:], table.window[:] = 10.0, 1.0
        first = Refresh(added.feed.id, 10.0, Ending.CHANGED, new=10, published=(1.0,) * 10)
        monitor.count_refreshes([(first, None)])
        report = await monitor.make_report(DAY / 2)
        assert report.lost_now > 0  # estimated by beliefs, without data
        assert (report.completeness, report.expected_completeness, report.freshness) == (None, None, None)
        monitor.count_refreshes([(Refresh(added.feed.id, 4000.0, Ending.CHANGED, new=3, lost=1.0), 10.0)])
        later = await monitor.make_report(DAY / 2)
        assert later.completeness == 0.75
        assert later.expected_completeness is not None
        assert later.expected_completeness < 0.75


async def test_losses_are_predicted_anew_after_refreshes_and_every_five_minutes(tmp_path, monkeypatch) -> None:
    predicted: list[int] = []

    def predict(expected, *more):  # type: ignore[no-untyped-def]
        predicted.append(len(expected))
        return forecast_loss(expected, *more)

    monkeypatch.setattr(quality_monitor, "forecast_loss", predict)
    given = load_settings(data=tmp_path)
    async with await open_store(given.database_url) as store:
        added = await store.write(add_and_subscribe, [NewFeed(f"https://a.example/{n}") for n in range(2)], 0.0)
        scheduler = make_scheduler(store, given)
        await scheduler.load_feeds()
        table = scheduler.feed_table.table
        table.last[:] = 10.0
        monitor = QualityMonitor(store, scheduler, 120.0)
        first = await monitor.make_report(DAY)
        assert (await monitor.make_report(DAY + 60.0)).lost_now == first.lost_now
        assert predicted == [2]
        await monitor.make_report(DAY + 300.0)
        assert predicted == [2, 2]
        monitor.count_refreshes([(Refresh(added[0].feed.id, DAY + 301.0, Ending.UNCHANGED), 10.0)])
        await monitor.make_report(DAY + 302.0)
        assert predicted == [2, 2, 2]
        scheduler.feed_table.active[1] = False
        await monitor.make_report(DAY + 303.0)
        assert predicted == [2, 2, 2, 1]


@pytest.mark.parametrize("name", ["Breaking", "Learning"])
async def test_a_persons_own_strategy_that_raises_is_replaced_by_round_robin_and_nothing_is_lost(
    farm, given, eventually, name
) -> None:
    made = await farm(feeds=6, speed=1000, hints=False)
    async with build("node", given(strategy=f"{__name__}:{name}")) as node:
        await node.store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(6)], time.time())
        await eventually(lambda: refreshed(node, 6), "all feeds are refreshed")
        await eventually(lambda: node.status().problem, "the problem is noticed")
        status = node.status()
        assert "uniform has taken over" in str(status.problem)
        assert status.strategy == name.lower()
        node.crawl.scheduler.feed_table.earliest[:] = 0.0
        node.crawl.dispatcher.wake()
        before = len(made.log)
        await eventually(lambda: len(made.log) > before, "round robin goes on")
        await eventually(lambda: all_kept(node), "what refreshes brought is what there is")
        report = await node.maintenance.measure_quality()
        assert report.problem == status.problem
    async with await open_store(given().database_url) as store:  # it stopped and saved nevertheless
        report = await load_last_report(store)
        assert report is not None
        assert report.problem is not None


async def test_the_learned_forecast_is_shown_in_the_report_and_in_the_explanation(farm, given, eventually) -> None:
    made = await farm(feeds=3, speed=20_000, hints=False)
    settings = given(strategy="value", estimator="forecast")
    async with build("node", settings) as node:
        await node.store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(3)], time.time())
        await eventually(lambda: refreshed(node, 3), "all feeds are refreshed")
        await node.maintenance.publish_report()
    async with await open_store(settings.database_url) as store:
        report = await load_last_report(store)
        told = await explain_feed_schedule(store, settings, made.url(0), time.time())
    assert report is not None
    assert report.forecast is not None
    assert "learned forecast" in report.forecast.describe()
    assert "plain estimate" in told.forecast


async def test_the_stored_time_of_the_next_refresh_follows_the_plan(farm, given, eventually) -> None:
    """What lists of feeds show is what an explanation says, not what was planned before there was a price."""
    made = await farm(feeds=4, speed=1.0, hints=False)
    settings = given(strategy="value", least_interval=120.0)
    async with build("node", settings) as node:
        await node.store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(4)], time.time())
        await eventually(lambda: refreshed(node, 4), "all feeds are refreshed")
        await node.maintenance.publish_report()
        scheduler = node.crawl.scheduler
        rows, due = np.arange(4), scheduler.strategy.due
        due[:4] = scheduler.feed_table.table.last[:4] + np.array([3000.0, 4000.0, 5000.0, 6000.0])
        await node.maintenance.publish_report()
        ids = scheduler.feed_table.ids[rows].tolist()
        states = await node.store.read(load_feed_states, ids)
        assert [states[feed].next_refresh for feed in ids] == due[:4].tolist()
        due[0] += 20.0  # too little to tell
        assert scheduler.list_moved_times() == []
        moved = MovedTime(ids[1], shown=0.0, at=5.0)  # a refresh has stored another time since
        await node.store.write(save_moved_times, [moved])
        states = await node.store.read(load_feed_states, ids)
        assert states[ids[1]].next_refresh == due[1]


async def test_the_report_counts_what_the_store_has_and_survives_a_restart(farm, given, eventually) -> None:
    made = await farm(feeds=8, speed=20_000, hints=False)
    settings = given(strategy="top_utility")
    async with build("node", settings) as node:
        await node.store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(8)], time.time())
        await eventually(lambda: refreshed(node, 8), "all feeds are refreshed")

        async def again() -> bool:
            node.crawl.scheduler.feed_table.earliest[:] = 0.0  # no feed waits
            done = await node.store.read(list_refreshes, limit=1000)
            return len(done) >= 40 and sum(one.new > 0 for one in done) > 8

        await eventually(again, "they are refreshed again, and bring something")
        await node.maintenance.publish_report()
    async with await open_store(settings.database_url) as store:
        refreshes = await store.read(list_refreshes, limit=10_000)
        report = await load_last_report(store)
    assert report is not None
    first = {one.feed_id: one for one in refreshes}  # latest first, so each feed's first refresh remains
    later = [one for one in refreshes if one is not first[one.feed_id]]
    assert report.day.requests == len(refreshes)
    assert report.day.got == sum(one.new for one in later)
    assert report.day.lost == pytest.approx(sum(one.lost for one in refreshes))
    assert report.completeness == pytest.approx(report.day.got / (report.day.got + report.day.lost))
    assert report.freshness is not None
    assert 0 <= report.freshness <= 1
    assert report.expected_completeness is not None
    assert report.expected_completeness <= report.completeness
    assert report.feeds == 8
    assert report.used_requests <= report.budget_requests
    if report.day.lost:
        assert report.losing
        assert sum(one.lost for one in report.losing) == pytest.approx(report.day.lost)
    async with build("node", settings) as node:
        assert (await node.maintenance.measure_quality()).day.got >= report.day.got


def test_an_item_waits_since_the_refresh_that_did_not_show_it_at_most() -> None:
    refresh = Refresh(1, 1000.0, Ending.CHANGED, new=3, published=(100.0, 950.0, 1000.0))
    assert measure_delays(refresh, 900.0).tolist() == [100.0, 50.0, 0.0]
    assert measure_delays(refresh, None).tolist() == []


async def test_the_losing_feeds_are_listed_the_worst_first(given) -> None:
    now = time.time()
    async with await open_store(given().database_url) as store:
        added = await store.write(add_and_subscribe, [NewFeed(f"http://h{k}.example/") for k in range(3)], now)
        known = await store.read(load_feed_states, [one.feed.id for one in added])
        for k, lost in enumerate((0.0, 4.0, 9.0)):
            state = replace(known[added[k].feed.id], last_refresh=now, last_success=now)
            await save_refreshes(
                store, [Verdict(Refresh(state.feed_id, now - 5, Ending.CHANGED, new=20, lost=lost), state)]
            )
            await save_refreshes(
                store, [Verdict(Refresh(state.feed_id, now - 2 * DAY, Ending.CHANGED, lost=50.0), state)]
            )
        losses = await store.read(list_losses, since=now - DAY, limit=5)
    assert [(one.feed_id, one.lost, one.refreshes) for one in losses] == [
        (added[2].feed.id, 9.0, 1),
        (added[1].feed.id, 4.0, 1),
    ]


async def test_target_mode_sets_the_least_budget_and_says_what_it_brings(farm, given, eventually) -> None:
    made = await farm(feeds=5, speed=1, hints=False)
    settings = given(strategy="value", target_completeness=0.9, least_interval=120.0, budget=500.0)
    async with build("node", settings) as node:
        await node.store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(5)], time.time())
        await eventually(lambda: refreshed(node, 5), "all feeds are refreshed")
        await node.maintenance.publish_report()  # as after a minute; at the start there were no beliefs
        status = node.status()
        assert status.target_reached is True
        assert await node.store.read(load_state, "strategy") is not None  # read by `explain` in another process
        assert "requests per minute are expected to bring completeness" in str(status.target)
        assert 1 <= status.budget_per_minute < 500
        assert (await node.maintenance.measure_quality()).target == status.target


async def test_a_target_beyond_the_budget_is_reported_to_be_out_of_reach_and_the_budget_kept(
    farm, given, eventually
) -> None:
    made = await farm(feeds=30, speed=1, hints=False)
    settings = given(strategy="value", target_delay=61.0, least_interval=120.0, budget=2.0)
    async with build("node", settings) as node:
        node.crawl.scheduler.budget.set_limit(10_000)
        await node.store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(30)], time.time())
        await eventually(lambda: refreshed(node, 30), "all feeds are refreshed")
        await node.maintenance.update_target_budget()
        status = node.status()
        assert status.target_reached is False
        assert "possible is completeness" in str(status.target)
        assert status.budget_per_minute == 2.0


async def test_a_target_needs_a_strategy_that_believes_something(given) -> None:
    with pytest.raises(SettingsError, match="believes nothing"):
        async with build("node", given(strategy="uniform", target_completeness=0.9)):
            pass


def test_a_saved_sample_of_beliefs_predicts_the_same() -> None:
    rng = np.random.default_rng(3)
    inputs = PlanInputs.of(rng.exponential(1 / 3600, 60), np.full(60, 20.0), np.ones(60))
    inputs = PlanInputs(
        inputs.beliefs, inputs.constraints, inputs.objective, Calibration(demand=1.1, lost=rng.uniform(0.5, 2, 60))
    )
    sample = BeliefSample(inputs, 5.0)
    again = BeliefSample.decode(sample.encode())
    assert again.budget == 5.0
    assert quality_by_budget(again.inputs, [1.0, 5.0]) == quality_by_budget(inputs, [1.0, 5.0])


async def test_saved_state_of_another_version_is_put_aside_with_a_sentence(given, monkeypatch, capsys) -> None:
    settings = given(strategy="fix_1h")
    async with await open_store(settings.database_url) as store:
        await store.write(add_and_subscribe, [NewFeed("http://a.example/")], 0.0)
        roster, strategy = FeedTable(), build_configured_strategy(settings)
        async for chunk in iterate_schedule_rows(store):
            roster.upsert_feeds(chunk, {})
        strategy.resize(1)
        async with build("node", settings) as node:
            await node.maintenance.save_state()
        assert await snapshot.load_snapshot(store, roster, strategy)
        monkeypatch.setattr(type(strategy), "version", 99)
        assert not await snapshot.load_snapshot(store, roster, strategy)
        said = capsys.readouterr().out
        assert "strategy_state_ignored" in said
        assert "start without it" in said
        assert len(strategy.choose(roster.table, 1.0, Budget(1)).rows) == 1
