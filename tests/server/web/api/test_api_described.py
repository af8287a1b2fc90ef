"""The API's description comes from the validating types, is complete, and holds for every answer to schemathesis."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    negative_data_rejection,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)

from headwater.assembly import build
from headwater.credentials import hash_password, hash_secret, make_secret
from headwater.farm.farm import Farm
from headwater.settings import load_settings
from headwater.store.content.feeds import NewFeed
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.accounts import add_api_token, claim_ownership, find_owner
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.web.api.api_app import GROUPS
from headwater.web.api.endpoint import RawBody
from headwater.web.api.openapi import describe_api
from headwater.web.app import create_app
from support import ROOT
from support.databases import PostgresServer

DESCRIPTION = describe_api(GROUPS, "https://feeds.example.org")
DOCUMENT = (ROOT / "docs" / "api.md").read_text()
ENDPOINTS = [endpoint for noun in GROUPS for endpoint in noun.endpoints]


def test_every_endpoint_is_described_with_a_sentence() -> None:
    names = [endpoint.name for endpoint in ENDPOINTS]
    assert len(names) == len(set(names))
    for endpoint in ENDPOINTS:
        operation = DESCRIPTION["paths"][f"/api/v1{endpoint.path}"][endpoint.method.lower()]
        assert operation["summary"].endswith("."), endpoint.name
        asked = {parameter["name"] for parameter in operation.get("parameters", ())}
        assert endpoint.path_names <= asked


def test_every_reference_leads_somewhere() -> None:
    text = json.dumps(DESCRIPTION)
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', text))
    assert named <= set(DESCRIPTION["components"]["schemas"])


def test_every_list_has_a_limit_of_at_most_a_thousand() -> None:
    limits = [
        parameter["schema"]
        for path in DESCRIPTION["paths"].values()
        for operation in path.values()
        for parameter in operation.get("parameters", ())
        if parameter["name"] == "limit"
    ]
    assert len(limits) > 8
    assert all(limit["maximum"] <= 1000 and limit["minimum"] == 1 for limit in limits)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.name)
def test_every_endpoint_is_in_the_document(endpoint: Any) -> None:
    assert f"`{endpoint.method} {endpoint.path}`" in DOCUMENT


class Running:
    """A server in a separate thread: a node over a farm, with an owner."""

    def __init__(self, folder: Path, database: str | None = None) -> None:
        self._settings = load_settings(data=folder, database=database, allow_private=False, budget=600.0)
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> Running:
        self._thread.start()
        assert self._ready.wait(60)
        self.described = schemathesis.openapi.from_url(f"{self.url}/api/openapi.json")
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)

    def new_token(self) -> str:
        """Make a token of an owner; an earlier test may have revoked the last one or removed its owner."""
        return asyncio.run_coroutine_threadsafe(self._new_token(), self._loop).result(20)

    async def _new_token(self) -> str:
        store, secret = self._node.store, make_secret()
        scopes = ("read", "write", "admin")
        owner = await store.read(find_owner)
        await store.write(add_api_token, owner.id, hash_secret(secret), "test", scopes, time.time())
        return secret

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with Farm(3, speed=1000) as farm, build("node", self._settings) as node:
            await node.store.write(
                add_and_subscribe, [NewFeed(farm.url(k), tags=("t",)) for k in range(3)], time.time()
            )
            assert await node.store.write(claim_ownership, "olga", hash_password("correct horse"))
            self._node = node
            await node.store.write(run_script, "CREATE FEED Everything AS RETURN ALL", time.time())
            app = create_app(node)
            listener = socket.create_server(("127.0.0.1", 0))
            server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            self._ready.set()
            await self._stop.wait()
            server.should_exit = True
            await serving


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("api")) as server:
        yield server


PROMISED = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]


def tried(running: Running, endpoint: Any, examples: int) -> int:
    """Send valid and invalid requests to one endpoint; return how many were answered. Answers must fit the
    description.
    """
    operation = running.described[f"/api/v1{endpoint.path}"][endpoint.method]
    headers = {"Authorization": f"Bearer {running.new_token()}"}
    answered = 0
    for mode in GenerationMode:
        if mode is GenerationMode.NEGATIVE and endpoint.parameters is None and endpoint.body in (None, RawBody):
            continue  # no invalid value exists

        @settings(
            max_examples=examples,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def once(case: schemathesis.Case) -> None:
            nonlocal answered
            answer = case.call(base_url=running.url, headers=headers, timeout=30)
            case.validate_response(answer, checks=PROMISED)
            answered += 1

        once()
    return answered


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.name)
def test_no_request_breaks_an_endpoint_and_all_answers_are_as_described(running: Running, endpoint: Any) -> None:
    assert tried(running, endpoint, 2) > 0


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def on_either(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Run on both databases, which refuse different values: NUL, numbers beyond 64 bits, lone surrogates."""
    url = None
    if request.param == "postgresql":
        postgres: PostgresServer = request.getfixturevalue("postgres")
        url = postgres.url(postgres.create())
    with Running(tmp_path_factory.mktemp("api"), url) as server:
        yield server


@pytest.mark.soak
@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.name)
def test_no_request_breaks_an_endpoint_however_many_there_are(on_either: Running, endpoint: Any) -> None:
    assert tried(on_either, endpoint, 200) > 0


def test_the_description_and_its_page_are_served(running: Running) -> None:
    headers = {"Authorization": f"Bearer {running.new_token()}"}
    told = httpx.get(f"{running.url}/api/openapi.json").json()
    assert told["paths"] == DESCRIPTION["paths"]
    page = httpx.get(f"{running.url}/api/", headers=headers)
    assert page.status_code == 200
    assert "GET /feeds/{id}/explanation" in page.text
