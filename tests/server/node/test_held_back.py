"""The reason why a feed waits names the interval that applies to this feed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headwater.model import Known, Validators
from headwater.node.quality.feed_explanation import NO_PLAN_YET, explain_feed_schedule
from headwater.settings import Settings
from headwater.store.content.verdicts import save_refreshes
from headwater.store.opening import open_store
from support.store_samples import NOW, a_verdict, one_feed

POLITE: dict[str, Any] = {"last_success": NOW, "last_change": NOW, "validators": Validators('"a"')}


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"failures": 1}, "backing off after errors"),
        (
            POLITE | {"fresh_until": NOW + 600},
            "the server's copy is still fresh (max-age, Expires, ttl or sy:updatePeriod)",
        ),
        (
            POLITE | {"last_change": NOW - 60, "validators": Validators()},
            "a feed that answers without validators and without change is polled every 1 h",
        ),
    ],
)
async def test_the_pause_is_shown_as_it_is_for_the_feed(
    given: Callable[..., Settings], known: dict[str, Any], said: str
) -> None:
    settings = given()
    async with await open_store(settings.database_url) as store:
        feed = await one_feed(store)
        await save_refreshes(store, [a_verdict(feed, known=Known(feed.id, feed.url, last_refresh=NOW, **known))])
        told = await explain_feed_schedule(store, settings, feed.id, NOW + 1)
    assert told.held_by == said
    assert told.held_until is not None


async def test_no_interval_is_claimed_before_the_server_has_saved_a_plan(given: Callable[..., Settings]) -> None:
    settings = given(strategy="value")
    async with await open_store(settings.database_url) as store:
        feed = await one_feed(store)
        await save_refreshes(store, [a_verdict(feed, known=Known(feed.id, feed.url, last_refresh=NOW, **POLITE))])
        told = await explain_feed_schedule(store, settings, feed.id, NOW + 1)
    assert told.interval == NO_PLAN_YET
