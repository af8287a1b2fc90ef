"""Signing in by OpenID Connect works with a real local provider, and every forged answer is refused."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import uvicorn
from cryptography.hazmat.primitives.asymmetric import rsa
from identity_provider import IdentityProvider

from headwater.credentials import hash_password
from headwater.errors import SettingsError
from headwater.fetch.client import Fetcher
from headwater.settings import load_settings
from headwater.store.readers.accounts import claim_ownership, find_user
from headwater.store.store import Store
from headwater.web.auth.oidc import OidcClient, OidcProvider, effective_port

Start = Callable[..., Awaitable[str]]


@asynccontextmanager
async def listening(app: Any) -> AsyncIterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listener.close()


class SigningBrowser:
    """A browser that signs in at our server by the provider."""

    def __init__(self, base: str, http: httpx.AsyncClient) -> None:
        self.base = base
        self.http = http

    async def out(self, next: str = "/password") -> str:
        """Go as far as the provider's answer; return the address to come back to."""
        answer = await self.http.get(f"{self.base}/oidc/login", params={"next": next})
        assert answer.status_code == 303, answer.text
        there = await self.http.get(answer.headers["location"])
        return there.headers["location"]

    async def sign_in(self, next: str = "/password") -> httpx.Response:
        return await self.http.get(await self.out(next))

    async def name(self) -> str | None:
        page = await self.http.get(f"{self.base}/password")
        return page.text.partition("<h1>Password of ")[2].partition("<")[0] or None


@pytest.fixture
async def visits(
    site: Start, web_store: Store
) -> AsyncIterator[Callable[..., Awaitable[tuple[IdentityProvider, SigningBrowser]]]]:
    async with AsyncExitStack() as stack:

        async def start(**settings: Any) -> tuple[IdentityProvider, SigningBrowser]:
            known = IdentityProvider()
            known.issuer = await stack.enter_async_context(listening(known.app))
            fetcher = await stack.enter_async_context(
                Fetcher(allow_private=True, ports={effective_port(known.issuer)}, per_host=8, gap=0.0)
            )
            client = OidcClient(known.issuer, known.client_id, known.client_secret)
            # The server's base is unknown before it runs, so a port is reserved and released.
            with socket.create_server(("127.0.0.1", 0)) as taken:
                port = taken.getsockname()[1]
            base = await site(
                oidc=OidcProvider(client, fetcher, time.time),
                **settings,
                base=f"http://127.0.0.1:{port}",
                port=port,
            )
            return known, SigningBrowser(base, await stack.enter_async_context(httpx.AsyncClient()))

        await web_store.write(claim_ownership, "Ada", hash_password("long enough"))
        yield start


async def test_who_has_an_account_signs_in_by_the_provider(visits: Callable[..., Any], web_store: Store) -> None:
    known, visit = await visits()
    login = await visit.http.get(f"{visit.base}/login")
    assert "/oidc/login" in login.text
    answer = await visit.sign_in()
    assert (answer.status_code, answer.headers["location"]) == (303, "/password")
    assert await visit.name() == "Ada"
    assert known.token_requests == 1


async def test_the_way_back_works_once_and_only_for_who_went_out(visits: Callable[..., Any]) -> None:
    known, visit = await visits()
    back = await visit.out()
    async with httpx.AsyncClient() as other:  # a person gets a link that would sign them in as another
        assert (await other.get(back)).status_code == 400
    forged = back.replace(f"state={parse_qs(urlsplit(back).query)['state'][0]}", "state=guessed")
    assert (await visit.http.get(forged)).status_code == 400
    assert known.token_requests == 0
    assert (await visit.http.get(back)).status_code == 303
    again = await visit.http.get(back)
    assert again.status_code in (400, 502)


async def test_nobody_is_led_elsewhere(visits: Callable[..., Any]) -> None:
    _, visit = await visits()
    answer = await visit.sign_in(next="//evil.example/")
    assert answer.headers["location"] == "/"


@pytest.mark.parametrize(
    "lies",
    [
        {"iss": "https://evil.example"},
        {"aud": "somebody else"},
        {"aud": ["head:water", "somebody else"]},
        {"exp": 1_000_000_000},
        {"nonce": "of another visit"},
        {"nonce": None},
        {"iat": 4_000_000_000},
    ],
)
async def test_lies_of_the_provider_are_refused(visits: Callable[..., Any], lies: dict[str, Any]) -> None:
    known, visit = await visits()
    known.lies = lies
    assert (await visit.sign_in()).status_code == 502
    assert await visit.name() is None


async def test_other_signatures_are_refused(visits: Callable[..., Any]) -> None:
    known, visit = await visits()
    known.signs_with = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    assert (await visit.sign_in()).status_code == 502


async def test_a_wrong_secret_or_issuer_is_reported(visits: Callable[..., Any]) -> None:
    known, visit = await visits()
    known.client_secret = "another"
    answer = await visit.sign_in()
    assert (answer.status_code, "answered 401" in answer.text) == (502, True)
    known, visit = await visits()
    known.issuer = "http://other.example"
    answer = await visit.http.get(f"{visit.base}/oidc/login")
    assert (answer.status_code, "set oidc_issuer" in answer.text) == (502, True)


async def test_strangers_get_an_account_only_where_registration_is_open(
    visits: Callable[..., Any], web_store: Store
) -> None:
    known, visit = await visits()
    known.person = {"sub": "2", "preferred_username": "Bo"}
    assert (await visit.sign_in()).status_code == 403
    known, visit = await visits(registration=True)
    known.person = {"sub": "2", "preferred_username": "Bo", "role": "owner"}
    assert (await visit.sign_in()).status_code == 303
    assert (await web_store.read(find_user, "bo")).role == "reader"
    known.person = {"sub": "3", "preferred_username": "bo"}  # the name now belongs to another person
    async with httpx.AsyncClient() as http:
        assert (await SigningBrowser(visit.base, http).sign_in()).status_code == 403
    known.person = {"sub": "4"}
    async with httpx.AsyncClient() as http:
        assert (await SigningBrowser(visit.base, http).sign_in()).status_code == 403


def test_half_a_configuration_is_refused_before_anything_starts() -> None:
    with pytest.raises(SettingsError, match="oidc_client_id"):
        load_settings(oidc_issuer="https://id.example")


def test_the_secret_is_not_shown_by_printing_settings() -> None:
    given = load_settings(oidc_issuer="https://id.example", oidc_client_id="x", oidc_client_secret="very secret")
    assert "very secret" not in repr(given)
    assert "very secret" not in str(given.given_values())
