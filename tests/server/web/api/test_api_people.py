"""The API manages accounts, tokens, settings and the scheduler, and enforces permissions."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from headwater.errors import StoreError
from headwater.store.content.feed_overview import list_feed_overviews
from headwater.web.api.api_app import GROUPS
from support.store_samples import intercept_reads


async def test_owners_manage_accounts(server: Any) -> None:
    made = await server.owner("POST", "/users", 201, json={"name": "carl", "password": "long enough"})
    assert made["role"] == "reader"
    assert [user["name"] for user in (await server.owner("GET", "/users"))["items"]] == ["olga", "ann", "bob", "carl"]
    page = await server.owner("GET", "/users?limit=2")
    rest = await server.owner("GET", f"/users?limit=2&cursor={page['next']}")
    assert [user["name"] for user in rest["items"]] == ["bob", "carl"]
    changed = await server.owner("PATCH", f"/users/{made['id']}", json={"name": "Karl", "role": "owner"})
    assert (changed["name"], changed["role"]) == ("Karl", "owner")
    await server.owner("POST", "/users", 400, json={"name": "ANN", "password": "long enough"})
    short = await server.owner("POST", "/users", 400, json={"name": "dora", "password": "short"})
    assert short["field"] == "password"
    removed = await server.owner("DELETE", f"/users/{made['id']}")
    await server.owner("GET", f"/users/{made['id']}", 404)
    another = await server.owner("POST", "/users", 201, json={"name": "karl", "password": "long enough"})
    taken = await server.owner("POST", "/removals/undo", 400, json=removed)
    assert "Another user is named “karl” now." in taken["message"]
    await server.owner("DELETE", f"/users/{another['id']}")
    assert await server.owner("POST", "/removals/undo", json=removed) == {"kind": "account", "label": "Karl"}
    assert (await server.owner("GET", f"/users/{made['id']}"))["role"] == "owner"
    await server.owner("DELETE", f"/users/{made['id']}")
    last = await server.owner("DELETE", f"/users/{server.people['olga'].id}", 400)
    assert "owner" in last["message"]


async def test_everybody_has_a_time_zone(server: Any) -> None:
    assert (await server.ann("GET", "/me"))["user"]["time_zone"] is None
    assert (await server.ann("PATCH", "/me", json={"time_zone": "Europe/Vienna"}))["time_zone"] == "Europe/Vienna"
    for name in ("Europe/Atlantis", "Europe", "../../etc/passwd", "UTC\u0000"):
        wrong = await server.ann("PATCH", "/me", 400, json={"time_zone": name})
        assert (wrong["field"], "no time zone" in wrong["message"]) == ("time_zone", True)
    ann = f"/users/{server.people['ann'].id}"
    assert (await server.owner("PATCH", ann, json={"time_zone": "Asia/Tokyo"}))["time_zone"] == "Asia/Tokyo"
    assert (await server.ann("PATCH", "/me", json={}))["time_zone"] == "Asia/Tokyo"
    assert (await server.ann("PATCH", "/me", json={"time_zone": ""}))["time_zone"] is None


async def test_readers_administer_nothing(server: Any) -> None:
    """Tries every endpoint of the scope admin."""
    closed = [endpoint for noun in GROUPS for endpoint in noun.endpoints if endpoint.scope == "admin"]
    assert len(closed) > 20
    for endpoint in closed:
        path = endpoint.path.replace("{id}", "1").replace("{name}", "x").replace("{kind}", "tags")
        refused = await server.ann(endpoint.method, path, 403, json={})
        assert refused["message"] == "Only an owner may do this."


async def test_without_signing_in_everything_is_closed(server: Any) -> None:
    stranger = await server.client()
    for noun in GROUPS:
        for endpoint in noun.endpoints:
            path = endpoint.path.replace("{id}", "1").replace("{name}", "x").replace("{kind}", "tags")
            await stranger(endpoint.method, path, 401, json={})
    wrong = await stranger.http.get("/api/v1/me", headers={"Authorization": "Bearer nonsense"})
    assert wrong.status_code == 401
    assert wrong.headers["www-authenticate"] == "Bearer"


async def test_a_token_does_no_more_than_its_scopes(server: Any) -> None:
    only_read = await server.client("olga", "read")
    assert (await only_read("GET", "/me"))["scopes"] == ["read"]
    assert (await only_read("GET", "/feeds"))["items"] == []
    await only_read("POST", "/queries/check", json={"text": ""})
    await only_read("POST", "/feeds", 403, json={"url": server.farm.url(0)})
    await only_read("GET", "/users", 403)
    await only_read("POST", "/tokens", 403, json={"label": "more", "scopes": ["admin"]})
    writer = await server.client("olga", "read", "write")
    more = await writer("POST", "/tokens", 400, json={"label": "more", "scopes": ["admin"]})
    assert more["field"] == "scopes"
    assert (await writer("POST", "/tokens", 201, json={"label": "same", "scopes": ["read"]}))["token"]
    only_write = await server.client("olga", "write")
    assert (await only_write("POST", "/tokens", 201, json={"label": "as much", "scopes": ["write"]}))["token"]
    await only_write("POST", "/tokens", 400, json={"label": "more", "scopes": ["read"]})


async def test_tokens_are_ones_own(server: Any) -> None:
    made = await server.ann("POST", "/tokens", 201, json={"label": "script", "scopes": ["read", "write"]})
    assert made["token"] not in str(await server.ann("GET", "/tokens"))
    his = [one["id"] for one in (await server.bob("GET", "/tokens"))["items"]]
    assert made["about"]["id"] not in his
    await server.bob("DELETE", f"/tokens/{made['about']['id']}", 404)
    by_token = httpx.Headers({"Authorization": f"Bearer {made['token']}"})
    assert (await server.ann.http.get("/api/v1/me", headers=by_token)).json()["user"]["name"] == "ann"
    reading = await server.ann("POST", "/tokens", 201, json={"label": "less", "scopes": ["write"]})
    less = {"headers": {"Authorization": f"Bearer {reading['token']}"}}
    removed = await server.ann("DELETE", f"/tokens/{made['about']['id']}")
    assert (await server.ann.http.get("/api/v1/me", headers=by_token)).status_code == 401
    refused = await server.ann("POST", "/removals/undo", 400, json=removed, **less)
    assert "may do more than you: read" in refused["message"]
    await server.ann("POST", "/removals/undo", json=removed)
    assert (await server.ann.http.get("/api/v1/me", headers=by_token)).json()["user"]["name"] == "ann"


async def test_a_session_changes_things_only_from_our_own_pages(server: Any) -> None:
    browser = await server.client()
    session = await server.app.state.authenticator.start_session(server.people["ann"], "page", "browser")
    browser.http.cookies.set("headwater_session", session)
    assert (await browser("GET", "/me"))["by"] == "session"
    body = {"label": "from a page", "scopes": ["read"]}
    ours = {"Sec-Fetch-Site": "same-origin", "Origin": "http://testserver"}
    await browser("POST", "/tokens", 201, json=body, headers=ours)
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ):
        await browser("POST", "/tokens", 403, json=body, headers=headers)
    await browser("POST", "/tokens", 403, json=body, headers={"Host": "rebound.example"})
    await browser("POST", "/tokens", 415, content=b'{"label": "x"}', headers={**ours, "Content-Type": "text/plain"})


async def test_a_password_is_changed_by_who_knows_the_old_one(server: Any) -> None:
    wrong = await server.ann("POST", "/me/password", 400, json={"old": "no", "new": "another horse"})
    assert wrong["field"] == "old"
    await server.ann("POST", "/me/password", 204, json={"old": "correct horse", "new": "another horse"})
    await server.ann("POST", "/me/password", 400, json={"old": "correct horse", "new": "third horse"})


async def test_the_budget_is_changed_while_the_server_runs(server: Any) -> None:
    assert (await server.owner("GET", "/settings"))["budget"] == 100_000
    assert (await server.owner("PATCH", "/settings", json={"budget": 30}))["budget"] == 30
    assert (await server.owner("GET", "/scheduler"))["budget_per_minute"] == 30
    for budget in (0, -1, "many", None, 1e9):
        assert (await server.owner("PATCH", "/settings", 400, json={"budget": budget}))["field"] == "budget"


async def test_the_scheduler_says_who_is_next_and_why(server: Any) -> None:
    for number in range(3):
        await server.owner("POST", "/feeds", 201, json={"url": server.farm.url(number)})
    told = await server.ann("GET", "/scheduler")
    assert told["strategy"] == "uniform"
    await server.owner("GET", "/scheduler/cluster", 404)
    while not (found := (await server.owner("GET", "/scheduler/candidates?limit=2"))["items"]):
        pass
    assert len(found) <= 2
    assert found[0]["why"]
    assert found == sorted(found, key=lambda one: one["due"])


async def test_an_address_without_anything_is_told_in_json(server: Any) -> None:
    for path in ("/nothing", "/feeds/1/2/3", "/queries//items", "/users/1/password"):
        await server.owner("GET", path, 404)


async def test_a_method_that_is_not_for_an_address_is_told_with_those_that_are(server: Any) -> None:
    answer = await server.owner.http.request("PUT", "/api/v1/feeds")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, POST"


async def test_a_database_that_does_not_answer_is_told(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def locked(*_: object, **__: object) -> None:
        raise StoreError("The database /srv/feeds.sqlite is locked.", public="The database is locked.")

    intercept_reads(monkeypatch, server.store, list_feed_overviews, locked)
    assert (await server.owner("GET", "/feeds", 503))["message"] == "The database is locked."


BROKEN = {
    b"": 400,
    b"{": 400,
    b"[]": 400,
    b"null": 400,
    b"\xff\xfe": 400,
    b'{"label": "\xff"}': 400,
    b'{"label": "\\ud800"}': 400,
    b'{"label":' + b"[" * 100_000: 400,
    b'{"label": NaN}': 400,
    b'{"label": "' + b"a" * 21_000_000 + b'"}': 413,
}


async def test_broken_bodies_are_told(server: Any) -> None:
    for content, status in BROKEN.items():
        await server.ann("POST", "/tokens", status, content=content, headers={"Content-Type": "application/json"})
