"""Fixtures: a whole server in this process, with a node over a farm, an owner, two readers, and a client for each."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from headwater.assembly import build
from headwater.credentials import hash_password, hash_secret, make_secret
from headwater.farm.farm import Farm
from headwater.node.node import Node
from headwater.settings import Settings, load_settings
from headwater.store.readers.accounts import User, add_api_token, add_user, claim_ownership
from headwater.store.store import Store
from headwater.web.app import create_app

API = "/api/v1"
PASSWORD = hash_password("correct horse")


class ApiCaller:
    """Calls the API as one person; checks that answers are JSON and errors are sentences."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def __call__(self, method: str, path: str, status: int = 200, **more: Any) -> Any:
        answer = await self.http.request(method, API + path, **more)
        assert answer.status_code == status, (answer.status_code, answer.text)
        if answer.status_code >= 400:
            message = answer.json()["error"]["message"]
            assert message
            assert message[0].isupper() or message[0] in "“0123456789" or message.split(":")[0].islower()
            assert message.endswith((".", "?", "!")), message
            return answer.json()["error"]
        if answer.status_code == 204:
            assert not answer.content
            return None
        return answer.json() if "json" in answer.headers["content-type"] else answer.content


@dataclass
class ApiServer:
    """The parts of the running server that tests use."""

    app: Starlette
    node: Node
    farm: Farm
    owner: ApiCaller
    ann: ApiCaller
    bob: ApiCaller
    people: dict[str, User]
    client: Callable[..., Awaitable[ApiCaller]]

    @property
    def store(self) -> Store:
        return self.node.store


@pytest.fixture
async def server(tmp_path: Path, farm: Callable[..., Awaitable[Farm]]) -> AsyncIterator[ApiServer]:
    made = await farm(feeds=6, speed=2000)
    given = load_settings(
        data=tmp_path,
        allow_private=True,
        least_interval=0.05,
        per_host=64,
        budget=100_000.0,
        strategy="uniform",
        names=("testserver",),
    )
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(build("node", given))
        app = create_app(node, base="https://feeds.example.org")
        store, now = node.store, time.time()
        owner = await store.write(claim_ownership, "olga", PASSWORD)
        assert owner is not None
        people = {"olga": owner}
        for name in ("ann", "bob"):
            people[name] = await store.write(add_user, name, PASSWORD, now)

        async def client(name: str | None = None, *scopes: str) -> ApiCaller:
            headers = {}
            if name is not None:
                secret = make_secret()
                await store.write(add_api_token, people[name].id, hash_secret(secret), "test", scopes, now)
                headers["Authorization"] = f"Bearer {secret}"
            transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=("127.0.0.1", 5000))
            http = httpx.AsyncClient(transport=transport, base_url="http://testserver", headers=headers)
            return ApiCaller(await stack.enter_async_context(http))

        yield ApiServer(
            app,
            node,
            made,
            await client("olga", "read", "write", "admin"),
            await client("ann", "read", "write"),
            await client("bob", "read", "write"),
            people,
            client,
        )
