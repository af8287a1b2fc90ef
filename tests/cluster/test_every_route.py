"""Every route answers every parameter without a server error, for every role, and alike on every rung."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from cluster_in_process import settings
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.assembly import build
from headwater.cluster import leader
from headwater.credentials import hash_password
from headwater.node.node import Node
from headwater.node.quality.belief_sample import BeliefSample
from headwater.node.websub import PushService
from headwater.publish.channels import create_feed_token
from headwater.schedule.promise import PlanInputs
from headwater.store.content.feeds import NewFeed
from headwater.store.publishing.private_feeds import set_visibility
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.accounts import add_user, claim_ownership, find_user
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.saved_state import save_state
from headwater.web.api.api_app import GROUPS
from headwater.web.api.openapi import PREFIX
from headwater.web.app import create_app, find_page_groups
from headwater.web.auth.authentication import COOKIE
from support.databases import PostgresServer, sqlite_url
from support.every_request import EveryRequest, choose_first_of_each_route, list_requests

ORIGIN = "http://127.0.0.1"
# SQLite has no cluster. A refresh depends on the time, a health report on the events so far, and the throttle of
# guesses on their number.
DIFFERENT = {
    *("/cluster", f"{PREFIX}/scheduler/cluster", f"{PREFIX}/feeds/{{id}}/refresh", "/feed/{feed_id}", "/health"),
    *("/login", "/accounts/ClientLogin", f"{PREFIX}/quality"),
}
# Values of parameters that exist; account 2 is a reader.
SAMPLE = {
    "{feed_id}": "1",
    "{id}": "1",
    "{name}": "Q",
    "{name:path}": "Q",
    "{tag}": "news",
    "{job_id}": "none",
    "{item_id}": "1",
    "{kind}": "all",
    "{key:path}": "x",
    "{kind}/{key:path}": "feed/1",
    "{query}": "Q",
    "{stream:path}": "feed/1",
    f"{PREFIX}/users/{{id}}": f"{PREFIX}/users/2",
    f"{PREFIX}/published/{{kind}}/{{name}}": f"{PREFIX}/published/feeds/Q",
    f"{PREFIX}/published/{{kind}}/{{name}}/tokens": f"{PREFIX}/published/feeds/Q/tokens",
    "user": "2",
    "feed": "1",
    "query": "Q",
    "s": "feed/1",
    "budget": "600",
    "text": "CREATE FEED R AS RETURN ALL",
    "since": "0",
    "until": "0",
    "strategy": "value",
    "readers_add": "7",
}
ENDING_SESSIONS = ("login", "logout", "password", "users", "me", "register", "welcome", "removals", "settings")
ROLES = ("nobody", "rita", "olga")  # a stranger, a reader, the owner


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


async def fill_server(node: Node, url: str) -> str:
    """Give the server an owner, a reader, a feed and queries with items; return a token of the private query P."""
    now = time.time()
    assert await node.store.write(claim_ownership, "olga", hash_password("correct horse"))
    reader = await node.store.write(add_user, "rita", hash_password("battery staple"), now)
    assert reader.id == 2
    for subscriber in (1, 2):
        new = NewFeed(url, title="A feed", tags=("news",))
        [added] = await node.store.write(add_and_subscribe, [new], now, subscriber=subscriber)
        assert added.feed.id == 1
    await node.crawl.request_refresh(1)
    script = "CREATE FEED Q AS RETURN ALL; CREATE FEED P AS RETURN ALL"
    await node.store.write(run_script, script, now, subscriber=1)
    for path in ("/feeds/Q", "/tags/news", "/feeds"):
        await node.store.write(set_visibility, path, "public")
    inputs = PlanInputs.of(np.array([1e-4, 1e-5]), np.array([10.0, 20.0]), np.ones(2))
    sample = BeliefSample(inputs, 60.0).encode()
    await node.store.write(save_state, leader.BELIEF_STATE, leader.BELIEF_VERSION, sample, now)
    return (await create_feed_token(node.store, "feeds/P", "test", ORIGIN, now)).token


class StreamWatch:
    """An application that sets `has_begun` when a stream without end begins."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.has_begun = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def watch(message: Message) -> None:
            begins = message["type"] == "http.response.start"
            if begins and Headers(scope=message).get("content-type", "").startswith("text/event-stream"):
                self.has_begun.set()
            await send(message)

        await self._app(scope, receive, watch)


class Callers:
    """Sends requests in the name of a stranger, a reader or the owner."""

    def __init__(self, app: Starlette, client: httpx.AsyncClient, stream: asyncio.Event) -> None:
        self._authenticator = app.state.authenticator
        self._client = client
        self._stream = stream
        self._headers: dict[str, dict[str, str]] = {}

    async def send(self, role: str, request: EveryRequest) -> httpx.Response | None:
        """Send a request; return None for an endless stream."""
        headers = await self._sign_in(role, "client" if "reader" in request.path else "page")
        if request.method != "GET" and any(one in request.path for one in ENDING_SESSIONS):
            self._headers.clear()
        body = {"json": request.json} if request.json is not None else {"data": request.form} if request.form else {}
        self._stream.clear()
        asking = self._client.request(request.method, request.path, params=list(request.query), headers=headers, **body)
        answer, stream = asyncio.create_task(asking), asyncio.create_task(self._stream.wait())
        await asyncio.wait({answer, stream}, return_when=asyncio.FIRST_COMPLETED)
        stream.cancel()
        if self._stream.is_set():
            answer.cancel()
            return None
        return await answer

    async def _sign_in(self, role: str, kind: str) -> dict[str, str]:
        if role == "nobody":
            return {}
        if (key := f"{role} {kind}") not in self._headers:
            user = await self._authenticator.store.read(find_user, role)
            secret = await self._authenticator.start_session(user, kind, "test")
            scheme = {"Authorization": f"GoogleLogin auth={secret}"}
            self._headers[key] = scheme if kind == "client" else {"Cookie": f"{COOKIE}={secret}"}
        return self._headers[key]


async def answer_all(node: Node, url: str) -> dict[str, Any]:
    """Send every request as every role; return the status, and the keys of JSON.

    Everybody tries every route, and the owner, whom no permission stops, also every parameter.
    """
    token = await fill_server(node, url)
    answers: dict[str, Any] = {}
    async with PushService(node, ORIGIN) as push_service:
        app = create_app(node, base=ORIGIN, push_service=push_service)
        watched = StreamWatch(app)
        transport = httpx.ASGITransport(watched, raise_app_exceptions=False, client=("127.0.0.1", 5000))
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN, headers={"Origin": ORIGIN}) as client:
            callers = Callers(app, client, watched.has_begun)
            await _wait_for_query_items(callers)
            for path in ("/feeds/P.atom", "/feeds/P.rss"):
                assert (await client.get(path, params={"token": token})).status_code == 200
            requests = list_requests(app.routes, SAMPLE)
            for role in ROLES:
                for request in requests if role == "olga" else choose_first_of_each_route(requests):  # deleting last
                    answers[f"{role}: {request.name}"] = _describe(request, await callers.send(role, request))
    return answers


def _describe(request: EveryRequest, answer: httpx.Response | None) -> tuple[int, list[str] | None, str]:
    if answer is None:
        return 200, None, request.route
    is_json = answer.headers.get("content-type") == "application/json" and answer.status_code == 200
    found = answer.json() if is_json else None
    if answer.status_code >= 400 and request.path.startswith(PREFIX):
        message = answer.json()["error"]["message"]
        assert re.fullmatch(r"(?s)\S+ .{8,}[.?!”)]", message), (request.name, message)
    return answer.status_code, sorted(found) if isinstance(found, dict) else None, request.route


async def _wait_for_query_items(callers: Callers) -> None:
    """Wait until the new query feed shows past items, which another process may have to find."""
    counts = EveryRequest("/read/counts", "GET", "/read/counts")
    deadline = time.monotonic() + 150
    while (answer := await callers.send("olga", counts)) is None or "/read/query/Q" not in answer.json():
        assert time.monotonic() < deadline, "the query feed got no past items"
        await asyncio.sleep(0.05)


def find_differences(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """List the requests answered differently, except those that depend on the time or on earlier changes."""
    reading = [name for name in one if " GET " in name or name.startswith("nobody")]
    both = [name for name in reading if name in other and one[name][2] not in DIFFERENT]
    return {name: (one[name], other[name]) for name in both if one[name] != other[name]}


@pytest.mark.timeout(600)
async def test_every_request_is_answered_alike_on_every_rung(
    tmp_path: Path, farm: Any, postgres: PostgresServer
) -> None:
    made = await farm(feeds=1, speed=100, hints=False)
    databases = [postgres.create(), postgres.create()]
    async with one_machine(tmp_path) as node:
        alone = await answer_all(node, made.url(0))
    async with shared_database(postgres.url(databases[0])) as node:
        shared = await answer_all(node, made.url(0))
    async with web_process(postgres.url(databases[1])) as node:
        apart = await answer_all(node, made.url(0))
    for answers in (alone, shared, apart):
        assert {request: one for request, one in answers.items() if one[0] >= 500} == {}
        _check_that_all_was_tried(answers)
    assert find_differences(shared, alone) == {}
    assert find_differences(apart, alone) == {}
    for name in databases:
        postgres.drop(name)


def _check_that_all_was_tried(answers: dict[str, Any]) -> None:
    """Check that every page and endpoint was called, and that the owner could read nearly all of them."""
    tried = {one[2] for one in answers.values()}
    assert {route.path for group in find_page_groups() for route in group.routes} <= tried
    assert {PREFIX + one.path for group in GROUPS for one in group.endpoints} <= tried
    reached = {one[2] for name, one in answers.items() if name.startswith("olga: GET") and one[0] == 200}
    readable = {one[2] for name, one in answers.items() if name.startswith("olga: GET")}
    # They need a job, a provider, a closed set-up, a cluster, a stored page, a report, or another method.
    unreachable = {
        *("/jobs/{job_id}", f"{PREFIX}/jobs/{{id}}", "/oidc/login", "/oidc/callback", "/welcome", "/picture"),
        *("/cluster", f"{PREFIX}/scheduler/cluster", "/article/{item_id}", f"{PREFIX}/quality"),
        *("/register", "/hub", "/accounts/ClientLogin", "/api/{path:path}"),
    }
    assert {
        one for one in readable - reached - unreachable if not one.startswith(("/feeds", "/tags", "/push"))
    } == set()
