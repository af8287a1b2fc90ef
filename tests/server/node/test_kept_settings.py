"""Settings changed while a server runs survive a restart, unless the command line or environment gives others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.assembly import build
from headwater.node.live_settings import OPTIONS, load_effective_settings, save_options
from headwater.settings import Settings, load_settings
from headwater.store import saved_state
from headwater.store.opening import open_store

CHANGES = {"keep_days": 30.0, "objective": "delay", "readers_add": "7"}


async def test_what_was_changed_holds_after_a_restart(given: Callable[..., Settings]) -> None:
    settings = given(strategy="value")
    async with build("node", settings) as node:
        await node.change_settings(CHANGES | {"budget": 90.0, "keep_per_feed": None})
        await node.change_settings({"target_delay": 600.0})
        await node.change_settings({"target_delay": None})
    async with build("node", settings) as node:
        now = node.settings
        assert (now.keep_days, now.objective, now.readers_add) == (30, "delay", "7")
        assert now.target is None
        assert node.maintenance.settings is now
        # The settings of the test give a budget and a strategy by hand.
        assert (now.budget, node.pinned_settings) == (100_000, {"budget", "strategy"})


async def test_what_is_given_by_hand_wins_at_the_start_and_the_last_change_while_running(
    given: Callable[..., Settings],
) -> None:
    async with build("node", given()) as node:
        await node.change_settings({"keep_days": 30.0})
    by_hand = given(keep_days=5.0)
    async with build("node", by_hand) as node:
        assert node.settings.keep_days == 5
        await node.change_settings({"keep_days": 8.0})
        assert node.settings.keep_days == 8
    async with build("node", by_hand) as node:
        assert node.settings.keep_days == 5
    async with build("node", given()) as node:
        assert node.settings.keep_days == 8


async def test_a_change_that_no_longer_fits_what_is_given_by_hand_does_not_keep_a_server_from_starting(
    given: Callable[..., Settings],
) -> None:
    async with build("node", given(strategy="value")) as node:
        await node.change_settings({"target_delay": 600.0, "keep_days": 30.0})
    async with build("node", given(strategy="uniform")) as node:  # without beliefs no target can be computed
        assert node.settings.target is None
        assert node.settings.keep_days == 30


async def test_a_command_goes_by_the_options_of_the_server_but_for_what_it_is_given_itself(
    given: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with build("node", given(strategy="top_utility", least_interval=7.0)) as node:
        plain = load_settings(data=node.settings.data)
        await node.maintenance.publish_report()
        told = await load_effective_settings(node.store, plain)
        assert (told.strategy, told.least_interval, told.budget) == ("top_utility", 7, 100_000)
        other = await load_effective_settings(node.store, load_settings(data=plain.data, strategy="value"))
        assert (other.strategy, other.least_interval) == ("value", 7)
        # A user's own strategy may be missing where the command runs.
        with monkeypatch.context() as moment:
            moment.setattr(node.maintenance, "settings", node.settings.with_changes({"strategy": "mine:Own"}))
            await node.maintenance.publish_report()
        assert (await load_effective_settings(node.store, plain)).strategy == "value"
        await node.change_settings({"strategy": "uniform"})
        await node.maintenance.publish_report()
        assert (await load_effective_settings(node.store, plain)).strategy == "uniform"


async def test_a_command_knows_the_strategy_of_a_server_that_has_just_started(given: Callable[..., Settings]) -> None:
    async with build("node", given(strategy="advarss(c=.5)")) as node:
        told = await load_effective_settings(node.store, load_settings(data=node.settings.data))
        assert told.strategy == "advarss(c=.5)"


async def test_word_of_the_options_is_left_again_only_when_they_are_others(given: Callable[..., Settings]) -> None:
    settings, saved = given(), []
    async with await open_store(settings.database_url) as store:
        for now, told in ((1.0, 60.0), (2.0, 60.0), (3.0, 90.0), (4.0, 90.0), (5.0, 60.0)):
            await save_options(store, settings.with_changes({"budget": told}), now)
            saved.append(await store.read(saved_state.find_save_time, OPTIONS))
    assert saved == [1.0, 1.0, 3.0, 3.0, 5.0]
