"""Every place where a secret can be guessed counts attempts before it checks them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater import credentials
from headwater.credentials import hash_password, hash_secret
from headwater.store.content.feeds import NewFeed
from headwater.store.readers.accounts import add_api_token, claim_ownership, list_api_tokens, start_session
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store
from headwater.web.app import create_app
from headwater.web.auth import password_login
from headwater.web.auth.guess_throttle import FREE_ATTEMPTS, FREE_TOKENS, GuessThrottle, TooManyAttempts
from support.idle_node import make_idle_node

NOW = 1_800_000_000.0
PASSWORD = "correct horse battery"
GUESSES = 500
USER_INFO = "/reader/api/0/user-info"
Guess = Callable[[httpx.AsyncClient, int], "asyncio.Future[httpx.Response]"]


def _login(http: httpx.AsyncClient, n: int) -> object:
    return http.post("/login", data={"name": "Ada", "password": f"guess {n}"})


def _client_login(http: httpx.AsyncClient, n: int) -> object:
    return http.post("/accounts/ClientLogin", data={"Email": "Ada", "Passwd": f"guess {n}"})


def _old_password(http: httpx.AsyncClient, n: int) -> object:
    body = {"old": f"guess {n}", "new": "another password"}
    return http.post("/api/v1/me/password", json=body, headers={"Authorization": "Bearer mine"})


def _api_token(http: httpx.AsyncClient, n: int) -> object:
    return http.get("/api/v1/me", headers={"Authorization": f"Bearer guess-{n}"})


def _client_token(http: httpx.AsyncClient, n: int) -> object:
    return http.get(USER_INFO, headers=_client_headers(f"guess-{n}"))


def _client_headers(secret: str) -> dict[str, str]:
    return {"Authorization": f"GoogleLogin auth={secret}"}


def _feed_token(http: httpx.AsyncClient, n: int) -> object:
    return http.get(f"/tags/news.atom?token=guess-{n}")


def _live_token(http: httpx.AsyncClient, n: int) -> object:
    return http.get(f"/feeds/quakes/live?token=guess-{n}")


def _setup_code(http: httpx.AsyncClient, n: int) -> object:
    form = {"code": f"guess {n}", "name": "Eve", "password": PASSWORD, "again": PASSWORD}
    return http.post("/welcome", data=form)


@pytest.mark.parametrize(
    "guess", [_login, _client_login, _old_password, _api_token, _client_token, _feed_token, _live_token]
)
async def test_of_500_parallel_guesses_few_are_checked(
    web_store: Store, guess: Callable[[httpx.AsyncClient, int], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = await web_store.write(claim_ownership, "Ada", hash_password(PASSWORD))
    assert owner is not None
    await web_store.write(add_api_token, owner.id, hash_secret("mine"), "", ["read", "write", "admin"], NOW)
    await web_store.write(add_and_subscribe, [NewFeed("https://a.example/", tags=("news",))], NOW)
    monkeypatch.setattr(password_login, "verify_password", lambda kept, password: password == PASSWORD)
    answers = await _send_all(web_store, guess)
    most = FREE_ATTEMPTS + 1 if guess in (_login, _client_login, _old_password) else FREE_TOKENS + 1
    assert answers[429] >= GUESSES - most, answers
    assert answers[200] == 0


async def test_the_setup_code_cannot_be_guessed_either(web_store: Store) -> None:
    answers = await _send_all(web_store, _setup_code)
    assert answers[429] >= GUESSES - FREE_ATTEMPTS - 1, answers


async def test_addresses_of_one_ipv6_network_guess_as_one_visitor(web_store: Store) -> None:
    """Everybody has 2⁶⁴ addresses there; names and tokens differ, so that only the visitor can be counted."""
    assert await web_store.write(claim_ownership, "Ada", hash_password(PASSWORD)) is not None
    app = create_app(make_idle_node(web_store), clock=lambda: NOW)

    async def send(network: str, n: int, **request: object) -> int:
        transport = httpx.ASGITransport(app, client=(f"{network}::{n:x}", 5000))
        headers = {"Origin": "http://localhost"}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as http:
            return (await http.request(**request)).status_code  # type: ignore[arg-type]

    for n in range(FREE_TOKENS + 1):
        token = {"method": "GET", "url": f"/tags/news.atom?token=guess-{n}"}
        assert await send("2001:db8:1:2", n, **token) != 429
    assert await send("2001:db8:1:2", 999, **token) == 429
    assert await send("2001:db8:1:3", 999, **token) != 429
    for n in range(FREE_ATTEMPTS + 1):
        login = {"method": "POST", "url": "/login", "data": {"name": f"name {n}", "password": "guess"}}
        assert await send("2001:db8:1:2", n, **login) != 429
    assert await send("2001:db8:1:2", 999, **(login | {"data": {"name": "Ada", "password": PASSWORD}})) == 429


async def _send_all(store: Store, guess: Callable[[httpx.AsyncClient, int], object]) -> Counter[int]:
    app = create_app(make_idle_node(store), clock=lambda: NOW)
    transport = httpx.ASGITransport(app, client=("192.0.2.7", 5000))
    headers = {"Origin": "http://localhost"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as http:
        sent = await asyncio.gather(*(guess(http, n) for n in range(GUESSES)))  # type: ignore[call-overload]
    return Counter(answer.status_code for answer in sent)


async def test_a_right_secret_is_not_counted_however_often_it_is_sent(web_store: Store) -> None:
    owner = await web_store.write(claim_ownership, "Ada", hash_password(PASSWORD))
    assert owner is not None
    await web_store.write(add_api_token, owner.id, hash_secret("mine"), "", ["read"], NOW)
    app = create_app(make_idle_node(web_store), clock=lambda: NOW)
    transport = httpx.ASGITransport(app, client=("192.0.2.7", 5000))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        for _ in range(3):
            headers = {"Authorization": "Bearer mine"}
            answers = await asyncio.gather(*(http.get("/api/v1/me", headers=headers) for _ in range(60)))
            assert {answer.status_code for answer in answers} == {200}


async def test_a_session_goes_on_where_others_guess_tokens(web_store: Store) -> None:
    owner = await web_store.write(claim_ownership, "Ada", hash_password(PASSWORD))
    assert owner is not None
    await web_store.write(start_session, hash_secret("mine"), owner.id, "client", "", NOW, NOW + 86_400)
    app = create_app(make_idle_node(web_store), clock=lambda: NOW)
    transport = httpx.ASGITransport(app, client=("192.0.2.7", 5000))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        for n in range(FREE_TOKENS + 1):
            await _client_token(http, n)  # type: ignore[misc]
        assert (await http.get(USER_INFO, headers=_client_headers("another"))).status_code == 429
        assert (await http.get(USER_INFO, headers=_client_headers("mine"))).status_code == 200


@pytest.mark.parametrize("secret", ["session", "token"])
async def test_a_reader_app_is_identified_by_one_look_into_the_database(
    secret: str, web_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = await web_store.write(claim_ownership, "Ada", hash_password(PASSWORD))
    assert owner is not None
    await web_store.write(start_session, hash_secret("session"), owner.id, "client", "", NOW, NOW + 86_400)
    await web_store.write(add_api_token, owner.id, hash_secret("token"), "", ["read"], NOW)
    app = create_app(make_idle_node(web_store), clock=lambda: NOW)
    reads: list[object] = []
    read = web_store.read

    async def count_read(function: Callable[..., object], *args: object) -> object:
        reads.append(function)
        return await read(function, *args)

    monkeypatch.setattr(web_store, "read", count_read)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
        assert (await http.get(USER_INFO, headers=_client_headers(secret))).status_code == 200
    assert len(reads) == 1
    if secret == "token":
        (token,) = await read(list_api_tokens, owner.id)
        assert token.last_used == NOW


@given(st.lists(st.booleans(), max_size=60))
def test_the_wait_depends_on_failures_alone(outcomes: list[bool]) -> None:
    throttle, failed = GuessThrottle(lambda: NOW), 0
    for right in outcomes:
        try:
            with throttle.count_attempt(("address", "a")) as attempt:
                if right:
                    attempt.take_back()
                else:
                    failed += 1
        except TooManyAttempts:
            assert failed > FREE_ATTEMPTS
    assert (throttle.seconds_to_wait(("address", "a")) > 0) == (failed > FREE_ATTEMPTS)


def test_an_unknown_name_costs_as_much_as_a_wrong_password() -> None:
    assert not credentials._HASHER.check_needs_rehash(credentials._UNUSED_HASH)
