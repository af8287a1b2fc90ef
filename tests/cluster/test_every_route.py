"""Every page and every API route answers alike on one machine, on a shared database, and from `headwater web`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from cluster_in_process import settings
from starlette.applications import Starlette

from headwater.assembly import build
from headwater.node.node import Node
from headwater.store.content.feeds import NewFeed
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.web.api.api_app import GROUPS
from headwater.web.api.openapi import PREFIX
from headwater.web.app import create_app, find_page_groups
from support.databases import PostgresServer, sqlite_url

ORIGIN = "http://127.0.0.1"
# A file has no cluster. A refresh depends on the moment, the live pages on the clock.
DIFFERENT = {"GET /cluster", f"GET {PREFIX}/scheduler/cluster", f"POST {PREFIX}/feeds/{{id}}/refresh"}
VALUES = {
    "{feed_id}": "1",
    "{id}": "1",
    "{name}": "Q",
    "{tag}": "news",
    "{job_id}": "none",
    "{item_id}": "1",
    "{kind}": "all",
    "{key:path}": "x",
    "{kind}/{key:path}": "feed/1",
    "{query}": "Q",
}


@asynccontextmanager
async def one_machine(folder: Path) -> AsyncIterator[Node]:
    async with build("node", settings(database=sqlite_url(folder), member="alone")) as node:
        yield node


@asynccontextmanager
async def shared_database(url: str) -> AsyncIterator[Node]:
    async with build("node", settings(database=url, member="node")) as node:
        yield node


@asynccontextmanager
async def web_process(url: str) -> AsyncIterator[Node]:
    async with (
        build("node", settings(database=url, member="node")),
        build("web", settings(database=url, member="web")) as node,
    ):
        yield node


def list_requests() -> list[str]:
    """Every route as “METHOD path”, those that only read first."""
    pages = [f"{route.method} {route.path}" for group in find_page_groups() for route in group.routes]
    endpoints = [f"{one.method} {PREFIX}{one.path}" for group in GROUPS for one in group.endpoints]
    return sorted({*pages, *endpoints} - DIFFERENT, key=lambda one: (not one.startswith("GET"), one))


async def answer_all(node: Node, base: str) -> dict[str, Any]:
    """Send every request, changing ones with an empty form or object; return the status, and the keys of JSON."""
    new = NewFeed(base, title="A feed", tags=("news",))
    added = await node.store.write(add_and_subscribe, [new], time.time(), subscriber=1)
    assert added[0].feed.id == 1
    await node.crawl.request_refresh(1)
    await node.store.write(run_script, "CREATE FEED Q AS RETURN ALL", time.time(), subscriber=1)
    app: Starlette = create_app(node)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=("127.0.0.1", 5000))
    answers = {}
    async with httpx.AsyncClient(transport=transport, base_url=ORIGIN, headers={"Origin": ORIGIN}) as client:
        await _wait_for_query_items(client)
        for request in list_requests():
            method, path = request.split()
            for name, value in sorted(VALUES.items(), key=lambda one: -len(one[0])):
                path = path.replace(name, value)
            body = {"json": {}} if path.startswith(PREFIX) and method != "GET" and method != "DELETE" else {}
            answer = await client.request(method, path, **body)
            is_json = answer.headers.get("content-type") == "application/json" and answer.status_code == 200
            found = answer.json() if is_json else None
            answers[request] = (answer.status_code, sorted(found) if isinstance(found, dict) else None)
    return answers


async def _wait_for_query_items(client: httpx.AsyncClient) -> None:
    """Wait until the new query feed shows past items, which another process may have to find."""
    deadline = time.monotonic() + 150
    while "/read/query/Q" not in (await client.get("/read/counts")).json():
        assert time.monotonic() < deadline, "the query feed got no past items"
        await asyncio.sleep(0.05)


async def test_every_route_answers_alike_on_every_rung(tmp_path: Path, farm: Any, postgres: PostgresServer) -> None:
    made = await farm(feeds=1, speed=100, hints=False)
    databases = [postgres.create(), postgres.create()]
    async with one_machine(tmp_path) as node:
        alone = await answer_all(node, made.url(0))
    async with shared_database(postgres.url(databases[0])) as node:
        shared = await answer_all(node, made.url(0))
    async with web_process(postgres.url(databases[1])) as node:
        apart = await answer_all(node, made.url(0))
    assert len(alone) > 120
    assert {request: one for request, one in alone.items() if one[0] >= 500} == {}
    assert [request for request, one in alone.items() if request.startswith("GET") and one[0] == 200] != []
    assert shared == alone
    assert apart == alone
    for name in databases:
        postgres.drop(name)
