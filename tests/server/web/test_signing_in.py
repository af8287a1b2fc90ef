"""Access by open mode, passwords, sessions, tokens and proxies works, and strangers are kept out."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
from form_errors import read_field_error
from sqlalchemy import text
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from headwater.credentials import hash_password, hash_secret
from headwater.errors import StoreError
from headwater.node.crawl.crawl_status import CrawlStatus
from headwater.settings import Settings, load_settings
from headwater.store.content.feeds import NewFeed, count_feeds
from headwater.store.maintenance.trash import move_api_token_to_trash
from headwater.store.publishing.private_feeds import set_private
from headwater.store.readers.accounts import (
    User,
    add_api_token,
    add_user,
    change_user,
    claim_ownership,
    find_owner,
    find_session,
    find_user,
    list_api_tokens,
    list_users,
)
from headwater.store.readers.subscriptions import add_and_subscribe, subscribe_to_feed
from headwater.store.store import Store
from headwater.times import DAY
from headwater.web.app import create_app
from headwater.web.auth.authentication import COOKIE, require_identity, safe_return_path
from headwater.web.auth.client_address import TrustedProxyHeaders
from support.idle_node import make_idle_node
from support.store_samples import SOMEBODY, intercept_reads

NOW = 1_800_000_000.0
STATUS = CrawlStatus(0, 0, "uniform", 60.0, 60, None, 0)
PASSWORD = "correct horse battery"
CLOSED = load_settings()
Clients = Callable[..., httpx.AsyncClient]


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


async def whoami(request: Request) -> PlainTextResponse:
    return PlainTextResponse((await require_identity(request, request.query_params.get("scope", "read"))).user.name)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def clients(web_store: Store, clock: Clock) -> AsyncIterator[Clients]:
    """Make clients, `clients(peer="192.0.2.1", …)`: each calls one application directly from an address."""
    opened: list[httpx.AsyncClient] = []
    apps: dict[Settings, Starlette] = {}

    def client(
        peer: str = "127.0.0.1",
        access: Settings = CLOSED,
        base: str = "http://localhost",
    ) -> httpx.AsyncClient:
        if access not in apps:
            app = create_app(make_idle_node(web_store, STATUS, settings=access), clock=clock)
            app.router.routes.insert(0, Route("/whoami", whoami, methods=["GET", "POST"]))
            apps[access] = app
        transport = httpx.ASGITransport(TrustedProxyHeaders(apps[access], access.trusted_proxies), client=(peer, 5000))
        opened.append(httpx.AsyncClient(transport=transport, base_url=base, headers={"Origin": base}))
        opened[-1].app = apps[access]  # type: ignore[attr-defined]
        return opened[-1]

    yield client
    for one in opened:
        await one.aclose()


async def ada(store: Store) -> User:
    owner = await store.write(claim_ownership, "Ada", hash_password(PASSWORD))
    assert owner is not None
    return owner


async def sign_in(
    client: httpx.AsyncClient, name: str = "Ada", password: str = PASSWORD, **more: str
) -> httpx.Response:
    return await client.post("/login", data={"name": name, "password": password, **more})


async def test_while_the_owner_has_no_password_this_machine_is_the_owner_and_nobody_else(clients: Clients) -> None:
    assert (await clients().get("/whoami?scope=admin")).text == "owner"
    assert (await clients("::1").get("/whoami")).text == "owner"
    for far in (clients("192.0.2.1"), clients("::ffff:192.0.2.1"), clients("10.0.0.1")):
        answer = await far.get("/whoami?a=b")
        assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2Fwhoami%3Fa%3Db")
    for header in ("X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"):
        assert (await clients().get("/whoami", headers={header: "127.0.0.1"})).status_code == 303


async def test_a_strangers_name_pointed_at_this_machine_reads_nothing(clients: Clients) -> None:
    rebound = clients(base="http://evil.example")
    assert (await rebound.get("/whoami")).status_code == 403
    malformed = ("localhost:1@evil.example", "evil.example@localhost", "evil.example:", "localhost#.evil")
    for host in malformed:  # Starlette reads the server's own address instead
        assert (await clients().get("/whoami", headers={"Host": host})).status_code == 403, host
    for host in ("localhost", "LOCALHOST:8080", "127.0.0.1:80", "[::1]:80"):
        assert (await clients().get("/whoami", headers={"Host": host})).text == "owner", host
    named = clients(base="http://mine.example", access=load_settings(names=("mine.example",)))
    assert (await named.get("/whoami")).text == "owner"


async def test_the_link_of_the_log_makes_the_owner_once(clients: Clients, web_store: Store) -> None:
    far = clients("192.0.2.1")
    code = far.app.state.login.setup_code  # type: ignore[attr-defined]
    form = {"name": "Ada", "password": PASSWORD, "again": PASSWORD}
    wrong = {**form, "code": "guessed"}
    assert (await far.post("/welcome", data=wrong)).status_code == 403
    assert not (await web_store.read(find_owner)).has_password
    short = {**form, "code": code, "password": "short", "again": "short"}
    answer = await far.post("/welcome", data=short)
    assert (answer.status_code, "8 characters" in answer.text) == (400, True)
    right = {**form, "code": code}
    answer = await far.post("/welcome", data=right)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert (await far.get("/whoami?scope=admin")).text == "Ada"
    assert (await clients("192.0.2.2").get(f"/welcome?code={code}")).headers["location"] == "/login"
    assert (await clients().get("/whoami")).status_code == 303  # open mode is over for this machine too


FORM = {"password": PASSWORD, "again": PASSWORD}


@pytest.mark.parametrize("way", ["welcome", "page", "API", "command"])
async def test_the_first_password_ends_every_token_and_session_before_it(
    clients: Clients, web_store: Store, way: str
) -> None:
    local, far = clients(), clients("192.0.2.1")
    made = await local.post("/api/v1/tokens", json={"label": "early", "scopes": ["read", "write", "admin"]})
    token = made.json()["token"]
    login = await local.post("/accounts/ClientLogin", data={"Email": "owner", "Passwd": token})
    session = login.text.splitlines()[2].removeprefix("Auth=")
    early = ({"Authorization": f"Bearer {token}"}, {"Authorization": f"GoogleLogin auth={session}"})
    calls = ("/api/v1/me", "/reader/api/0/user-info")
    assert [(await far.get(path, headers=one)).status_code for path, one in zip(calls, early, strict=True)] == [200] * 2
    owner = await web_store.read(find_owner)
    if way == "welcome":
        await local.post("/welcome", data={"name": "Ada", **FORM})
    elif way == "page":
        await local.post("/password", data=FORM)
    elif way == "API":
        await local.patch(f"/api/v1/users/{owner.id}", json={"password": PASSWORD})
    else:
        await web_store.write(change_user, owner.id, password=hash_password(PASSWORD))
    assert (await web_store.read(find_owner)).has_password
    assert [(await far.get(path, headers=one)).status_code for path, one in zip(calls, early, strict=True)] == [401] * 2


async def test_a_token_gives_nobody_more_than_it_may_do_itself(clients: Clients, web_store: Store) -> None:
    owner = await ada(web_store)
    await web_store.write(add_user, "Proxied", None, NOW)
    proxied = await web_store.read(find_user, "Proxied")
    for user in (owner, proxied):
        await web_store.write(add_api_token, user.id, hash_secret(f"of {user.name}"), "", ["read", "write"], NOW)
    far = clients("192.0.2.1")
    far.headers["Authorization"] = "Bearer of Ada"
    more = {"label": "more", "scope-read": "1", "scope-write": "1", "scope-admin": "1"}
    assert (await far.post("/settings/tokens", data=more)).status_code == 400
    assert [one.scopes for one in await web_store.read(list_api_tokens, owner.id)] == [("read", "write")]
    del more["scope-admin"]
    assert (await far.post("/settings/tokens", data=more)).status_code == 200
    far.headers["Authorization"] = "Bearer of Proxied"
    answer = await far.post("/password", data=FORM)
    assert (answer.status_code, answer.headers.get("set-cookie")) == (403, None)
    assert not (await web_store.read(find_user, "Proxied")).has_password


async def test_signed_in_people_read_on_while_nothing_can_be_written(
    clients: Clients, clock: Clock, web_store: Store
) -> None:
    owner = await ada(web_store)
    await web_store.write(add_api_token, owner.id, hash_secret("never used"), "", ["read"], NOW)
    signed_in, with_token = clients(), clients("192.0.2.1")
    await sign_in(signed_in)
    with_token.headers["Authorization"] = "Bearer never used"
    clock.now += DAY
    await web_store.write(lambda connection: connection.execute(text("PRAGMA query_only = ON")))
    for client in (signed_in, with_token):
        assert (await client.get("/whoami")).text == "Ada"
    with pytest.raises(StoreError):
        await web_store.write(add_user, "Bo", None, NOW)


async def test_everything_but_what_is_published_asks_who_you_are(clients: Clients, web_store: Store) -> None:
    await ada(web_store)
    stranger = clients()
    for path in ("/", "/status", "/settings", "/read/all", "/feed/1", "/queries", "/picture", "/password"):
        answer = await stranger.get(path)
        assert answer.status_code == 303, path
        assert answer.headers["location"].startswith("/login"), path
    for path in ("/health", "/metrics", "/static/site.css", "/login"):
        assert (await stranger.get(path)).status_code == 200, path
    for path in ("/nothing-here", "/feeds.opml"):
        assert (await stranger.get(path)).status_code == 404, path
    assert (await stranger.get("/api/v1/feeds")).status_code == 401
    assert (await stranger.post("/feeds", data={"address": "https://a.example/"})).status_code == 401
    assert await web_store.read(count_feeds) == 0


async def test_a_session_begins_with_the_password_and_ends_with_logout(clients: Clients, web_store: Store) -> None:
    await ada(web_store)
    client = clients("192.0.2.1")
    answer = await sign_in(client, next="/whoami")
    assert (answer.status_code, answer.headers["location"]) == (303, "/whoami")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "secure" not in cookie
    kept = client.cookies[COOKIE]
    assert (await client.get("/whoami")).text == "Ada"
    assert (await client.post("/logout")).status_code == 303
    thief = clients("192.0.2.1")
    thief.cookies.set(COOKIE, kept)
    assert (await thief.get("/whoami")).status_code == 303


async def test_behind_https_the_cookie_is_secure(clients: Clients, web_store: Store) -> None:
    await ada(web_store)
    answer = await sign_in(clients(base="https://localhost"))
    assert "secure" in answer.headers["set-cookie"].lower()


async def test_a_session_ends_a_month_after_its_last_use(clients: Clients, web_store: Store, clock: Clock) -> None:
    await ada(web_store)
    client = clients()
    await sign_in(client)
    for _ in range(3):
        clock.now += 20 * 86_400
        assert (await client.get("/whoami")).status_code == 200
    clock.now += 31 * 86_400
    assert (await client.get("/whoami")).status_code == 303


async def test_sessions_die_with_a_new_password(clients: Clients, web_store: Store) -> None:
    await ada(web_store)
    one, other = clients(), clients()
    await sign_in(one)
    await sign_in(other)
    form = {"old": PASSWORD, "password": "quite another", "again": "quite another"}
    assert (await one.post("/password", data={**form, "old": "wrong"})).status_code == 403
    assert (await other.get("/whoami")).status_code == 200
    assert (await one.post("/password", data={**form})).status_code == 303
    assert (await one.get("/whoami")).text == "Ada"
    assert (await other.get("/whoami")).status_code == 303
    assert (await sign_in(other)).status_code == 403
    assert (await sign_in(other, password="quite another")).status_code == 303


async def test_guessing_gets_slower_by_name_and_by_address(clients: Clients, web_store: Store, clock: Clock) -> None:
    await ada(web_store)
    for guess in range(6):
        assert (await sign_in(clients(f"192.0.2.{guess}"), "ADA", "wrong")).status_code == 403
    answer = await sign_in(clients("192.0.2.99"))
    assert answer.status_code == 429  # even the right password, while the name is being guessed
    assert int(answer.headers["retry-after"]) >= 1
    clock.now += 3
    assert (await sign_in(clients("192.0.2.99"))).status_code == 303
    for guess in range(6):
        assert (await sign_in(clients("198.51.100.7"), f"name{guess}", "wrong")).status_code == 403
    assert (await sign_in(clients("198.51.100.7"), "other", "wrong")).status_code == 429
    assert (await sign_in(clients("198.51.100.8"))).status_code == 303


async def test_a_wrong_name_and_a_wrong_password_are_told_alike(clients: Clients, web_store: Store) -> None:
    await ada(web_store)
    known = await sign_in(clients(), "Ada", "wrong")
    unknown = await sign_in(clients(), "Adb", "wrong")
    strip = re.compile(r'value="[^"]*"')
    assert known.status_code == unknown.status_code == 403
    assert strip.sub("", known.text) == strip.sub("", unknown.text)


@pytest.mark.parametrize(
    "next",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example/",
        "\\\\evil.example",
        "javascript:alert(1)",
        "/\t/evil.example",
        "http:evil.example",
        " //evil.example",
    ],
)
async def test_nobody_is_led_elsewhere_by_signing_in(clients: Clients, web_store: Store, next: str) -> None:
    await ada(web_store)
    assert safe_return_path(next) == "/"
    answer = await sign_in(clients(), next=next)
    assert answer.headers["location"] == "/"


async def test_tokens_do_what_their_scopes_say_and_no_more(clients: Clients, web_store: Store) -> None:
    owner = await ada(web_store)
    reader = await web_store.write(add_user, "Bo", None, NOW)
    for user, secret, scopes in (
        (owner, "owner-read", ["read"]),
        (owner, "owner-all", ["read", "write", "admin"]),
        (reader, "reader-all", ["read", "write", "admin"]),
    ):
        await web_store.write(add_api_token, user.id, hash_secret(secret), "test", scopes, NOW)
    client = clients("192.0.2.1")

    async def status(secret: str, scope: str, method: str = "GET") -> int:
        headers = {"Authorization": f"Bearer {secret}"}
        return (await client.request(method, f"/whoami?scope={scope}", headers=headers)).status_code

    assert [await status("owner-read", scope) for scope in ("read", "write", "admin")] == [200, 403, 403]
    assert [await status("owner-all", scope) for scope in ("read", "write", "admin")] == [200, 200, 200]
    assert [await status("reader-all", scope) for scope in ("read", "write", "admin")] == [200, 200, 403]
    assert await status("owner-read", "write", "POST") == 403
    assert await status("owner-all", "read", "POST") == 200
    assert await status("unknown", "read") == 401
    assert (await client.get("/whoami", headers={"Authorization": "Basic eDp5"})).status_code == 401
    token = (await web_store.read(list_api_tokens, owner.id))[1]
    assert token.last_used == NOW
    await web_store.write(move_api_token_to_trash, owner.id, token.id, by=SOMEBODY)
    assert await status("owner-all", "read") == 401
    assert (await clients().get("/whoami", headers={"Authorization": "Bearer x"})).status_code == 401


async def test_other_sites_change_nothing_with_somebodys_cookie(clients: Clients, web_store: Store) -> None:
    await ada(web_store)
    client = clients()
    await sign_in(client)
    assert (await client.post("/whoami")).text == "Ada"
    for headers in (
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "null"},
    ):
        assert (await client.post("/whoami", headers=headers)).status_code == 403
        for page in ("/login", "/logout", "/welcome", "/password"):
            assert (await client.post(page, data={"name": "x", "password": "y"}, headers=headers)).status_code == 403
    del client.headers["Origin"]
    refused = await client.post("/logout")
    assert (refused.status_code, "neither the header Sec-Fetch-Site nor Origin" in refused.text) == (403, True)
    assert (await client.get("/whoami")).text == "Ada"  # not even signed out


async def test_in_open_mode_other_sites_change_nothing_either(clients: Clients, web_store: Store) -> None:
    client = clients()
    assert (await client.post("/whoami", headers={"Origin": "https://evil.example"})).status_code == 403
    form = {"name": "Eve", "password": PASSWORD, "again": PASSWORD, "code": ""}
    assert (await client.post("/welcome", data=form, headers={"Origin": "https://evil.example"})).status_code == 403
    assert not (await web_store.read(find_owner)).has_password


async def test_registration_is_closed_unless_opened_and_never_makes_an_owner(
    clients: Clients, web_store: Store
) -> None:
    await ada(web_store)
    assert (await clients().get("/register")).status_code == 403
    client = clients("192.0.2.1", load_settings(registration=True))
    form = {"name": "Bo", "password": PASSWORD, "again": PASSWORD, "role": "owner", "is_owner": "1"}
    taken = await client.post("/register", data={**form, "name": "ada"})
    assert (taken.status_code, "already" in taken.text) == (400, True)
    assert (await client.post("/register", data={**form})).status_code == 303
    assert (await client.get("/whoami")).text == "Bo"
    assert (await web_store.read(find_user, "bo")).role == "reader"
    assert (await client.get("/whoami?scope=admin")).status_code == 403


@pytest.mark.parametrize("name", ["", "a/b", "x" * 65, "a\nb", "\u202eeve", "a\\b", "\x00"])
async def test_names_that_cannot_be_are_refused(clients: Clients, web_store: Store, name: str) -> None:
    client = clients(access=load_settings(registration=True))
    form = {"name": name, "password": PASSWORD, "again": PASSWORD}
    assert (await client.post("/register", data=form)).status_code == 400
    assert len(await web_store.read(list_users)) == 1


@pytest.mark.parametrize(
    ("wrong", "at"),
    [({"name": "a/b"}, "name"), ({"password": "short", "again": "short"}, "password"), ({"again": "other"}, "again")],
)
async def test_mistakes_in_an_account_are_reported_at_the_field(
    clients: Clients, wrong: dict[str, str], at: str
) -> None:
    client = clients(access=load_settings(registration=True))
    for path in ("/welcome", "/register"):
        form = {"name": "Bo", "password": PASSWORD, "again": PASSWORD, **wrong}
        answer = await client.post(path, data=form)
        assert answer.status_code == 400
        assert read_field_error(answer.text, at, name=form["name"])


async def test_who_cannot_sign_in_is_told_at_the_password_and_not_which_of_the_two_was_wrong(
    clients: Clients, web_store: Store
) -> None:
    await ada(web_store)
    told = set()
    for name in ("Ada", "Nobody"):
        answer = await sign_in(clients(), name, "wrong")
        assert answer.status_code == 403
        told.add(read_field_error(answer.text, "password", name=name))
    assert told == {"Wrong name or password."}


async def test_guessing_at_the_present_password_is_told_at_its_field_and_gets_slower(
    clients: Clients, web_store: Store, clock: Clock
) -> None:
    await ada(web_store)
    client = clients()
    await sign_in(client)
    form = {"password": "quite another", "again": "quite another"}
    for _ in range(6):
        answer = await client.post("/password", data={**form, "old": "guessed"})
        assert (answer.status_code, read_field_error(answer.text, "old")) == (403, "The present password is wrong.")
    answer = await client.post("/password", data={**form, "old": PASSWORD})
    assert answer.status_code == 429  # even the right one, or the answer would distinguish it
    assert read_field_error(answer.text, "old").startswith("Too many failed attempts.")
    clock.now += 60
    answer = await client.post("/password", data={**form, "old": PASSWORD, "password": "short", "again": "short"})
    assert (answer.status_code, read_field_error(answer.text, "password")[:10]) == (400, "The passwo")
    assert (await client.post("/password", data={**form, "old": PASSWORD})).status_code == 303


async def test_a_trusted_proxy_says_who_it_is_and_nobody_else_can(clients: Clients, web_store: Store) -> None:
    await ada(web_store)
    access = load_settings(proxy_header="Remote-User", trusted_proxies=("10.0.0.0/8",))
    proxy, stranger = clients("10.1.2.3", access), clients("192.0.2.1", access)
    headers = {"Remote-User": "ada", "X-Forwarded-For": "192.0.2.7"}
    assert (await proxy.get("/whoami", headers=headers)).text == "Ada"
    assert (await proxy.get("/whoami")).status_code == 303
    assert (await stranger.get("/whoami", headers=headers)).status_code == 303
    forged = {"Remote-User": "ada", "X-Forwarded-For": "10.1.2.3"}
    assert (await stranger.get("/whoami", headers=forged)).status_code == 303
    assert (await proxy.get("/whoami", headers={"Remote-User": "nobody"})).status_code == 403
    assert (await proxy.post("/whoami", headers={**headers, "Sec-Fetch-Site": "cross-site"})).status_code == 403
    inviting = clients("10.1.2.3", access.with_changes({"registration": True}))
    assert (await inviting.get("/whoami", headers={"Remote-User": "Cy"})).text == "Cy"
    assert (await web_store.read(find_user, "Cy")).role == "reader"


async def test_readers_see_their_own_feeds_and_no_others(clients: Clients, web_store: Store) -> None:
    await ada(web_store)
    new = [NewFeed("https://secret.example/?key=1", title="Secret"), NewFeed("https://shared.example/", title="Shared")]
    secret, shared = (one.feed for one in await web_store.write(add_and_subscribe, new, NOW))
    bo = await web_store.write(add_user, "Bo", hash_password(PASSWORD), NOW)
    await web_store.write(subscribe_to_feed, bo.id, shared.id, NOW)
    theirs = await web_store.write(
        add_and_subscribe, [NewFeed("https://bo.example/?key=2", title="Bo reads")], NOW, subscriber=bo.id
    )
    client = clients()
    await sign_in(client, "Bo")
    listed = (await client.get("/feeds")).text
    assert "Shared" in listed
    assert "Bo reads" in listed
    assert "secret.example" not in listed
    assert (await client.get(f"/feed/{shared.id}")).status_code == 200
    assert (await client.get(f"/feed/{secret.id}")).status_code == 404
    for page in ("/status", "/quality"):
        assert (await client.get(page)).status_code == 403
    await web_store.write(set_private, "/feeds", False)
    public = (await clients("192.0.2.1", load_settings(names=("new.example",))).get("/feeds.opml")).text
    assert "shared.example" in public
    assert "bo.example" not in public  # the owner's list, as before there were readers
    assert theirs[0].created


async def test_a_reader_without_feeds_is_offered_what_a_reader_can_do(clients: Clients, web_store: Store) -> None:
    await ada(web_store)
    await web_store.write(add_user, "Bo", hash_password(PASSWORD), NOW)
    offered = {}
    for name in ("Ada", "Bo"):
        client = clients()
        await sign_in(client, name)
        offered[name] = (await client.get("/")).text
    assert "headwater demo" in offered["Ada"]
    assert "headwater demo" not in offered["Bo"]
    assert "Import subscriptions" in offered["Bo"]


async def test_a_store_that_fails_for_a_moment_lets_nobody_in(
    clients: Clients, web_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ada(web_store)
    await web_store.write(add_and_subscribe, [NewFeed("https://secret.example/", title="Secret")], NOW)
    client = clients()

    async def fails(*args: object) -> None:
        monkeypatch.undo()  # the next lookup is answered
        raise StoreError("The database is locked.")

    intercept_reads(monkeypatch, web_store, find_session, fails)
    client.cookies.set(COOKIE, "whatever")
    answer = await client.get("/feeds")
    assert answer.status_code == 503
    assert "Secret" not in answer.text
