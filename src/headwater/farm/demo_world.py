"""Builds the world of the demo: feeds with a past, queries, alerts, a failing feed and one that loses items."""

from __future__ import annotations

import sys
from dataclasses import replace

from headwater.farm.farm import Farm
from headwater.farm.farm_history import FarmHistory, OnProgress, VirtualClock
from headwater.farm.faults import Fault
from headwater.farm.timeline import FarmProfile, make_profile
from headwater.settings import Settings
from headwater.store.content.feeds import NewFeed
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store
from headwater.times import DAY

RATES = (0.5, 30.0)  # items a day
WINDOW, SHORT_WINDOW = 12, 2  # items in a document, and in that of the feed that loses items
BUSIEST_RATE = 120.0  # items a day
FAILING_DAYS = 2.0  # for how long one feed has been failing
BUDGET = 0.5  # requests per minute: little, so that there is something to decide
TAG = "demo"
SCRIPT = """
CREATE FEED Volcanoes AS RETURN ALL WHERE TITLE CONTAINS "volcano" OR "lava"
TARGET DELAY <= 1 HOUR DELIVER TO WEBHOOK "{hook}";
CREATE FEED Elections AS RETURN ALL WHERE ITEM CONTAINS "election" OR "parliament" IMPORTANCE 3;
CREATE FEED Wire AS RETURN busiest TARGET COMPLETENESS >= 0.99;
"""


class DemoFarm(Farm):
    """A farm whose busiest feed is busier still, so that its short document cannot show everything."""

    def feed_profile(self, feed: int) -> FarmProfile:
        profile = super().feed_profile(feed)
        return replace(profile, rate=BUSIEST_RATE / DAY) if feed in self.windows else profile


def make_demo_farm(feeds: int, seed: int, speed: float, clock: VirtualClock, started: float, port: int = 0) -> Farm:
    """Make the farm of the demo. The busiest feed shows only its two newest items, and so loses some."""
    rates = [make_profile(seed, feed, RATES).rate for feed in range(feeds)]
    hosts = min(feeds, 60) if sys.platform == "linux" else 1  # elsewhere there is only one loopback address
    return DemoFarm(
        feeds,
        seed,
        speed,
        WINDOW,
        port=port,
        hosts=hosts,
        rates=RATES,
        clock=clock,
        started=started,
        windows={rates.index(max(rates)): SHORT_WINDOW},
    )


async def add_demo_feeds(store: Store, farm: Farm, at: float) -> None:
    """Add the feeds of the farm and the queries of the demo."""
    rates = [farm.feed_profile(feed).rate for feed in range(farm.feeds)]
    busiest = rates.index(max(rates))
    new = [
        NewFeed(
            farm.url(feed),
            title=farm.feed_profile(feed).title,
            name="busiest" if feed == busiest else None,
            tags=(TAG, farm.feed_profile(feed).topic),
        )
        for feed in range(farm.feeds)
    ]
    await store.write(add_and_subscribe, new, at)
    await store.write(run_script, SCRIPT.format(hook=f"{farm.base_url()}/hook"), at)


def make_demo_history(store: Store, settings: Settings, farm: Farm, clock: VirtualClock, now: float) -> FarmHistory:
    """Make the past of the farm, in which the quietest feed fails in the last days before `now`."""
    rates = [farm.feed_profile(feed).rate for feed in range(farm.feeds)]
    failing = {rates.index(min(rates)): (now - FAILING_DAYS * DAY / farm.clock.speed, Fault("500"))}
    return FarmHistory(farm, store, settings, clock, failing if farm.feeds > 1 else {})


async def replay_demo(history: FarmHistory, start: float, on_progress: OnProgress) -> None:
    """Add the feeds and queries of the demo at `start`, and live from then on."""
    history.clock.now = start
    await add_demo_feeds(history.store, history.farm, start)
    await history.replay(start, on_progress)
