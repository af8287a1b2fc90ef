"""A command that refreshes many feeds blames none of them for an outage of its own network."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import BudgetExhausted
from headwater.fetch.client import Fetcher
from headwater.model import Outcome
from headwater.node.crawl.bulk_refresh import refresh_many
from headwater.store.content.feed_state import load_feed_states
from headwater.store.content.feeds import NewFeed, list_feeds
from headwater.store.content.refreshes import list_refreshes
from headwater.store.opening import open_store
from headwater.store.readers.subscriptions import add_and_subscribe


async def test_servers_that_are_all_silent_are_not_blamed_unless_they_were_named(
    farm, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr("headwater.node.crawl.bulk_refresh.CHUNK", 4)
    made = await farm(feeds=10, hosts=5, speed=1, hints=False)
    async with await open_store(f"sqlite:///{tmp_path}/db") as store, Fetcher(allow_private=True) as client:
        await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(10)], time.time())
        feeds = await store.read(list_feeds)

        async def refreshed(named: bool) -> list[dict[str, object]]:
            return await refresh_many(store, client, feeds, 8, named=named)

        async def failures() -> int:
            return sum(
                one.failures for one in (await store.read(load_feed_states, [feed.id for feed in feeds])).values()
            )

        assert all(one["ok"] for one in await refreshed(False))
        await made.stop()
        silent = await refreshed(False)
        assert sorted(int(str(one["id"])) for one in silent) == [feed.id for feed in feeds]
        assert all(one["network_away"] for one in silent)
        assert await failures() == 0
        assert len(await store.read(list_refreshes, feeds[0].id)) == 1
        assert not any("network_away" in one for one in await refreshed(True))
        assert await failures() == 10
        await made.start()
        assert all(one["ok"] for one in await refreshed(False))


async def test_where_the_budget_is_spent_a_command_waits_as_long_as_something_is_fetched(
    farm, tmp_path: Path, monkeypatch
) -> None:
    made = await farm(feeds=3, hosts=3, speed=1, hints=False)
    async with await open_store(f"sqlite:///{tmp_path}/db") as store, Fetcher(allow_private=True) as client:
        await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(3)], time.time())
        feeds, fetch, refusals = await store.read(list_feeds), client.fetch, iter(range(5))

        async def fetch_within_budget(*arguments: Any, **named: Any) -> Outcome:
            if next(refusals, None) is not None:
                raise BudgetExhausted(None)
            return await fetch(*arguments, **named)

        monkeypatch.setattr(client, "fetch", fetch_within_budget)
        assert [one["ok"] for one in await refresh_many(store, client, feeds, 2, named=False)] == [True] * 3
        refusals = iter(range(5))
        monkeypatch.setattr("headwater.node.crawl.bulk_refresh.PATIENCE", -1.0)
        with pytest.raises(BudgetExhausted):
            await refresh_many(store, client, feeds, 2, named=False)


async def test_a_few_that_are_silent_beside_one_that_answers_have_failed(farm, tmp_path: Path) -> None:
    made, other = await farm(feeds=4, hosts=4, speed=1, hints=False), await farm(feeds=1, speed=1, hints=False)
    async with await open_store(f"sqlite:///{tmp_path}/db") as store, Fetcher(allow_private=True) as client:
        urls = [*(made.url(k) for k in range(4)), other.url(0)]
        await store.write(add_and_subscribe, [NewFeed(url) for url in urls], time.time())
        for _ in range(2):
            results = await refresh_many(store, client, await store.read(list_feeds), 8, named=False)
            await made.stop()
        assert sorted(bool(one["ok"]) for one in results) == [False] * 4 + [True]
        assert not any("network_away" in one for one in results)
