"""The Google Reader API answers each client's calls over real HTTP, in its order and form, with strict types."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import httpx
import pytest
from greader_client import (
    READ,
    READING_LIST,
    STARRED,
    STATE,
    Contents,
    GreaderClient,
    GreaderSubscriptions,
    GreaderUnreadCounts,
    QuickAdd,
    Refs,
    Tags,
    UserInfo,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.json import decode

from headwater.credentials import hash_password, hash_secret
from headwater.errors import InputError
from headwater.formats import read
from headwater.model import Enclosure
from headwater.node.queries.processor import QueryProcessor
from headwater.store.content.feeds import NewFeed, count_feeds, list_feeds
from headwater.store.content.verdicts import save_refreshes
from headwater.store.maintenance.trash import list_trash, move_api_token_to_trash, restore_from_trash
from headwater.store.maintenance.trash_entries import Remover
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.accounts import (
    add_api_token,
    add_user,
    change_user,
    claim_ownership,
    find_owner,
    start_session,
)
from headwater.store.readers.stream_positions import HIT_ID_OFFSET
from headwater.store.readers.subscriptions import add_and_subscribe, list_subscriptions
from headwater.store.readers.unread_counts import count_unread
from headwater.store.store import Store
from headwater.web.greader import stream_ids
from support.store_samples import a_verdict, an_item

NOW = 1_800_000_000.0
PASSWORD = "correct horse battery"
Start = Callable[..., Awaitable[str]]


@pytest.fixture
async def used_store(web_store: Store) -> Store:
    """Make two feeds in folders with three items each, one without; a query feed; and a user called Ada."""
    new = [
        NewFeed("https://a.example/feed?x=1&y=2", title="A & A", tags=("news",), link="https://a.example/"),
        NewFeed("https://b.example/feed", title="B", tags=("news", "péople / 人")),
        NewFeed("https://c.example/feed"),
    ]
    feeds = [one.feed for one in await web_store.write(add_and_subscribe, new, NOW - 5000)]
    for n, feed in enumerate(feeds):
        items = [
            an_item(
                feed.id,
                f"{n}-{k}",
                title=f"Lava {n}-{k}" if k == 0 else f"Title {n}-{k}",
                published=NOW - 1000 - 10 * k,
                first_seen=NOW - 900 + 100 * n,
                link=None if k == 2 else f"https://example.org/{n}-{k}",
                authors=("Ada", "Bo"),
                enclosures=(Enclosure("https://example.org/x.mp3", "audio/mpeg", 123),) if k == 1 else (),
            )
            for k in range(3)
        ]
        await save_refreshes(web_store, [a_verdict(feed, *items, at=NOW - 900 + 100 * n)])
    await web_store.write(claim_ownership, "Ada", hash_password(PASSWORD))
    return web_store


@pytest.fixture
async def client(site: Start, used_store: Store) -> AsyncIterator[GreaderClient]:
    async with httpx.AsyncClient() as http:
        found = GreaderClient(http, await site())
        await found.login("ada", PASSWORD)
        yield found


async def test_the_whole_api_is_also_where_freshrss_has_it(client: GreaderClient) -> None:
    root = client.base
    paths = ("user-info", "subscription/list", "tag/list", "unread-count", "stream/items/ids", "stream/contents/feed/1")
    for path in paths:
        client.base = root
        here = await client.ask(f"/reader/api/0/{path}")
        client.base = f"{root}/api/greader.php"
        there = await client.ask(f"/reader/api/0/{path}")
        assert (here.status_code, here.content) == (200, there.content)
    await client.login("ada", PASSWORD)
    assert await client.post("edit-tag", [("i", "1"), ("a", READ)]) == "OK"
    assert (await client.ask("")).status_code == 200


@settings(deadline=None)
@given(st.integers(-(2**63), 2**63 - 1))
def test_every_form_of_an_id_is_read_back(number: int) -> None:
    for form in (stream_ids.format_item_id(number), stream_ids.format_item_id(number).rpartition("/")[2]):
        assert stream_ids.parse_item_id(form) == number
    if len(str(number)) != 16:  # sixteen digits are read as hexadecimal
        assert stream_ids.parse_item_id(str(number)) == number


@settings(deadline=None)
@given(st.text(max_size=40))
def test_anything_else_is_refused_with_a_sentence(text: str) -> None:
    for reading in (stream_ids.parse_item_id, stream_ids.parse_stream, stream_ids.parse_label):
        with suppress(InputError):  # and nothing else
            reading(text)


async def test_signing_in_gives_tokens_and_wrong_passwords_do_not(site: Start, used_store: Store) -> None:
    base = await site()
    async with httpx.AsyncClient() as http:
        wrong = await http.post(f"{base}/accounts/ClientLogin", data={"Email": "ada", "Passwd": "wrong"})
        assert (wrong.status_code, wrong.text) == (403, "Error=BadAuthentication")
        params = {"Email": "ada", "Passwd": PASSWORD, "output": "json"}
        right = await http.get(f"{base}/accounts/ClientLogin", params=params)
        assert set(right.json()) == {"SID", "LSID", "Auth"}
        auth = right.json()["Auth"]
        for headers in (
            {},
            {"Authorization": "GoogleLogin auth=nobody"},
            {"Authorization": "GoogleLogin"},
            {"Authorization": "Basic eDp5"},
            {"Cookie": f"headwater_session={auth}"},
        ):
            answer = await http.get(f"{base}/reader/api/0/user-info", headers=headers)
            assert answer.status_code == 401, headers
        owner = await used_store.read(find_owner)
        await used_store.write(add_api_token, owner.id, hash_secret("for-phone"), "phone", ["read", "write"], NOW)
        await used_store.write(add_api_token, owner.id, hash_secret("only-read"), "wall", ["read"], NOW)
        token = await http.post(f"{base}/accounts/ClientLogin", data={"Email": "Ada", "Passwd": "for-phone"})
        assert token.status_code == 200
        weak = await http.post(f"{base}/accounts/ClientLogin", data={"Email": "Ada", "Passwd": "only-read"})
        assert weak.status_code == 403
        bearer = {"Authorization": "Bearer only-read"}
        assert (await http.get(f"{base}/reader/api/0/user-info", headers=bearer)).status_code == 200
        assert (await http.post(f"{base}/reader/api/0/edit-tag", headers=bearer)).status_code == 403


async def test_a_new_password_ends_what_clients_hold(client: GreaderClient, used_store: Store) -> None:
    owner = await used_store.read(find_owner)
    assert (await client.ask("/reader/api/0/user-info")).status_code == 200
    await used_store.write(change_user, owner.id, password=hash_password("quite another one"))
    assert (await client.ask("/reader/api/0/user-info")).status_code == 401


async def test_guessing_by_clients_is_slowed_down(site: Start, used_store: Store) -> None:
    base = await site()
    async with httpx.AsyncClient() as http:
        login = f"{base}/accounts/ClientLogin"
        for _ in range(6):
            assert (await http.post(login, data={"Email": "ada", "Passwd": "wrong"})).status_code == 403
        answer = await http.post(login, data={"Email": "ada", "Passwd": PASSWORD})
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) > 0


async def test_there_is_no_session_before_there_is_a_password(site: Start, web_store: Store) -> None:
    base = await site()
    async with httpx.AsyncClient() as http:
        for password in ("whatever", ""):
            answer = await http.post(f"{base}/accounts/ClientLogin", data={"Email": "owner", "Passwd": password})
            assert (answer.status_code, answer.text) == (403, "Error=BadAuthentication")


async def test_a_login_from_this_machine_under_a_foreign_name_is_refused(site: Start, web_store: Store) -> None:
    await web_store.write(claim_ownership, "Ada", hash_password(PASSWORD))
    base = await site()
    async with httpx.AsyncClient(headers={"Host": "evil.example"}) as http:
        answer = await http.post(f"{base}/accounts/ClientLogin", data={"Email": "Ada", "Passwd": PASSWORD})
        assert answer.status_code == 403
        assert "Auth=" not in answer.text


async def test_setting_the_first_password_ends_every_session_before_it(site: Start, web_store: Store) -> None:
    owner = await web_store.read(find_owner)
    await web_store.write(start_session, hash_secret("early"), owner.id, "client", "", NOW, NOW + 1e6)
    base = await site()
    headers = {"Authorization": "GoogleLogin auth=early"}
    async with httpx.AsyncClient(headers=headers) as http:
        assert (await http.get(f"{base}/reader/api/0/user-info")).status_code == 200
        await web_store.write(claim_ownership, "Ada", hash_password(PASSWORD))
        assert (await http.get(f"{base}/reader/api/0/user-info")).status_code == 401


async def test_a_session_made_with_a_token_ends_with_the_token(site: Start, web_store: Store) -> None:
    owner = await web_store.write(claim_ownership, "Ada", hash_password(PASSWORD))
    assert owner is not None
    token = await web_store.write(add_api_token, owner.id, hash_secret("for-phone"), "", ["read", "write"], NOW)
    base = await site()
    async with httpx.AsyncClient() as http:
        made = await http.post(f"{base}/accounts/ClientLogin", data={"Email": "Ada", "Passwd": "for-phone"})
        auth = dict(line.split("=", 1) for line in made.text.splitlines())["Auth"]
        headers = {"Authorization": f"GoogleLogin auth={auth}"}
        assert (await http.get(f"{base}/reader/api/0/user-info", headers=headers)).status_code == 200
        undo = await web_store.write(move_api_token_to_trash, owner.id, token.id, by=Remover(owner.id, NOW))
        assert (await http.get(f"{base}/reader/api/0/user-info", headers=headers)).status_code == 401
        await web_store.write(restore_from_trash, undo, owner.id, NOW)
        assert (await http.get(f"{base}/reader/api/0/user-info", headers=headers)).status_code == 200


# the calls of each client, in order


async def test_netnewswire_synchronises(client: GreaderClient) -> None:
    """Tags, subscriptions (both conditional), unread and starred ids, missing contents by POST, states by edit-tag."""
    tags: Tags = await client.get(Tags, "tag/list")
    assert {"user/-/label/news", "user/-/label/péople / 人", STARRED} == {tag.id for tag in tags.tags}
    subs: GreaderSubscriptions = await client.get(GreaderSubscriptions, "subscription/list")
    assert [one.title for one in subs.subscriptions] == ["A & A", "B", "https://c.example/feed"]
    assert subs.subscriptions[2].categories == []
    unread = await client.all_ids(s=READING_LIST, n=4, xt=READ)
    assert len(unread) == len(set(unread)) == 9
    assert await client.all_ids(s=STARRED, n=1000) == []
    fresh = await client.all_ids(s=READING_LIST, n=1000, ot=int(NOW) - 850)
    assert len(fresh) == 6
    items = await client.contents([f"{stream_ids.LONG_PREFIX}{int(id):016x}" for id in unread[:5]])
    assert [item.number for item in items] == [int(id) for id in unread[:5]]
    assert all(item.summary.content for item in items)
    token = await client.token()
    fields = [("T", token), ("a", READ), *(("i", f"{stream_ids.LONG_PREFIX}{int(id):016x}") for id in unread[:3])]
    assert await client.post("edit-tag", fields) == "OK"
    assert set(await client.all_ids(s=READING_LIST, n=1000, xt=READ)) == set(unread[3:])
    assert await client.post("edit-tag", [("T", token), ("a", STARRED), ("i", unread[0])]) == "OK"
    assert await client.all_ids(s=STARRED, n=1000) == [unread[0]]
    (item,) = await client.contents([unread[0]])
    assert {READ, STARRED, READING_LIST} <= set(item.categories)


async def test_lists_are_never_answered_304(client: GreaderClient) -> None:
    """Liferea does not fetch new items after a 304 of subscription/list, so its second sync would bring nothing."""
    for path in ("subscription/list", "tag/list"):
        first = await client.ask(f"/reader/api/0/{path}?output=json")
        assert "etag" not in first.headers
        for asked in ("*", '"anything"'):
            again = await client.ask(f"/reader/api/0/{path}?output=json", headers={"If-None-Match": asked})
            assert (again.status_code, again.content) == (200, first.content)


async def test_read_you_and_capy_synchronise(client: GreaderClient) -> None:
    """Ids of 10,000 at once, contents of many decimal ids, a star, adding by quickadd and moving to a folder."""
    assert (await client.get(UserInfo, "user-info")).userName == "Ada"
    unread: Refs = await client.get(Refs, "stream/items/ids", s=READING_LIST, xt=READ, n=10_000)
    assert len(unread.itemRefs) == 9
    read: Refs = await client.get(Refs, "stream/items/ids", s=READ, n=10_000)
    assert read.itemRefs == []
    items = await client.contents([ref.id for ref in unread.itemRefs])
    assert {item.origin.streamId for item in items} == {"feed/1", "feed/2", "feed/3"}
    assert {item.author for item in items} == {"Ada, Bo"}
    added = decode(await client.post("subscription/quickadd", [("quickadd", "https://d.example/feed")]), type=QuickAdd)
    assert (added.numResults, added.streamId) == (1, "feed/4")
    edit = [("ac", "edit"), ("s", "feed/4"), ("t", "Dee"), ("a", "user/-/label/new folder"), ("r", "user/-/label/news")]
    assert await client.post("subscription/edit", edit) == "OK"
    subs: GreaderSubscriptions = await client.get(GreaderSubscriptions, "subscription/list")
    last = subs.subscriptions[-1]
    assert (last.title, [each.label for each in last.categories]) == ("Dee", ["new folder"])
    refused = decode(await client.post("subscription/quickadd", [("quickadd", "gopher://nothing")]), type=QuickAdd)
    assert refused.numResults == 0
    assert await client.post("subscription/edit", [("ac", "unsubscribe"), ("s", "feed/4")]) == "OK"
    again: GreaderSubscriptions = await client.get(GreaderSubscriptions, "subscription/list")
    assert len(again.subscriptions) == 3


async def test_fluent_reader_synchronises(client: GreaderClient) -> None:
    """Contents of the reading list page by page since the last time, then unread and starred ids, marks in a batch."""
    seen: list[int] = []
    more: dict[str, str] = {}
    while True:
        params = {"n": 2, "ot": int(NOW) - 1000, **more}
        page: Contents = await client.get(Contents, f"stream/contents/{READING_LIST}", **params)
        seen += [item.number for item in page.items]
        if page.continuation is None:
            break
        more = {"c": page.continuation}
    assert len(seen) == len(set(seen)) == 9
    unread = await client.all_ids(s=READING_LIST, xt=READ, n=1000)
    assert sorted(map(int, unread)) == sorted(seen)
    ts = str(int((NOW - 750) * 1e6))
    assert await client.post("mark-all-as-read", [("s", "feed/1"), ("ts", ts)]) == "OK"
    assert await client.post("mark-all-as-read", [("s", "user/-/label/news"), ("ts", "1000")]) == "OK"
    assert len(await client.all_ids(s=READING_LIST, xt=READ, n=1000)) == 6
    assert await client.post("edit-tag", [("i", unread[0]), ("a", READ), ("r", STARRED)]) == "OK"
    assert await client.post("edit-tag", [("i", unread[0]), ("r", READ)]) == "OK"
    assert len(await client.all_ids(s=READING_LIST, xt=READ, n=1000)) == 6


async def test_rss_guard_synchronises(client: GreaderClient) -> None:
    """Labels and feeds, ids of each feed, contents in batches of long ids, edit-tag without a token, several tags."""
    subs: GreaderSubscriptions = await client.get(GreaderSubscriptions, "subscription/list")
    for one in subs.subscriptions:
        assert len(await client.all_ids(s=one.id, n=200_000)) == 3
        by_address = await client.all_ids(s=f"feed/{one.url}", n=200_000)
        assert len(by_address) == 3
    every = await client.all_ids(s=READING_LIST, n=200_000)
    items = await client.contents([f"{int(id):016x}" for id in every])
    assert len(items) == 9
    assert sum(len(item.enclosure) for item in items) == 3
    fields = [*(("i", item.id) for item in items), ("a", STARRED), ("a", READ)]
    assert await client.post("edit-tag", fields) == "OK"
    counts: GreaderUnreadCounts = await client.get(GreaderUnreadCounts, "unread-count")
    assert (counts.max, [(one.id, one.count) for one in counts.unreadcounts]) == (0, [(READING_LIST, 0)])
    fields = [*(("i", item.id) for item in items[:2]), ("a", f"{STATE}kept-unread"), ("r", STARRED)]
    assert await client.post("edit-tag", fields) == "OK"
    counts = await client.get(GreaderUnreadCounts, "unread-count")
    assert counts.max == 2
    starred = await client.all_ids(s=STARRED, n=100)
    assert len(starred) == 7


async def test_liferea_synchronises(client: GreaderClient) -> None:
    """Follows Liferea 1.14: ids of each feed, their contents by a form whose T is its token, without the header."""
    subscribed = await client.get(GreaderSubscriptions, "subscription/list", output="json")
    for one in subscribed.subscriptions[:2]:
        refs = await client.get(
            Refs, "stream/items/ids", s=one.id, client="liferea", n="50", output="json", merge="true"
        )
        fields = [
            ("output", "json"),
            ("mediaRss", "true"),
            ("T", client.auth),
            *(("i", ref.id) for ref in refs.itemRefs),
        ]
        answer = await client.http.post(
            f"{client.base}/reader/api/0/stream/items/contents",
            content=str(httpx.QueryParams(fields)),
            headers={"Content-Type": "application/x-www-form-urlencoded"},
        )
        assert answer.status_code == 200
        assert len(answer.json()["items"]) == len(refs.itemRefs) == 3
    first = answer.json()["items"][0]["id"]
    fields = [
        ("i", first),
        ("s", "feed/2"),
        ("a", READ),
        ("ac", "edit-tags"),
        ("T", await client.token()),
        ("async", "true"),
    ]
    assert await client.post("edit-tag?client=liferea", fields) == "OK"
    assert first in {item["id"] for item in (await client.ask(f"/reader/api/0/stream/contents/{READ}")).json()["items"]}


async def test_a_form_without_the_header_is_taken_only_with_the_token_itself(client: GreaderClient) -> None:
    for token in ("", "guessed", await client.token()):
        answer = await client.http.post(
            f"{client.base}/reader/api/0/stream/items/contents", data={"i": "1", "T": token}, headers={}
        )
        assert answer.status_code == 401
    large = {"i": "1" * 70_000, "T": client.auth}
    answer = await client.http.post(f"{client.base}/reader/api/0/stream/items/contents", data=large)
    assert answer.status_code == 413


async def test_labels_are_renamed_and_removed_and_counts_have_their_newest_times(client: GreaderClient) -> None:
    counts: GreaderUnreadCounts = await client.get(GreaderUnreadCounts, "unread-count", all="true")
    by_id = {one.id: one for one in counts.unreadcounts}
    assert by_id["feed/1"].count == 3
    assert by_id["feed/1"].newestItemTimestampUsec == str(int((NOW - 900) * 1e6))
    assert by_id["user/-/label/news"].count == 6
    assert by_id[READING_LIST].count == counts.max == 9
    address = "https%3A%2F%2Fa.example%2Ffeed%3Fx%3D1%26y%3D2"
    answer = await client.ask(f"/reader/api/0/stream/contents/feed/{address}?n=2&client=liferea")
    assert answer.status_code == 200
    assert len(answer.json()["items"]) == 2
    await client.post("rename-tag", [("s", "user/-/label/news"), ("dest", "user/-/label/world")])
    assert "user/-/label/world" in {tag.id for tag in (await client.get(Tags, "tag/list")).tags}
    await client.post("disable-tag", [("s", "user/-/label/world")])
    assert "user/-/label/world" not in {tag.id for tag in (await client.get(Tags, "tag/list")).tags}


async def test_vienna_synchronises(client: GreaderClient) -> None:
    """Contents by label without output=json, oldest first; a read item stays read; marking a folder up to a moment."""
    answer = await client.ask("/reader/api/0/stream/contents/user/-/label/news?r=o&n=100&xt=" + READ)
    titles = [item["title"] for item in answer.json()["items"]]
    assert titles[:3] == ["Lava 0-0", "Title 0-1", "Title 0-2"]
    ts = str(int((NOW - 850) * 1e6))
    fields = [("s", "user/-/label/news"), ("ts", ts), ("T", await client.token())]
    assert await client.post("mark-all-as-read", fields) == "OK"
    answer = await client.ask(f"/reader/api/0/stream/contents?xt={READ}")
    assert {item["origin"]["streamId"] for item in answer.json()["items"]} == {"feed/2", "feed/3"}
    whole = await client.ask("/reader/api/0/stream/contents/")
    assert len(whole.json()["items"]) == 9


@pytest.mark.parametrize("token", ["x", "", "(null)", "too old", "f" * 57])
async def test_any_t_token_is_accepted_where_the_header_proves_the_session(client: GreaderClient, token: str) -> None:
    """Reeder sends “x”. The API ignores cookies, so the token protects nothing."""
    assert await client.post("edit-tag", [("T", token), ("i", "1"), ("a", READ)]) == "OK"
    assert await client.all_ids(s=READ, n=10) == ["1"]


async def test_a_missing_session_is_told_as_google_told_it(client: GreaderClient) -> None:
    answer = await client.ask("/reader/api/0/edit-tag", "POST", content="T=x&i=1", headers={"Authorization": ""})
    assert (answer.status_code, answer.headers["x-reader-google-bad-token"]) == (401, "true")


@pytest.mark.parametrize("field", [("s", "user/-/label/nobody has it"), ("s", "user/-/label/"), ("s", ""), ("t", "")])
async def test_disabling_a_label_that_is_not_there_is_ok(client: GreaderClient, field: tuple[str, str]) -> None:
    """NetNewsWire removes an empty folder this way."""
    before = await client.get(Tags, "tag/list")
    assert await client.post("disable-tag", [field]) == "OK"
    assert await client.get(Tags, "tag/list") == before


LATER, NEWS = "user/-/label/read later", "user/-/label/news"


async def test_labels_of_items_are_stored_listed_and_filtered(client: GreaderClient) -> None:
    assert await client.post("edit-tag", [("i", "1"), ("i", "4"), ("i", "7"), ("a", LATER), ("a", NEWS)]) == "OK"
    tags = {tag.id: tag.type for tag in (await client.get(Tags, "tag/list")).tags}
    assert (tags[LATER], tags[NEWS]) == ("tag", "folder")
    page: Contents = await client.get(Contents, f"stream/contents/{LATER}", n=2)
    assert [item.number for item in page.items] == [7, 4]
    rest: Contents = await client.get(Contents, f"stream/contents/{LATER}", n=2, c=page.continuation)
    assert ([item.number for item in rest.items], rest.continuation) == ([1], None)
    assert {LATER, NEWS} <= set(rest.items[0].categories)
    assert await client.all_ids(s=LATER, n=1, r="o") == ["1", "4", "7"]
    assert sorted(map(int, await client.all_ids(s=NEWS, n=2))) == [1, 2, 3, 4, 5, 6, 7]  # the folder's, and item 7
    counts: GreaderUnreadCounts = await client.get(GreaderUnreadCounts, "unread-count")
    assert next(one.count for one in counts.unreadcounts if one.id == LATER) == 3
    assert await client.post("edit-tag", [("i", "4"), ("r", LATER)]) == "OK"
    assert await client.all_ids(s=LATER, n=10) == ["7", "1"]
    assert await client.post("mark-all-as-read", [("s", LATER)]) == "OK"
    assert await client.all_ids(s=LATER, n=10, xt=READ) == []
    assert len(await client.all_ids(s=READING_LIST, n=10, xt=READ)) == 7


async def test_a_labelled_item_stays_when_its_feed_is_unsubscribed(client: GreaderClient) -> None:
    await client.post("edit-tag", [("i", "1"), ("a", LATER)])
    await client.post("subscription/edit", [("ac", "unsubscribe"), ("s", "feed/1")])
    assert await client.all_ids(s=LATER, n=10) == ["1"]
    (item,) = await client.contents(["1"])
    assert LATER in item.categories
    await client.post("edit-tag", [("i", "1"), ("r", LATER)])
    assert await client.contents(["1"]) == []


async def test_labels_of_items_are_renamed_and_removed_and_come_back_from_the_trash(
    client: GreaderClient, used_store: Store
) -> None:
    await client.post("edit-tag", [("i", "1"), ("i", "4"), ("a", LATER)])
    await client.post("edit-tag", [("i", "4"), ("a", "user/-/label/done")])
    await client.post("rename-tag", [("s", LATER), ("dest", "user/-/label/done")])
    assert await client.all_ids(s="user/-/label/done", n=10) == ["4", "1"]
    await client.post("disable-tag", [("s", "user/-/label/done")])
    assert await client.all_ids(s="user/-/label/done", n=10) == []
    assert "user/-/label/done" not in {tag.id for tag in (await client.get(Tags, "tag/list")).tags}
    (entry,) = await used_store.read(list_trash, None, NOW)
    await used_store.write(restore_from_trash, entry.id, None, NOW)
    assert await client.all_ids(s="user/-/label/done", n=10) == ["4", "1"]


async def test_query_feeds_are_subscriptions_under_a_label(site: Start, used_store: Store) -> None:
    store = used_store
    await store.write(run_script, 'CREATE FEED Volcanoes AS RETURN ALL WHERE TITLE CONTAINS "lava"', NOW)
    processor = QueryProcessor(store)
    await processor.load()
    while await processor.step():
        pass
    owner = await store.read(find_owner)
    async with httpx.AsyncClient() as http:
        client = GreaderClient(http, await site())
        await client.login("ada", PASSWORD)
        subs: GreaderSubscriptions = await client.get(GreaderSubscriptions, "subscription/list")
        (query,) = [one for one in subs.subscriptions if one.title == "Volcanoes"]
        assert query.id == f"feed/{HIT_ID_OFFSET + 1}"
        assert [each.label for each in query.categories] == ["Query feeds"]
        assert query.url.endswith("/feeds/Volcanoes.atom")
        page: Contents = await client.get(Contents, f"stream/contents/{query.id}")
        assert [item.title for item in page.items] == ["Lava 2-0", "Lava 1-0", "Lava 0-0"]
        assert {item.origin.streamId for item in page.items} == {query.id}
        every = await client.all_ids(s=READING_LIST, n=5)
        assert len(every) == len(set(every)) == 12  # an item of a feed, and again in the query feed
        counts: GreaderUnreadCounts = await client.get(GreaderUnreadCounts, "unread-count")
        by_id = {one.id: one.count for one in counts.unreadcounts}
        assert (by_id[query.id], by_id["user/-/label/Query feeds"], by_id[READING_LIST]) == (3, 3, 12)
        # An item read in one place is read in the other.
        await client.post("edit-tag", [("i", page.items[0].id), ("a", READ), ("a", STARRED)])
        assert len(await client.all_ids(s="feed/3", xt=READ, n=10)) == 2
        assert len(await client.all_ids(s=query.id, xt=READ, n=10)) == 2
        await client.post("mark-all-as-read", [("s", query.id)])
        assert len(await client.all_ids(s=READING_LIST, xt=READ, n=100)) == 6
        assert (await store.read(count_unread, owner.id)).total == 6
        label = "user/-/label/mine"
        await client.post("subscription/edit", [("ac", "edit"), ("s", query.id), ("a", label), ("t", "Hot")])
        assert len(await client.all_ids(s=label, n=10)) == 3
        await client.post("subscription/edit", [("ac", "unsubscribe"), ("s", query.id)])
        assert len((await client.get(GreaderSubscriptions, "subscription/list")).subscriptions) == 3
        await client.post("subscription/edit", [("ac", "subscribe"), ("s", query.id)])
        assert len((await client.get(GreaderSubscriptions, "subscription/list")).subscriptions) == 4


async def test_subscriptions_go_out_and_in_as_opml(client: GreaderClient, used_store: Store) -> None:
    out = await client.ask("/reader/api/0/subscription/export")
    assert out.headers["content-type"].startswith("text/x-opml")
    other = await used_store.write(add_user, "Bo", hash_password(PASSWORD), NOW)
    async with httpx.AsyncClient() as http:
        bo = GreaderClient(http, client.base)
        await bo.login("bo", PASSWORD)
        answer = await bo.ask("/reader/api/0/subscription/import", "POST", content=out.content)
        assert (answer.status_code, answer.text) == (200, "OK")
        subs: GreaderSubscriptions = await bo.get(GreaderSubscriptions, "subscription/list")
    assert {one.url for one in subs.subscriptions} == {feed.url for feed in await used_store.read(list_feeds)}
    assert await used_store.read(count_feeds) == 3  # one feed for both of them
    assert {tag for one in await used_store.read(list_subscriptions, other.id) for tag in one.tags} >= {"news"}


async def test_a_stream_is_also_atom(client: GreaderClient) -> None:
    answer = await client.ask("/reader/atom/user/-/label/news?n=4")
    assert answer.headers["content-type"].startswith("application/atom+xml")
    document = read(answer.content)
    assert len(document.items) == 4
    assert document.problems == ()


# refused requests


async def test_another_persons_items_feeds_and_stars_are_not_reachable(
    client: GreaderClient, used_store: Store
) -> None:
    await used_store.write(add_user, "Eve", hash_password(PASSWORD), NOW)
    mine = await client.all_ids(s=READING_LIST, n=100)
    async with httpx.AsyncClient() as http:
        eve = GreaderClient(http, client.base)
        await eve.login("eve", PASSWORD)
        assert (await eve.get(GreaderSubscriptions, "subscription/list")).subscriptions == []
        assert await eve.contents(mine) == []
        for stream in ("feed/1", "feed/https://b.example/feed", f"feed/{HIT_ID_OFFSET + 1}"):
            assert (await eve.ask("/reader/api/0/stream/items/ids", params={"s": stream})).status_code == 404
            quoted = {"s": stream}
            answer = await eve.ask("/reader/api/0/mark-all-as-read", "POST", data=quoted)
            assert answer.status_code == 404
        assert await eve.post("edit-tag", [("i", mine[0]), ("a", STARRED), ("a", READ)]) == "OK"
        assert await eve.all_ids(s=STARRED, n=10) == []
        answer = await eve.ask("/reader/api/0/subscription/edit", "POST", data={"ac": "unsubscribe", "s": "feed/1"})
        assert answer.status_code == 404
    assert len(await client.all_ids(s=READING_LIST, xt=READ, n=100)) == 9


WRONG = [
    ("edit-tag", {"i": "no id", "a": READ}),
    ("edit-tag", {"i": "9" * 30, "a": READ}),
    ("mark-all-as-read", {}),
    ("mark-all-as-read", {"s": "nothing"}),
    ("subscription/edit", {"ac": "subscribe"}),
    ("subscription/edit", {"ac": "dance", "s": "feed/1"}),
    ("subscription/edit", {"ac": "subscribe", "s": "feed/gopher://x"}),
    ("subscription/edit", {"ac": "edit", "s": "feed/1", "a": "user/-/label/\x00"}),
    ("subscription/edit", {"ac": "edit", "s": "feed/1", "a": "user/-/label/" + "x" * 300}),
    ("subscription/edit", {"ac": "edit", "s": "user/-/label/x", "t": "y"}),
    ("subscription/quickadd", {}),
    ("rename-tag", {"s": "user/-/label/none", "dest": "nothing"}),
    ("disable-tag", {"s": "feed/1"}),
    ("stream/items/ids", {"s": "user/-/label/' OR 1=1 --", "c": "x"}),
    ("stream/items/ids", {"s": "user/-/state/com.google/unheard-of"}),
    ("stream/items/ids", {"c": "7ff8000000000000" + "0" * 16}),
    ("subscription/import", {}),
]


async def test_absurd_limits_are_bounded(client: GreaderClient) -> None:
    for n in ("1000000000", "-1", "0", "abc", "", "9" * 40):
        for path in ("stream/items/ids", "stream/contents"):
            answer = await client.ask(f"/reader/api/0/{path}", params={"s": READING_LIST, "n": n})
            assert answer.status_code == 200
            found = answer.json().get("itemRefs", answer.json().get("items"))
            assert 1 <= len(found) <= 9


async def test_wrong_input_gets_a_sentence_and_4xx(client: GreaderClient) -> None:
    for path, fields in WRONG:
        answer = await client.ask(f"/reader/api/0/{path}", "POST", data=fields)
        assert 400 <= answer.status_code < 500, (path, fields, answer.text)
        assert answer.text.endswith("."), (path, fields)


async def test_labels_with_sql_in_them_are_only_labels(client: GreaderClient) -> None:
    for name in ("'; DROP TABLE item; --", '" OR ""="', "%", "_", "news' OR '1'='1"):
        assert await client.all_ids(s=f"user/-/label/{name}", n=100) == []
    assert len(await client.all_ids(s=READING_LIST, n=100)) == 9


async def test_a_body_without_end_is_refused(client: GreaderClient) -> None:
    answer = await client.ask("/reader/api/0/edit-tag", "POST", content=b"i=1&" * 2_000_000)
    assert answer.status_code in (400, 413)


async def test_other_methods_and_addresses_are_not_answered(client: GreaderClient) -> None:
    assert (await client.ask("/reader/api/0/edit-tag")).status_code == 405
    assert (await client.ask("/reader/api/0/nothing")).status_code == 404
