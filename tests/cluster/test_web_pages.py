"""`headwater web` answers the settings pages and the API like any other server."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
from cluster_in_process import settings

from headwater.assembly import build
from headwater.cluster import leader
from headwater.node.node import Node
from headwater.node.quality.belief_sample import BUDGET_FACTORS, BeliefSample
from headwater.schedule.promise import PlanInputs
from headwater.settings import load_settings
from headwater.store.saved_state import save_state
from headwater.store.store import Store
from headwater.web.app import create_app


def client_of(node: Node) -> httpx.AsyncClient:
    app = create_app(node)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=("127.0.0.1", 5000))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers={"Origin": "http://127.0.0.1"})


async def test_settings_are_shown_and_changed(url: str, eventually: Callable[..., Any]) -> None:
    given = load_settings(database=url, member="web", budget=90.0)
    async with (
        build("node", settings(database=url, member="one", budget=90.0)) as leader,
        build("web", given) as node,
        client_of(node) as client,
    ):
        assert (await client.get("/settings")).status_code == 200
        shown = (await client.get("/api/v1/settings")).json()
        assert (shown["budget"], shown["by_hand"]) == (90, ["budget"])
        changed = await client.patch("/api/v1/settings", json={"keep_days": 30, "budget": 120})
        assert (changed.status_code, changed.json()["keep_days"], changed.json()["budget"]) == (200, 30, 120)
        await eventually(lambda: leader.settings.keep_days == 30, "the other process uses the changed setting")
        await leader.change_settings({"readers_add": "7"})
        await eventually(lambda: node.settings.readers_add == "7", "the pages show what another process changed")
    async with build("web", settings(database=url, member="web")) as node:
        assert node.settings.keep_days == 30


async def test_what_if_draws_its_curve_from_the_leaders_beliefs(url: str, store: Store) -> None:
    async with build("web", settings(database=url, member="web")) as node, client_of(node) as client:
        assert (await client.get("/api/v1/quality/what-if")).json()["items"] == []
        inputs = PlanInputs.of(np.array([1e-4, 1e-5]), np.array([10.0, 20.0]), np.ones(2))
        sample = BeliefSample(inputs, 60.0).encode()
        await store.write(save_state, leader.BELIEF_STATE, leader.BELIEF_VERSION, sample, time.time())
        answer = await client.get("/api/v1/quality/what-if")
        assert (answer.status_code, len(answer.json()["items"])) == (200, len(BUDGET_FACTORS))
        assert (await client.get("/settings")).status_code == 200
