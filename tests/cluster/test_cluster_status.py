"""The state of a cluster on its page, as JSON, as metrics and by the command."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time

import httpx
import uvicorn
from cluster_in_process import settings
from starlette.applications import Starlette
from typer.testing import CliRunner

from headwater.assembly import build
from headwater.cli.main import build_app
from headwater.cluster import leader
from headwater.cluster.cluster_status import read_cluster_status
from headwater.node.quality.belief_sample import BUDGET_FACTORS, estimate_quality_by_budget
from headwater.store import cluster_leases
from headwater.store.content.feeds import NewFeed
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store
from headwater.web.app import create_app


async def test_the_page_the_json_the_figures_and_the_command_tell_the_same(
    farm, url: str, store: Store, eventually
) -> None:
    made = await farm(feeds=3, speed=100)
    await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(3)], time.time())
    async with build("node", settings(database=url, member="alone")) as node:

        async def running() -> bool:
            found = await read_cluster_status(store)
            return found.leader == "alone" and not found.unheld and found.members[0].counts.get("stored", 0) >= 3

        await eventually(running, "it leads, holds everything and has stored")
        assert node.crawl.leader.dispatcher is not None
        await leader.save_belief_sample(store, node.crawl.leader.dispatcher.scheduler)  # else once a minute
        bought = await estimate_quality_by_budget(await node.crawl.sample_beliefs(time.time()))
        assert [one.delay for one in bought] == sorted((one.delay for one in bought), reverse=True)
        assert len(bought) == len(BUDGET_FACTORS)
        app = create_app(node)
        listener = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", server_header=False))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            async with httpx.AsyncClient(base_url=base) as client:
                page, answer, figures = [
                    await client.get(f"/{one}") for one in ("cluster", "api/v1/scheduler/cluster", "metrics")
                ]
        finally:
            server.should_exit = True
            await serving
            listener.close()
        assert page.status_code == 200, page.text
        assert "alone leads 1 process." in page.text
        assert "alone" in {one["holder"] for one in answer.json()["seats"]}
        assert len(answer.json()["partitions"]["alone"]) == 256
        assert 'headwater_cluster_partitions{member="alone"} 256.0' in figures.text
        assert "headwater_cluster_led 1.0" in figures.text
        env = {**os.environ, "HEADWATER_DATABASE": url}
        command = [sys.executable, "-m", "headwater", "cluster", "status", "--json"]
        done = await asyncio.to_thread(subprocess.run, command, env=env, capture_output=True, text=True, check=True)
        said = json.loads(done.stdout)
        assert said["leader"] == "alone"
        assert said["unheld"] == 0
        assert said["members"][0]["role"] == "node"


async def test_problems_are_told_in_sentences(store: Store) -> None:
    found = await read_cluster_status(store)
    assert found.leader is None
    assert any("Nobody leads" in one for one in found.problems)
    await store.write(
        cluster_leases.record_heartbeat, "t", "terminal", '{"name": "t", "role": "terminal", "problem": "It is stuck."}'
    )
    found = await read_cluster_status(store)
    assert "t: It is stuck." in found.problems
    assert any("256 partitions are held by nobody" in one for one in found.problems)


def test_the_command_wants_the_clusters_database() -> None:
    command = ["cluster", "status"]
    done = CliRunner().invoke(build_app(command), command, env={"HEADWATER_DATABASE": None})
    assert done.exit_code == 1
    assert "postgresql://" in done.stderr


async def test_health_names_a_cluster_in_which_nothing_is_fetched_or_stored(url: str, store: Store) -> None:
    async def ask(app: Starlette) -> tuple[int, str, list[str]]:
        transport = httpx.ASGITransport(app, client=("192.0.2.9", 5000))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            answer = await client.get("/health?strict=1")
        told = answer.json()
        assert {one["name"] for one in told["problems"]} <= {"cluster"}
        return answer.status_code, told["status"], [one["message"].partition(":")[0] for one in told["problems"]]

    async with build("web", settings(database=url, member="pages")) as node:
        nothing = "No terminal runs, so nothing is fetched"
        assert await ask(create_app(node)) == (503, "degraded", ["Nobody leads", nothing])
        for role in ("controller", "terminal"):
            await store.write(cluster_leases.record_heartbeat, role, role, json.dumps({"name": role, "role": role}))
        assert await store.write(cluster_leases.acquire_lease, "controller", "controller", 60.0)
        idle = [
            "No storer runs, so nothing that was fetched is stored",
            "No processor runs, so queries find nothing new",
        ]
        assert await ask(create_app(node)) == (503, "degraded", idle)
        for role in ("storer", "processor"):
            await store.write(cluster_leases.record_heartbeat, role, role, json.dumps({"name": role, "role": role}))
        assert await ask(create_app(node)) == (200, "ok", [])
