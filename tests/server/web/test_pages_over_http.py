"""Forms and addresses of the pages accept valid input, refuse the rest with a sentence, and enforce permissions."""

from __future__ import annotations

import io
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from form_errors import read_field_error
from msgspec.structs import replace

from headwater.credentials import hash_password
from headwater.language.parsing.lexer import MAX_STATEMENT_BYTES
from headwater.model import Ending, Feed, Known, Refresh, Verdict
from headwater.store.content.feeds import NewFeed, change_feed, count_feeds, find_feed, list_feeds
from headwater.store.content.items import count_items, list_items
from headwater.store.content.verdicts import save_refreshes
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.accounts import add_user, change_user, find_owner, list_api_tokens, list_users
from headwater.store.readers.reader_items import list_reader_items
from headwater.store.readers.stream_positions import StreamQuery
from headwater.store.readers.subscriptions import add_and_subscribe, list_subscriptions, subscribe_to_feed
from headwater.store.readers.unread_counts import count_unread
from headwater.store.store import Store
from headwater.web.shared.article_html import picture_type
from support.store_samples import a_verdict, an_item

Start = Callable[..., Awaitable[str]]
NOW = 1_800_000_000.0


class Visitor:
    """A browser that only handles forms."""

    def __init__(self, base: str, session: aiohttp.ClientSession) -> None:
        self.base, self.session = base, session

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        async with self.session.get(self.base + path, headers=headers) as answer:
            return answer.status, await answer.text()

    async def send(self, path: str, **fields: str) -> tuple[int, str]:
        async with self.session.post(self.base + path, data=fields) as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def visiting(base: str) -> AsyncIterator[Visitor]:
    headers = {"Sec-Fetch-Site": "same-origin"}
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True), headers=headers) as session:
        yield Visitor(base, session)


async def two_feeds(store: Store) -> None:
    gazettes = [
        NewFeed("https://a.example/f", title="The Gazette", tags=("news",)),
        NewFeed("https://b.example/f", title="The Gazette"),
    ]
    feeds = [added.feed for added in await store.write(add_and_subscribe, gazettes, NOW - 1000)]
    items = [an_item(feeds[0].id, f"a{k}", published=NOW - 100 - k, first_seen=NOW - 50) for k in range(5)]
    await save_refreshes(store, [a_verdict(feeds[0], *items, at=NOW - 50)])
    other = [an_item(feeds[1].id, "b1", title="Title of a1", link="https://elsewhere.example/", published=NOW - 101)]
    await save_refreshes(store, [a_verdict(feeds[1], *other, at=NOW - 40)])


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("", "1 refresh brought 5 items, none was lost"),
        ("5 of about 7 items could be read", "1 refresh brought 5 items; 5 of about 7 items could be read"),
    ],
)
async def test_a_feeds_page_says_what_could_not_be_read(site: Start, web_store: Store, message: str, said: str) -> None:
    gazette = NewFeed("https://a.example/f", title="The Gazette")
    feed = (await web_store.write(add_and_subscribe, [gazette], NOW - 1000))[0].feed
    verdict = a_verdict(feed, *(an_item(feed.id, f"a{k}") for k in range(5)), at=NOW - 50)
    await save_refreshes(web_store, [replace(verdict, refresh=replace(verdict.refresh, message=message))])
    async with visiting(await site()) as visitor:
        _, page = await visitor.get(f"/feed/{feed.id}")
    assert f"{said}<" in page


async def test_hundreds_of_query_feeds_are_listed_page_by_page(site: Start, web_store: Store) -> None:
    await two_feeds(web_store)
    script = ";".join(f"CREATE FEED q{k} AS RETURN ALL" for k in range(450))
    await web_store.write(run_script, script, NOW)
    seen: list[str] = []
    async with visiting(await site()) as visitor:
        path: str | None = "/queries"
        while path is not None:
            status, page = await visitor.get(path)
            assert status == 200
            seen += re.findall(r'href="/queries/(q\d+)"', page)
            more = re.search(r'href="(/queries\?after=\d+)"', page)
            path = more[1] if more else None
        _, read = await visitor.get("/read/all")
    assert seen == [f"q{k}" for k in range(450)]
    assert "250 more" in read
    assert len(read) < 150_000


PATHS = ("/read/feed/999", "/read/feed/x", "/read/nonsense", "/read/query/None", "/read/all?item=99999",
         "/read/all?item=-1", "/read/item/1e9", "/feed/999", "/feed/abc", "/feed/99999999999999999999999",
         "/queries/None", "/jobs/none", "/nothing")  # fmt: skip


async def test_addresses_of_what_is_not_there_say_so(site: Start, web_store: Store) -> None:
    await two_feeds(web_store)
    async with visiting(await site()) as visitor:
        for path in PATHS:
            status, page = await visitor.get(path)
            assert (status, 'role="alert"' in page) == (404, True), path
        for path in ("/read/all?before=x,y", "/read/all?before=1e400,5", "/read/all?before=nan,1", "/feeds?after=-5",
                     "/read/search?q=%00%22(", "/read/search?q=-only", "/queries/new?example=99", "/feeds?state=x",
                     "/settings?deliveries=x", "/read/all?undo=1&marked=x", "/queries?after=99999999999"):  # fmt: skip
            assert (await visitor.get(path))[0] == 200, path


FORMS = [
    ("/feed/1", {"do": "weigh", "weight": "much"}, "not a number"),
    ("/feed/1", {"do": "weigh", "weight": "-1"}, "between 0 and 1000"),
    ("/feed/1", {"do": "weigh", "weight": "nan"}, "between 0 and 1000"),
    ("/feed/1", {"do": "move", "url": "javascript:x"}, "not a web address"),
    ("/feed/1", {"do": "move", "url": "https://b.example/f"}, "already belongs"),
    ("/feed/1", {"do": "merge", "other": "x"}, "Choose the feed"),
    ("/feed/1", {"do": "merge", "other": "1"}, "with itself"),
    ("/feed/1", {"do": "dance"}, "does not name an action"),
    ("/feed/1", {"do": "tag", "tags": ",".join(map(str, range(30)))}, "at most 20 tags"),
    ("/feeds", {"address": ""}, "No address"),
    ("/discover", {"address": "nothing.example"}, "could not be found (DNS)"),
    ("/queries/edit", {"do": "save", "text": "CREATE FEED AS"}, "Line 1"),
    ("/queries/edit", {"do": "save", "text": " -- nothing yet"}, "contains no statement"),
    ("/queries/edit", {"do": "save", "text": f"CREATE FEED a AS RETURN ALL WHERE {'(' * 60_000}"}, "16 levels"),
    ("/queries/edit", {"do": "build", "name": "9", "deliver": "PIGEON", "address": "x"}, "cannot be a name"),
    ("/settings/change", {"budget": "0"}, "budget"),
    ("/settings/users", {"name": "x", "password": "short"}, "8 characters"),
    ("/settings/users", {"name": "", "password": "long enough"}, "name"),
    ("/settings/users/remove", {"user": "1"}, "your own account"),
    ("/settings/resend", {}, "does not name a delivery"),
    ("/settings/time-zone", {"time_zone": "Middle/Earth"}, "no time zone “Middle/Earth”"),
    ("/read/mark", {"ids": ""}, "does not name any items"),
    ("/read/undo", {}, "does not name anything to undo"),
    ("/undo", {"undo": "x"}, "does not name anything to restore"),
]


async def test_bad_input_gets_a_sentence_and_changes_nothing(site: Start, web_store: Store) -> None:
    await two_feeds(web_store)
    before = await web_store.read(list_feeds)
    async with visiting(await site()) as visitor:
        for path, fields, said in FORMS:
            status, page = await visitor.send(path, **fields)
            assert (status, said in page) == (400, True), (path, fields, page)
    assert await web_store.read(list_feeds) == before


async def test_a_feed_is_changed_paused_merged_and_removed_by_its_forms(site: Start, web_store: Store) -> None:
    await two_feeds(web_store)
    async with visiting(await site()) as visitor:
        for fields, said in (
            ({"do": "pause"}, "Feed paused."),
            ({"do": "resume"}, "Feed resumed."),
            ({"do": "weigh", "weight": "2.5"}, "Weight saved."),
            ({"do": "tag", "tags": "a, b,a"}, "Tags saved."),
            ({"do": "rename", "title": "My Gazette"}, "Title saved."),
            ({"do": "move", "url": "https://c.example/f"}, "Address changed."),
            ({"do": "merge", "other": "2"}, "This cannot be undone."),
            ({"do": "merge", "other": "2", "confirmed": "yes"}, "Feeds merged."),
        ):
            assert await web_store.read(count_feeds) == 2
            status, page = await visitor.send("/feed/1", **fields)
            assert (status, said in page) == (200, True), fields
        feed = await web_store.read(find_feed, 1)
        assert (feed.weight, feed.tags, feed.title, feed.url) == (2.5, ("a", "b"), "My Gazette", "https://c.example/f")
        assert await web_store.read(count_items, 1) == 6
        assert await web_store.read(count_feeds) == 1
        status, page = await visitor.send("/feed/1", do="remove")
        assert "Feed removed" in page
        assert await web_store.read(count_feeds) == 0
        undo = re.findall(r'name="undo" value="(\d+)"', page)
        status, page = await visitor.send("/undo", undo=undo[0])
        assert (status, "Feed restored" in page) == (200, True)
        assert await web_store.read(count_items, 1) == 6
        status, page = await visitor.send("/undo", undo=undo[0])
        assert (status, "kept for a day" in page) == (404, True)


async def test_a_reader_leaves_a_feed_and_nobody_else_takes_that_back(site: Start, web_store: Store) -> None:
    await two_feeds(web_store)
    owner = await web_store.read(find_owner)
    await web_store.write(change_user, owner.id, password=hash_password("the owner's password"))
    rita = await web_store.write(add_user, "rita", hash_password("rita's password"), NOW)
    await web_store.write(subscribe_to_feed, rita.id, 1, NOW, tags=("hers",))
    base = await site()
    async with visiting(base) as visitor, visiting(base) as other:
        await visitor.send("/login", name="rita", password="rita's password")
        await other.send("/login", name=owner.name, password="the owner's password")
        _, page = await visitor.send("/feed/1", do="unsubscribe")
        (undo,) = re.findall(r'name="undo" value="(\d+)"', page)
        assert await web_store.read(list_subscriptions, rita.id) == []
        assert (await visitor.get("/feed/1"))[0] == 404
        status, page = await other.send("/undo", undo=undo)
        assert (status, "kept for a day" in page) == (404, True)
        assert 'id="removed"' not in (await other.get("/settings"))[1]
        assert 'id="removed"' in (await visitor.get("/settings"))[1]
        status, page = await visitor.send("/undo", undo=undo)
        assert (status, "Subscription restored" in page) == (200, True)
        _, page = await other.send("/feed/1", do="remove")
        (undo,) = re.findall(r'name="undo" value="(\d+)"', page)
        assert (await visitor.send("/undo", undo=undo))[0] == 404
        assert (await other.send("/undo", undo=undo))[0] == 200
    (mine,) = await web_store.read(list_subscriptions, rita.id)
    assert (mine.feed_id, mine.tags) == (1, ("hers",))


async def test_the_longest_pause_of_a_feed_is_set_on_its_page(site: Start, web_store: Store) -> None:
    await two_feeds(web_store)
    async with visiting(await site()) as visitor:
        assert "Interval saved" in (await visitor.send("/feed/1", do="pace", interval="1 h"))[1]
        assert (await web_store.read(find_feed, 1)).interval == 3600.0
        assert 'value="1 h"' in (await visitor.get("/feed/1"))[1]
        status, page = await visitor.send("/feed/1", do="pace", interval="often")
        assert (status, "“often” is not a duration" in page) == (400, True)
        assert "Interval saved" in (await visitor.send("/feed/1", do="pace", interval=""))[1]
        assert (await web_store.read(find_feed, 1)).interval is None


async def test_losses_are_answered_by_more_weight_or_accepted(site: Start, web_store: Store) -> None:
    await two_feeds(web_store)
    async with visiting(await site()) as visitor:
        assert "Weight doubled" in (await visitor.send("/quality", feed="1", do="weigh"))[1]
        assert (await web_store.read(find_feed, 1)).weight == 2.0
        assert "Loss accepted" in (await visitor.send("/quality", feed="1", do="accept"))[1]
        assert "1 accepted feed not listed" in (await visitor.get("/quality"))[1]
        assert "listed again" in (await visitor.send("/quality", do="list"))[1]
        assert (await visitor.send("/quality", do="weigh"))[0] == 400


async def test_the_same_story_in_two_feeds_is_one_row(site: Start, web_store: Store) -> None:
    new = [NewFeed("https://a.example/f", title="Gazette"), NewFeed("https://b.example/f", title="Courier")]
    one, two = (added.feed for added in await web_store.write(add_and_subscribe, new, NOW))
    title = "Iceland volcano erupts again today"
    for feed, other in ((one, "x"), (two, "y")):
        item = an_item(feed.id, other, title=title, link=f"https://{other}.example/", published=NOW - 60)
        short = an_item(feed.id, f"{other}2", title="Correction", link=f"https://{other}.example/2", published=NOW - 90)
        await save_refreshes(web_store, [a_verdict(feed, item, short, at=NOW - 50)])
    async with visiting(await site()) as visitor:
        _, page = await visitor.get("/read/all")
    assert page.count("1 more on this story") == 1
    assert page.count(">Correction<") == 2


async def test_items_are_labelled_listed_by_label_and_unlabelled(site: Start, web_store: Store) -> None:
    await two_feeds(web_store)
    ids = [item.id for item in await web_store.read(list_items)]
    async with visiting(await site()) as visitor:
        for label in ("", " , ", "x" * 300):
            status, page = await visitor.send("/read/label", ids=str(ids[0]), label=label, do="add")
            assert (status, "visible characters" in page) == (400, True)
        status, page = await visitor.send(
            "/read/label", ids=str(ids[0]), label="later, a <b> & c", do="add", to=f"/read/all?item={ids[0]}"
        )
        assert status == 200
        assert 'href="/read/tag/later"' in page
        assert "a &lt;b&gt; &amp; c</a>" in page
        assert ">Labels</summary>" in page
        _, page = await visitor.get("/read/tag/later")
        assert page.count('class="row-item') == 1
        _, counts = await visitor.get("/read/counts?feeds=")
        assert '"/read/tag/later":1' in counts.replace(" ", "")
        _, page = await visitor.send(
            "/read/label", ids=str(ids[0]), label="later", do="remove", to=f"/read/all?item={ids[0]}"
        )
        assert "/read/tag/later" not in page
        assert "a &lt;b&gt; &amp; c</a>" in page


def missing(feed: Feed) -> Verdict:
    refresh = Refresh(feed.id, NOW - 5, Ending.MISSING, 404, message="a.example has nothing there (404).")
    return Verdict(refresh, Known(feed.id, feed.url, last_refresh=NOW - 5, failures=3, failing_since=NOW - 7200))


async def test_errors_are_grouped_by_cause_with_what_helps(site: Start, web_store: Store) -> None:
    await two_feeds(web_store)
    await save_refreshes(web_store, [missing(await web_store.read(find_feed, 1))])
    async with visiting(await site()) as visitor:
        _, page = await visitor.get("/settings")
        assert "1 of 2 feeds failing" in page
        assert "Not found (404)" in page
        assert "2 h ago" in page
        assert "Look for the new address" in page
        _, listed = await visitor.get("/feeds?state=missing")
        assert listed.count('class="feed"') == 1


async def test_a_reader_reads_and_only_an_owner_changes_the_server(site: Start, web_store: Store) -> None:
    await two_feeds(web_store)
    owner = await web_store.read(find_owner)
    await web_store.write(change_user, owner.id, password=hash_password("the owner's password"))
    await web_store.write(add_user, "rita", hash_password("rita's password"), NOW)
    other = await web_store.write(add_user, "olaf", None, NOW)
    base = await site()
    async with visiting(base) as visitor:
        assert (await visitor.send("/login", name="rita", password="rita's password"))[0] == 200
        assert "You have no feeds yet" in (await visitor.get("/"))[1]
        assert (await visitor.get("/quality"))[0] == 403
        status, editor = (await visitor.get("/queries/new"))[:2]
        assert status == 200  # for their own query
        assert f'maxlength="{MAX_STATEMENT_BYTES}"' in editor  # the language's limit
        assert "People" not in (await visitor.get("/settings"))[1]
        for path, fields in (
            ("/feed/1", {"do": "remove"}),
            ("/feed/1", {"do": "weigh", "weight": "9"}),
            ("/settings/users", {"name": "eve", "password": "long enough", "role": "owner"}),
            ("/settings/change", {"budget": "1"}),
            ("/settings/resend", {"which": "dead"}),
            ("/quality", {"feed": "1", "do": "weigh"}),
            ("/quality/compare", {}),
        ):
            assert (await visitor.send(path, **fields))[0] == 403, path
        # A reader cannot see, mark or list the feeds of another.
        item = (await web_store.read(list_items, limit=1))[0]
        assert (await visitor.get(f"/read/item/{item.id}"))[0] == 404
        assert (await visitor.get("/read/feed/1"))[0] == 404
        await visitor.send("/read/mark", ids=str(item.id), starred="1")
        assert (await web_store.read(count_unread, owner.id)).starred == 0
        assert "Title of" not in (await visitor.get("/read/search?q=title"))[1]
        # A feed with one reader cannot be joined by its number; a feed with several can.
        assert (await visitor.send("/discover/subscribe", feed="2"))[0] == 404
        await web_store.write(subscribe_to_feed, other.id, 1, NOW)
        assert (await visitor.send("/discover/subscribe", feed="1"))[0] == 200
        assert (await visitor.get("/read/feed/1"))[0] == 200
        status, page = await visitor.send("/settings/tokens", label="phone", **{"scope-admin": "1"})
        assert (status, "Only an owner" in page) == (400, True)
        status, page = await visitor.send("/settings/tokens", label="phone", **{"scope-read": "1"})
        assert 'id="secret"' in page
    assert await web_store.read(count_feeds) == 2
    assert [user.name for user in await web_store.read(list_users)] == [owner.name, "rita", "olaf"]


async def test_what_one_reads_can_be_taken_along_as_a_list(site: Start, web_store: Store) -> None:
    await two_feeds(web_store)
    async with visiting(await site()) as visitor:
        _, opml = await visitor.get("/settings/export.opml")
    assert opml.count("xmlUrl=") == 2
    assert "https://a.example/f" in opml


@pytest.mark.parametrize(
    "to", ["//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:x", "/\r\nX: y"]
)
async def test_no_form_leads_to_another_site(site: Start, to: str) -> None:
    async with visiting(await site()) as visitor:
        fields = {"theme": "dark", "to": to}
        async with visitor.session.post(f"{visitor.base}/theme", data=fields, allow_redirects=False) as answer:
            assert answer.headers["Location"] == "/"


async def test_pictures_are_only_fetched_with_our_signature(site: Start) -> None:
    async with visiting(await site()) as visitor:
        assert (await visitor.get("/picture?u=http://127.0.0.1/x.png&s=x"))[0] == 403
    assert [picture_type(body) for body in (b"\x89PNG\r\n\x1a\nx", b"<svg>", b"RIFF0000WEBPx", b"")] == [
        "image/png", None, "image/webp", None]  # fmt: skip


async def test_what_was_fetched_before_a_page_was_loaded_and_stored_after_it_stays_unread(
    site: Start, web_store: Store
) -> None:
    await two_feeds(web_store)
    owner = (await web_store.read(find_owner)).id
    async with visiting(await site()) as visitor:
        _, page = await visitor.get("/read/all")
        bounds = dict(re.findall(r'name="(until|up_to)" value="([\d.]+)"', page))
        assert set(bounds) == {"until", "up_to"}
        feed = await web_store.read(find_feed, 1)
        late = an_item(feed.id, "late", published=NOW - 60, first_seen=NOW - 60)
        await save_refreshes(web_store, [a_verdict(feed, late, at=NOW + 1)])
        await visitor.send("/read/all-read", kind="all", key="", **bounds)
        left = (await web_store.read(list_reader_items, owner, part=StreamQuery(unread=True))).items
        assert [one.item.identity for one in left] == ["late"]


# Path, submitted values, the wrong field, and the fields that keep their values.
WRONG: list[tuple[str, dict[str, str], str, tuple[str, ...]]] = [
    ("/discover", {"address": "ftp://nonsense"}, "address", ("address",)),
    ("/feeds", {"address": "file:///etc/passwd"}, "address", ("address",)),
    ("/feed/1", {"do": "weigh", "weight": "heavy"}, "weight", ("weight",)),
    ("/feed/1", {"do": "move", "url": "gopher://old"}, "url", ("url",)),
    ("/settings/users", {"name": "eve", "password": "short", "role": "owner"}, "password", ("name", "role")),
    ("/settings/users", {"name": "a/b", "password": "long enough", "role": "owner"}, "name", ("name", "role")),
    ("/settings/users", {"name": "eve", "password": "long enough", "role": "king"}, "role", ("name",)),
    ("/settings/time-zone", {"time_zone": "Middle/Earth"}, "time_zone", ("time_zone",)),
    ("/settings/tokens", {"label": "phone"}, "scopes", ("label",)),
    ("/queries/edit", {"do": "build", "name": "9 to 5", "any": "work"}, "name", ("name", "any")),
    ("/queries/edit", {"do": "build", "name": "a", "keep": "many"}, "keep", ("name", "keep")),
    ("/queries/edit", {"do": "build", "field": "COLOUR"}, "field", ()),
    ("/queries/edit", {"do": "build", "completeness": "2"}, "completeness", ("completeness",)),
    ("/queries/edit", {"do": "build", "deliver": "PIGEON"}, "deliver", ()),
    ("/queries/edit", {"do": "build", "deliver": "EMAIL"}, "address", ()),
    ("/queries/edit", {"do": "build", "deliver": "EMAIL", "address": "a@b", "at": "noon"}, "at", ("address", "at")),
]


async def test_mistakes_are_reported_at_the_field_which_keeps_what_was_typed(site: Start, web_store: Store) -> None:
    await two_feeds(web_store)
    async with visiting(await site()) as visitor:
        for path, fields, at, kept in WRONG:
            status, page = await visitor.send(path, **fields)
            assert status == 400, (path, fields)
            assert read_field_error(page, at, **{name: fields[name] for name in kept})[-1] in ".”", (path, fields)
    assert [user.name for user in await web_store.read(list_users)] == ["owner"]
    assert await web_store.read(list_api_tokens, 1) == []


async def test_a_file_that_cannot_be_imported_is_reported_at_its_field(site: Start, web_store: Store) -> None:
    await two_feeds(web_store)
    async with visiting(await site()) as visitor:
        for body, status in ((b"<html>no list</html>", 400), (b"", 400), (b"x" * 20_100_000, 413)):
            form = aiohttp.FormData()
            form.add_field("file", io.BytesIO(body), filename="list.opml")
            async with visitor.session.post(visitor.base + "/settings/import", data=form) as answer:
                assert answer.status == status
                assert read_field_error(await answer.text(), "file")


async def test_the_text_of_a_query_is_marked_wrong_and_its_removal_refused_where_it_is_asked_for(
    site: Start, web_store: Store
) -> None:
    await two_feeds(web_store)
    await web_store.write(run_script, "CREATE FEED a AS RETURN ALL; CREATE FEED b AS RETURN a", NOW)
    async with visiting(await site()) as visitor:
        status, page = await visitor.send("/queries/edit", do="save", text="CREATE FEED c AS RETURN")
        assert status == 400
        assert re.search(r'<textarea id="text"[^>]*aria-describedby="messages" aria-invalid="true"[^>]*>CREATE', page)
        assert re.search(r'id="messages" role="status">\s*<p class="said bad"><b>Line 1', page)
        status, page = await visitor.send("/queries/a/drop")
    assert status == 400
    assert re.search(r'aria-describedby="drop-wrong" autofocus>Remove query feed</button><p [^>]*id="drop-w', page)


async def test_who_reads_nothing_yet_is_told_how_to_begin(site: Start) -> None:
    async with visiting(await site()) as visitor:
        _, page = await visitor.get("/read/all")
    assert "You have no feeds yet." in page
    assert "first refresh" not in page


async def test_where_nothing_has_come_yet_the_page_says_what_is_the_case(site: Start, web_store: Store) -> None:
    new = [NewFeed(f"https://{k}.example/f", tags=("even",) if k % 2 == 0 else ()) for k in range(4)]
    async with visiting(await site()) as visitor:

        async def read_notice(path: str = "/read/all") -> str:
            _, page = await visitor.get(path)
            found = re.search(r'<p class="empty">(.*?)</p>', page, re.DOTALL)
            assert found, page
            return found[1].strip()

        [first] = [added.feed for added in await web_store.write(add_and_subscribe, new[:1], NOW)]
        waiting = "No items yet. The first refresh follows within moments."
        assert await read_notice() == waiting
        await save_refreshes(web_store, [missing(first)])
        assert await read_notice() == f'No items yet: <a href="/feed/{first.id}">the feed fails</a>.'
        others = [added.feed for added in await web_store.write(add_and_subscribe, new[1:], NOW)]
        look = '<a href="/feeds?state={}">{}</a>'
        fail, unasked = look.format("failing", "1 of 4 feeds fails"), look.format("new", "3 have not been asked yet")
        assert await read_notice() == f"No items yet: {fail}, {unasked}."
        assert await read_notice(f"/read/feed/{others[0].id}") == waiting
        await save_refreshes(web_store, [missing(others[0]), missing(others[1])])
        assert await read_notice("/read/tag/even") == f"No items yet: {look.format('failing', 'all 2 feeds fail')}."
        await save_refreshes(web_store, [a_verdict(others[2], at=NOW)])
        await web_store.write(change_feed, others[0].id, paused=True)
        fail, paused = look.format("failing", "2 of 4 feeds fail"), look.format("paused", "1 is paused")
        assert await read_notice() == f"No items yet: {fail}, {paused}, 1 has answered but shows none."
        await save_refreshes(web_store, [a_verdict(others[2], an_item(others[2].id), at=NOW)])
        assert await read_notice("/read/all?before=1.0,1") == "No older items."


async def test_the_icon_is_where_browsers_look_when_a_document_names_none(site: Start) -> None:
    base = await site()
    async with aiohttp.ClientSession() as session, session.get(base + "/favicon.ico") as answer:
        assert (answer.status, answer.content_type) == (200, "image/svg+xml")
        assert (await answer.text()).startswith("<svg")
        assert "max-age" in answer.headers["Cache-Control"]
