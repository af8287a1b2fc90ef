"""A setting changed at one node of a database applies to all nodes and to the leader."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from cluster_in_process import LEASE, settings

from headwater.assembly import build
from headwater.errors import SettingsError
from headwater.settings import load_settings


async def test_what_is_changed_at_one_node_holds_for_all_and_for_who_leads(
    url: str, eventually: Callable[..., Any]
) -> None:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(leaving := AsyncExitStack())
        first = await leaving.enter_async_context(build("node", settings(database=url, member="first")))
        await eventually(lambda: first.crawl.leader.dispatcher is not None, "the first leads")
        async with build("node", settings(database=url, member="second")) as second:
            await second.change_settings({"strategy": "value", "budget": 90.0, "readers_add": "7"})
            await eventually(lambda: first.settings.readers_add == "7", "the other node knows")
            assert (first.settings.strategy, first.settings.budget) == ("value", 90)

            def leads_otherwise() -> bool:
                leader = first.crawl.leader.dispatcher
                return leader is not None and (
                    leader.scheduler.strategy.name,
                    leader.scheduler.budget.cap.requests,
                ) == ("value", 90)

            await eventually(leads_otherwise, "who leads decides by the new strategy")
            with pytest.raises(SettingsError, match="no strategy"):
                await first.change_settings({"strategy": "nonsense"})
            await first.change_settings({"target_delay": 600.0})
            await eventually(lambda: second.settings.target_delay == 600, "and the other way round")
            assert first.crawl.leader.maintenance is not None
            await eventually(
                lambda: first.crawl.leader.maintenance.settings.target_delay == 600, "who leads aims at it"
            )
            await first.change_settings({"target_delay": None, "strategy": "uniform"})
            await eventually(lambda: second.settings.strategy == "uniform", "it is everywhere")
            await leaving.aclose()
            await eventually(lambda: second.crawl.leader.dispatcher is not None, "the other leads")
            assert second.crawl.leader.dispatcher is not None
            assert (
                second.crawl.leader.dispatcher.scheduler.strategy.name == "uniform"
            )  # set by hand to another value, but earlier
    third = load_settings(allow_private=True, cluster_lease=LEASE, database=url, member="third")
    async with build("node", third) as node:
        assert (node.settings.strategy, node.settings.budget, node.settings.readers_add) == ("uniform", 90, "7")
        await eventually(lambda: node.crawl.leader.maintenance is not None, "it leads")
        assert node.crawl.leader.maintenance.settings.readers_add == "7"
