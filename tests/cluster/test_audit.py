"""The audit finds missing items, and does not report items that no refresh could have read."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from headwater.cluster.demo.audit import RunAudit, audit_run, describe_overlaps
from headwater.farm.farm import Farm
from headwater.farm.farm_pages import LoggedRequest, RequestLog
from headwater.formats import read_to_keep
from headwater.model import Ending, Outcome
from headwater.novelty import judge
from headwater.store.content.feed_state import load_feed_states
from headwater.store.content.feeds import NewFeed
from headwater.store.content.verdicts import save_refreshes
from headwater.store.opening import open_store
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store
from support.databases import sqlite_url

STARTED = 1_800_000_000.0
WINDOW = 5
MOMENT = 1e-3  # seconds; far less than between two items


class ManualReader:
    """Refreshes the one feed of a farm by hand; the farm's clock moves only when a test advances it."""

    def __init__(self, farm: Farm, store: Store, feed: int) -> None:
        self._farm, self._store, self._feed = farm, store, feed

    def publish(self, items: int) -> None:
        """Advance the clock until `items` more are published."""
        for _ in range(items):
            clock = self._farm.clock
            next_one = self._farm.get_feed(0).timeline.time_of_next(clock.farm_time())
            self._farm.advance(clock.to_wall_time(next_one) - clock.wall_time() + MOMENT)

    async def refresh(self, *, during: int = 0, loses: int = 0, notices: bool = True) -> None:
        """Refresh; `during` items are published after the document was made, and `loses` new ones are not stored."""
        url, began = self._farm.url(0), self._farm.clock.wall_time()
        document = read_to_keep(self._farm.get_feed(0).make_document(), url)
        self._farm.advance(MOMENT)
        self.publish(during)
        outcome = Outcome(Ending.CHANGED, url, url, began, self._farm.clock.wall_time() - began, 200, document)
        known = (await self._store.read(load_feed_states, [self._feed]))[self._feed]
        verdict = judge(known, outcome, {})
        noted = msgspec.structs.replace(verdict.refresh, saturated=verdict.refresh.saturated and notices)
        await save_refreshes(self._store, [msgspec.structs.replace(verdict, refresh=noted, new=verdict.new[loses:])])

    async def reckoned(self) -> RunAudit:
        return await audit_run(self._farm, self._store, "Everything")


@pytest.fixture
async def reader(tmp_path: Path) -> AsyncIterator[ManualReader]:
    farm = Farm(1, 2, 1000.0, WINDOW, rates=(40, 50), clock=lambda: STARTED, started=STARTED)
    async with await open_store(sqlite_url(tmp_path)) as store:
        await store.write(run_script, "CREATE FEED Everything AS RETURN ALL", time.time())
        [added] = await store.write(add_and_subscribe, [NewFeed(farm.url(0))], STARTED)
        yield ManualReader(farm, store, added.feed.id)


async def test_what_the_first_window_shows_and_what_comes_after_is_due_and_older_history_is_not(
    reader: ManualReader,
) -> None:
    reader.publish(2 * WINDOW)
    await reader.refresh()
    reader.publish(WINDOW - 1)
    await reader.refresh()
    found = await reader.reckoned()
    assert (found.published, found.missing, found.overflowed, found.unnoticed) == (2 * WINDOW - 1, 0, 0, 0)
    assert replace(found, unmatched=0).is_clean  # no query processor runs in these tests


async def test_an_item_published_while_the_last_refresh_was_under_way_is_not_due(reader: ManualReader) -> None:
    await reader.refresh()
    reader.publish(1)
    await reader.refresh(during=1)
    found = await reader.reckoned()
    assert (found.published, found.missing) == (WINDOW + 1, 0)
    await reader.refresh()  # and it is due with the next one
    found = await reader.reckoned()
    assert (found.published, found.missing) == (WINDOW + 2, 0)


async def test_an_item_that_was_shown_and_not_stored_is_missing_and_its_story_is_told(reader: ManualReader) -> None:
    await reader.refresh()
    reader.publish(3)
    await reader.refresh(loses=1)
    found = await reader.reckoned()
    assert (found.missing, replace(found, unmatched=0).is_clean) == (1, False)
    [story] = found.stories
    assert story.startswith("missing: urn:headwater-farm:2:0:")
    assert "left the window: not yet" in story
    assert story.count("  refresh ") == 2
    assert "new 2, window 5, overlap 2" in story


async def test_a_loss_that_was_noticed_hides_nothing_else(reader: ManualReader) -> None:
    await reader.refresh()
    reader.publish(WINDOW + 3)
    await reader.refresh()
    found = await reader.reckoned()
    assert (found.overflowed, found.missing, found.unnoticed) == (3, 0, 0)
    reader.publish(1)
    await reader.refresh(loses=1)
    found = await reader.reckoned()
    assert (found.overflowed, found.missing, found.unnoticed) == (3, 1, 0)


async def test_a_loss_that_nobody_noticed_is_told(reader: ManualReader) -> None:
    await reader.refresh()
    reader.publish(WINDOW + 2)
    await reader.refresh(notices=False)
    found = await reader.reckoned()
    assert (found.overflowed, found.missing, found.unnoticed) == (2, 0, 2)
    assert not replace(found, unmatched=0).is_clean
    assert all(story.startswith("passed unnoticed: ") for story in found.stories)


def test_requests_that_a_host_had_to_bear_at_once_are_told() -> None:
    log = RequestLog(10)
    for began, ended, host, feed in ((1.0, 2.0, "a", 0), (1.5, 3.0, "b", 1), (2.5, 3.5, "a", 2), (2.8, 3.1, "b", 3)):
        log.begin_request(host)
        log.end_request(LoggedRequest(began, ended, "GET", f"/feeds/{feed}", feed, 200, host, "127.0.0.1:1"))
    [story] = describe_overlaps(log)
    assert story.startswith("b saw two at once: /feeds/1")
    assert "/feeds/3" in story
