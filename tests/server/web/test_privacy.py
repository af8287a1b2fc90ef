"""Feeds, tags and lists are private until their owner publishes them, and their addresses are secrets."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, replace

import httpx
import pytest
from msgspec.structs import replace as replace_struct

from headwater.credentials import hash_password, hash_secret
from headwater.model import Enclosure, Feed, Item, SafeHtml
from headwater.node.quality.promises import MeasuredQuality, PromiseReport
from headwater.node.queries.processor import QueryProcessor
from headwater.store.content.feeds import NewFeed
from headwater.store.content.verdicts import save_refreshes
from headwater.store.publishing.deliveries import Delivery, add_deliveries, claim_due_batches, settle_deliveries
from headwater.store.publishing.private_feeds import set_visibility
from headwater.store.queries.hits import list_latest_hits
from headwater.store.queries.query_feeds import find_query_feed
from headwater.store.queries.query_scripts import run_script
from headwater.store.queries.source_references import BrokenQuery
from headwater.store.readers.accounts import User, add_api_token, add_user, claim_ownership
from headwater.store.readers.stream_positions import HIT_ID_OFFSET
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store
from headwater.web.app import create_app
from headwater.web.pages import status_page
from support.idle_node import make_idle_node
from support.store_samples import NOW, a_verdict, an_item

SECRET, PRIVATE_KEY = "s3cret-key-of-the-owner", "k3y-of-bo"
FORMATS = ("rss", "atom", "json", "html")


@dataclass
class Town:
    """A server with an owner, two readers and a stranger; each has a feed, and the owner's query reads ALL."""

    store: Store
    processor: QueryProcessor
    users: dict[str, User]
    feeds: dict[str, Feed]
    app: object
    refreshes: int = 0

    def ask(self, name: str | None = None) -> httpx.AsyncClient:
        """Send a request from far away, with the token of a user or without."""
        headers = {} if name is None else {"Authorization": f"Bearer token of {name}"}
        transport = httpx.ASGITransport(self.app, client=("192.0.2.9", 5000))  # type: ignore[arg-type]
        return httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)

    async def publish(self, name: str, *titles: str) -> None:
        feed = self.feeds[name]
        items = [an_item(feed.id, f"{name}-{title}", title=title) for title in titles]
        await self.save(feed, *items)

    async def save(self, feed: Feed, *items: Item) -> None:
        self.refreshes += 1
        await save_refreshes(self.store, [a_verdict(feed, *items, at=NOW + self.refreshes)])
        await self.match()

    async def match(self) -> None:
        while await self.processor.step():
            pass

    async def titles(self, query: str) -> set[str | None]:
        found = await self.store.read(find_query_feed, query)
        return {hit.item.title for hit in await self.store.read(list_latest_hits, found.id, limit=100)}


@pytest.fixture
async def town(web_store: Store) -> Town:
    owner = await web_store.write(claim_ownership, "Ada", hash_password("correct horse"))
    assert owner is not None
    users = {"Ada": owner}
    for name in ("Bo", "Cy"):
        users[name] = await web_store.write(add_user, name, None, NOW)
    addresses = {
        "Ada": NewFeed(
            f"https://a.example/ada-l/feed?key={SECRET}", title="Ada's papers", link="https://a.example/blog"
        ),
        "Bo": NewFeed(f"https://b.example/feed?key={PRIVATE_KEY}", title="Bo's bank"),
        "Cy": NewFeed("https://c.example/feed", title="Cy's news"),
    }
    feeds = {}
    for name, user in users.items():
        scopes = ("read", "write", "admin") if user.is_owner else ("read", "write")
        await web_store.write(add_api_token, user.id, hash_secret(f"token of {name}"), "", scopes, NOW)
        new = NewFeed(addresses[name].url, title=addresses[name].title, link=addresses[name].link, tags=("papers",))
        (added,) = await web_store.write(add_and_subscribe, [new], NOW, subscriber=user.id)
        feeds[name] = added.feed
    processor = QueryProcessor(web_store, clock=lambda: NOW)
    await processor.load()
    made = Town(web_store, processor, users, feeds, create_app(make_idle_node(web_store), clock=lambda: NOW))
    text = (
        'CREATE FEED Everything AS RETURN ALL SET TITLE = "{title} ({source})" DELIVER TO WEBHOOK "https://h.example/x"'
    )
    await web_store.write(run_script, text, NOW)
    await made.match()
    for name in users:
        await made.publish(name, f"news of {name}")
    return made


async def test_nothing_is_public_until_its_owner_publishes_it(town: Town) -> None:
    paths = [f"/feeds/Everything.{format}" for format in FORMATS]
    paths += [f"/tags/papers.{format}" for format in (*FORMATS, "opml")]
    paths += ["/feeds.opml", "/feeds/Everything/live"]
    async with town.ask() as stranger, town.ask("Bo") as reader, town.ask("Ada") as owner:
        for path in paths:
            assert (await stranger.get(path)).status_code == 404, path
            assert (await reader.get(path)).status_code == 404, path
            if not path.endswith("/live"):
                answer = await owner.get(path)
                assert (answer.status_code, answer.headers["cache-control"].split(",")[0]) == (200, "private"), path
    for path in ("/feeds", "/tags/papers", "/feeds/Everything"):
        await town.store.write(set_visibility, path, "public")
    published = create_app(make_idle_node(town.store), clock=lambda: NOW)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(published, client=("192.0.2.9", 1)), base_url="http://localhost"
    ) as stranger:
        for path in paths[:-1]:
            assert (await stranger.get(path)).status_code == 200, path


async def test_published_documents_never_name_a_fetch_address(town: Town) -> None:
    async with town.ask("Ada") as owner:
        for path in (*(f"/feeds/Everything.{f}" for f in FORMATS), *(f"/tags/papers.{f}" for f in (*FORMATS, "opml"))):
            body = (await owner.get(path)).text
            assert "papers" in body, path
            assert SECRET not in body, path
            assert "ada-l" not in body, path
            assert PRIVATE_KEY not in body, path
        assert SECRET not in (await owner.get("/feeds.opml")).text
    assert "https://a.example/blog" in (await _as_owner(town, "/feeds/Everything.atom"))


async def test_items_do_not_tell_the_fetch_address_of_their_feed_to_others(town: Town) -> None:
    """Publishers make identities and links from the address under which their feed is read."""
    feed = town.feeds["Ada"]
    item = replace_struct(
        an_item(feed.id, f"{feed.url}#7", title="Seven"),
        link=feed.url,
        content=SafeHtml(f'<a href="{feed.url}">all papers</a>'),
        enclosures=(Enclosure(feed.url),),
    )
    await town.save(feed, item)
    await town.store.write(set_visibility, "/feeds/Everything", "shared")
    query = await town.store.read(find_query_feed, "Everything")
    async with town.ask("Ada") as owner, town.ask("Bo") as reader:
        form = {"ac": "subscribe", "s": f"feed/{HIT_ID_OFFSET + query.id}"}
        assert (await reader.post("/reader/api/0/subscription/edit", data=form)).status_code == 200
        published = [f"/feeds/Everything.{f}" for f in FORMATS] + ["/feeds/Everything.atom?page=1", "/tags/papers.rss"]
        shown = ["/api/v1/queries/Everything/items", "/api/v1/items?query=Everything", "/read/query/Everything"]
        listed = (await reader.get(shown[1])).json()["items"]
        shown += [f"/api/v1/items/{one['id']}" for one in listed] + [f"/api/v1/items/{one}" for one in range(1, 5)]
        shown += [f"/read/query/Everything?item={HIT_ID_OFFSET + int(one['id'].removeprefix('q'))}" for one in listed]
        shown += [f"/reader/api/0/stream/contents/feed/{HIT_ID_OFFSET + query.id}"]
        for path in published + shown:
            for asker in (
                (reader, owner) if path.startswith("/feeds/") else (owner,) if path in published else (reader,)
            ):
                text = (await asker.get(path)).text
                assert SECRET not in text, path
                assert "ada-l" not in text, path
        for path in (*published, *shown[:3], shown[-1]):
            assert "Seven" in (await (owner if path.startswith("/tags") else reader).get(path)).text, path
        assert (await owner.get("/api/v1/queries/Everything/items")).json()["items"][0]["item"]["link"] == feed.url


async def test_a_query_over_one_of_others_does_not_tell_the_addresses_of_their_feeds(town: Town) -> None:
    feed = town.feeds["Ada"]
    content = SafeHtml(f"<p>Read at {feed.url} and tell nobody.</p>")
    eight = replace_struct(an_item(feed.id, "8", title="Eight"), link=feed.url, content=content)
    untitled = NewFeed(f"https://d.example/feed?key={SECRET}")
    (nameless,) = await town.store.write(add_and_subscribe, [untitled], NOW, subscriber=town.users["Ada"].id)
    await town.save(feed, eight)
    await town.save(nameless.feed, an_item(nameless.feed.id, "10", title="Ten"))
    await town.store.write(set_visibility, "/feeds/Everything", "shared")
    text = "CREATE FEED Mine AS RETURN Everything"
    async with town.ask("Bo") as reader, town.ask("Ada") as owner:
        assert (await reader.post("/api/v1/queries", json={"text": text})).status_code == 201
        await town.match()
        answers = [
            await reader.post("/api/v1/queries/preview", json={"text": text, "days": 3650}),
            await reader.post("/queries/edit", data={"text": text, "do": "preview"}),
            await reader.post("/queries/edit", data={"text": text}, headers={"X-Part": "preview"}),
            await reader.get("/queries/Mine"),
            await reader.get("/api/v1/queries/Mine/items"),
            await reader.get("/api/v1/items?query=Mine"),
            *[await reader.get(f"/feeds/Mine.{format}") for format in FORMATS],
        ]
        for answer in answers:
            assert "Eight" in answer.text, answer.url
            assert SECRET not in answer.text, answer.url
        own = {"text": "CREATE FEED Own AS RETURN Everything", "days": 3650}
        assert SECRET in (await owner.post("/api/v1/queries/preview", json=own)).text


@pytest.mark.parametrize(
    "rest",
    [
        f'WHERE LINK CONTAINS "{SECRET[:8]}"',
        f"WHERE LINK MATCHES /key={SECRET[:2]}/",
        f'WHERE LINK = "https://a.example/ada-l/feed?key={SECRET}"',
        f'WHERE ENCLOSURE CONTAINS "{SECRET[:8]}"',
        f"WHERE ITEM MATCHES /{SECRET[:2]}/",
        f'WHERE CONTENT CONTAINS "{SECRET[:8]}"',
    ],
)
async def test_a_condition_over_a_query_of_others_compares_with_what_may_be_seen(town: Town, rest: str) -> None:
    """Otherwise a reader finds out an address letter by letter, by what a query matches."""
    feed = town.feeds["Ada"]
    content = SafeHtml(f"<p>Nine. Read at {feed.url} and tell nobody.</p>")
    nine = replace_struct(an_item(feed.id, "9", title="Nine"), link=feed.url, enclosures=(Enclosure(feed.url),))
    await town.save(feed, replace_struct(nine, content=content))
    await town.store.write(set_visibility, "/feeds/Everything", "shared")
    async with town.ask("Bo") as reader:
        for condition, found in ((rest, 0), ('WHERE LINK = "https://a.example/blog"', 1)):
            text = f"CREATE OR REPLACE FEED Mine AS RETURN Everything {condition}"
            answer = await reader.post("/api/v1/queries/preview", json={"text": text, "days": 3650})
            assert (answer.status_code, "Nine" in answer.text) == (200, bool(found)), answer.text
            answer = await reader.put("/api/v1/queries/Mine", json={"text": text})
            assert answer.status_code in (200, 201), answer.text
            await town.match()
            items = (await reader.get("/api/v1/queries/Mine/items")).json()["items"]
            assert len(items) == found, (condition, items)


async def test_a_template_over_a_query_of_others_does_not_tell_the_addresses_of_their_feeds(town: Town) -> None:
    """A letter behind the address makes another address of it, which nothing would recognise."""
    feed = town.feeds["Ada"]
    await town.save(feed, replace_struct(an_item(feed.id, "8", title="Eight"), link=feed.url))
    await town.store.write(set_visibility, "/feeds/Everything", "shared")
    text = 'CREATE FEED Mine AS RETURN Everything SET TITLE = "Eight {link}x", CONTENT = "{link}x", LINK = "{link}x"'
    async with town.ask("Bo") as reader:
        assert (await reader.post("/api/v1/queries", json={"text": text})).status_code == 201
        await town.match()
        answers = [
            await reader.post("/api/v1/queries/preview", json={"text": text, "days": 3650}),
            await reader.get("/api/v1/queries/Mine/items"),
            *[await reader.get(f"/feeds/Mine.{format}") for format in FORMATS],
        ]
        for answer in answers:
            assert "Eight" in answer.text, answer.url
            assert SECRET not in answer.text, answer.url


async def _as_owner(town: Town, path: str) -> str:
    async with town.ask("Ada") as owner:
        return (await owner.get(path)).text


async def test_the_servers_queries_do_not_see_the_feeds_of_readers(town: Town) -> None:
    assert await town.titles("Everything") == {"news of Ada (Ada's papers)"}
    # A feed that the owner subscribes to as well becomes the server's.
    await town.store.write(add_and_subscribe, [NewFeed(town.feeds["Cy"].url)], NOW)
    await town.publish("Cy", "more of Cy")
    assert await town.titles("Everything") == {"news of Ada (Ada's papers)", "more of Cy (Cy's news)"}


async def test_no_message_names_a_feed_that_only_others_read(town: Town) -> None:
    parts = ("bank", "b.example", "https://b.example/f", town.feeds["Bo"].url, "https://nowhere.example/feed")
    async with town.ask("Cy") as reader:
        for part in parts:
            stream = f"feed/{part if '/' in part else f'https://{part}'}"
            answers = [
                await reader.post("/discover/subscribe", data={"feed": part}),
                await reader.post("/reader/api/0/subscription/edit", data={"ac": "unsubscribe", "s": stream}),
                await reader.post("/reader/api/0/subscription/edit", data={"ac": "edit", "s": stream, "t": "x"}),
                await reader.get("/reader/api/0/stream/items/ids", params={"s": stream}),
                await reader.get(f"/reader/api/0/stream/contents/{stream.partition('?')[0]}"),
            ]
            for answer in answers:
                told = html.unescape(answer.text).replace(part, "")
                assert (answer.status_code, "Bo" in told, PRIVATE_KEY in told) == (404, False, False), answer.text
                assert "Did you mean" not in told


async def test_a_feed_whose_address_has_a_key_is_not_joined_by_its_number(town: Town) -> None:
    both = NewFeed(f"https://d.example/feed?key={SECRET}", title="Family")
    for name in ("Ada", "Bo"):
        (added,) = await town.store.write(add_and_subscribe, [both], NOW, subscriber=town.users[name].id)
        await town.store.write(add_and_subscribe, [NewFeed(town.feeds["Cy"].url)], NOW, subscriber=town.users[name].id)
    async with town.ask("Cy") as reader:
        assert (await reader.put(f"/api/v1/subscriptions/feeds/{added.feed.id}", json={})).status_code == 404
        assert (await reader.post("/discover/subscribe", data={"feed": f"{added.feed.id}"})).status_code == 404
        assert "Family" not in (await reader.get("/discover")).text + (await reader.get("/api/v1/suggestions")).text


async def test_readers_see_their_own_tags_and_not_those_of_the_owner(town: Town) -> None:
    for name, tag in (("Ada", "takeover-plans"), ("Bo", "weekend")):
        new = NewFeed("https://e.example/feed", title="Shared", tags=(tag,))
        (added,) = await town.store.write(add_and_subscribe, [new], NOW, subscriber=town.users[name].id)
    paths = ("/feeds", "/api/v1/feeds", f"/feed/{added.feed.id}", f"/api/v1/feeds/{added.feed.id}")
    async with town.ask("Bo") as reader, town.ask("Ada") as owner:
        for path in paths:
            mine, owners = (await reader.get(path)).text, (await owner.get(path)).text
            assert ("weekend" in mine, "takeover-plans" in mine) == (True, False), path
            assert ("weekend" in owners, "takeover-plans" in owners) == (False, True), path
        assert "<h1>2 feeds</h1>" in (await reader.get("/feeds")).text
        for tag, found in (("weekend", [added.feed.id]), ("takeover-plans", [])):
            listed = (await reader.get("/api/v1/feeds", params={"tag": tag})).json()["items"]
            assert [one["id"] for one in listed] == found
        assert (await reader.get("/cluster")).status_code == 403


async def test_a_reader_cannot_subscribe_to_a_private_query_by_its_number(town: Town) -> None:
    query = await town.store.read(find_query_feed, "Everything")
    stream = f"feed/{HIT_ID_OFFSET + query.id}"
    async with town.ask("Bo") as reader:
        form = {"ac": "subscribe", "s": stream}
        assert (await reader.post("/reader/api/0/subscription/edit", data=form)).status_code == 404
        assert (await reader.get("/api/v1/queries")).json()["items"] == []
        for path in (
            "/api/v1/queries/Everything",
            "/api/v1/queries/Everything/items",
            "/api/v1/items?query=Everything",
        ):
            assert (await reader.get(path)).status_code == 404, path
        assert (await reader.get("/read/query/Everything")).status_code == 404


async def test_others_see_name_description_and_result_of_a_shared_query(town: Town) -> None:
    await town.store.write(set_visibility, "/feeds/Everything", "shared")
    query = await town.store.read(find_query_feed, "Everything")
    async with town.ask("Bo") as reader, town.ask() as stranger:
        form = {"ac": "subscribe", "s": f"feed/{HIT_ID_OFFSET + query.id}"}
        assert (await reader.post("/reader/api/0/subscription/edit", data=form)).status_code == 200
        shown = (await reader.get("/api/v1/queries/Everything")).json()
        assert (shown["text"], shown["sources"], shown["mine"], shown["visibility"]) == ("", [], False, "shared")
        assert "<p>1 item in " in (await reader.get("/queries/Everything")).text
        assert (await reader.get("/feeds/Everything.atom")).status_code == 200
        item = (await reader.get("/api/v1/items?query=Everything")).json()["items"][0]["id"]
        number = HIT_ID_OFFSET + int(item.removeprefix("q"))
        page = await reader.get(f"/read/query/Everything?item={number}")
        assert page.status_code == 200, page.text[-900:]
        pages = [
            page.text,
            (await reader.get("/queries")).text,
            (await reader.get("/reader/api/0/subscription/list")).text,
        ]
        for text in pages:
            assert "h.example" not in text
            assert SECRET not in text
        assert (await stranger.get("/feeds/Everything.atom")).status_code == 404
    await town.store.write(set_visibility, "/feeds/Everything", "private")
    async with town.ask("Bo") as reader:
        assert "Everything" not in (await reader.get("/reader/api/0/subscription/list")).text
        assert (await reader.get("/api/v1/queries/Everything")).status_code == 404


async def test_a_reader_writes_keeps_and_shares_queries_of_their_own(town: Town) -> None:
    hook = "https://hook.example/of-bo"
    text = f'CREATE FEED Bank AS RETURN ALL WHERE TITLE CONTAINS "news" DELIVER TO WEBHOOK "{hook}"'
    async with town.ask("Bo") as bo, town.ask("Cy") as cy, town.ask("Ada") as ada:
        assert (await bo.post("/api/v1/queries", json={"text": text})).status_code == 201
        await town.match()
        await town.publish("Bo", "more news of Bo")
        await town.publish("Ada", "more news of Ada")
        assert await town.titles("Bank") == {
            "news of Bo",
            "more news of Bo",
        }
        preview = (await bo.post("/api/v1/queries/preview", json={"text": text, "days": 3650})).json()["items"][0]
        assert set(preview["sources"]) <= {"Bo's bank"}
        assert (await bo.get("/api/v1/queries/Bank")).json()["text"] == text
        assert (await bo.get("/queries/Bank")).status_code == 200
        for other in (cy, ada):
            assert (await other.get("/api/v1/queries/Bank")).status_code == 404
            assert (await other.get("/feeds/Bank.atom")).status_code == 404
            assert (await other.put("/api/v1/queries/Bank", json={"text": text})).status_code == 403
            assert (await other.delete("/api/v1/queries/Bank")).status_code == 404
        assert hook not in (await ada.get("/api/v1/deliveries")).text + (await ada.get("/settings")).text
        sharing = {"visibility": "shared", "description": "Money matters"}
        assert (await bo.put("/api/v1/queries/Bank/sharing", json=sharing)).status_code == 204
        shown = (await cy.get("/api/v1/queries/Bank")).json()
        assert (shown["description"], shown["text"], shown["mine"]) == ("Money matters", "", False)
        page = await cy.get("/queries/Bank")
        assert (page.status_code, "Money matters" in page.text, hook in page.text) == (200, True, False)
        assert (await cy.put("/api/v1/queries/Bank/sharing", json=sharing)).status_code == 403
        assert (await bo.delete("/api/v1/queries/Bank")).status_code in (200, 204)
        assert (await bo.get("/api/v1/queries/Bank")).status_code == 404


async def test_queries_read_those_of_others_only_while_they_are_shared(town: Town) -> None:
    async with town.ask("Bo") as bo, town.ask("Cy") as cy, town.ask("Ada") as ada:

        async def create(client: httpx.AsyncClient, text: str) -> httpx.Response:
            made = await client.post("/api/v1/queries", json={"text": f"CREATE FEED {text}"})
            await town.match()
            return made

        async def share(visibility: str) -> None:
            changed = await bo.put("/api/v1/queries/News/sharing", json={"visibility": visibility})
            assert changed.status_code == 204

        async def read_all() -> list[bool]:
            """Publish an item of Bo's; tell which copies have it."""
            town.refreshes += 1
            await town.publish("Bo", title := f"item {town.refreshes}")
            return [title in await town.titles(name) for name in ("News", "Copy", "CopyOfCopy", "AdaCopy")]

        assert (await create(bo, "News AS RETURN ALL")).status_code == 201
        for client in (cy, ada):  # an owner of the server reads what readers share, and no more
            refused = await create(client, "Copy AS RETURN News")
            assert (refused.status_code, "unknown feed News" in refused.text) == (400, True)
        await share("shared")
        for client, text in ((cy, "Copy AS RETURN News"), (cy, "CopyOfCopy AS RETURN Copy")):
            assert (await create(client, text)).status_code == 201
        assert (await create(ada, "AdaCopy AS RETURN News")).status_code == 201
        assert await read_all() == [True, True, True, True]
        await share("private")
        assert await read_all() == [True, False, False, False]
        for client, name, source in ((cy, "Copy", "News"), (cy, "CopyOfCopy", "Copy"), (ada, "AdaCopy", "News")):
            problem = (await client.get(f"/api/v1/queries/{name}")).json()["problem"]
            assert problem.startswith(f"Private source: {source}. Its owner does not share it with you")
        restarted = QueryProcessor(town.store, clock=lambda: NOW)
        await restarted.load()
        town.processor = restarted
        assert await read_all() == [True, False, False, False]
        await share("public")
        assert await read_all() == [True, True, True, True]
        await share("private")
        replaced = "CREATE OR REPLACE FEED Copy AS RETURN ALL"
        assert (await cy.post("/api/v1/queries", json={"text": replaced})).status_code == 201
        await town.match()
        await town.publish("Cy", "own news")
        assert "own news" in await town.titles("CopyOfCopy")  # mended with the query that it reads


async def test_readers_keep_to_their_limits_and_to_their_own_things(town: Town) -> None:
    app = create_app(make_idle_node(town.store, reader_queries=2, reader_deliveries=1), clock=lambda: NOW)
    town.app = app
    async with town.ask("Bo") as bo:

        async def create(text: str) -> int:
            return (await bo.post("/api/v1/queries", json={"text": text})).status_code

        deliver = ' DELIVER TO WEBHOOK "https://h.example/"'
        assert await create("CREATE FEED One AS RETURN ALL" + deliver) == 201
        assert await create("CREATE FEED Two AS RETURN ALL" + deliver) == 403
        assert await create("CREATE FEED Two AS RETURN ALL") == 201
        assert await create("CREATE FEED Three AS RETURN ALL") == 403
        assert await create("CREATE OR REPLACE FEED Everything AS RETURN ALL") == 403  # the owner's
        assert await create('REGISTER FEED "https://x.example/feed" AS x') == 403
        assert await create("DROP FEED Everything") in (400, 403)
        assert await create("DROP FEED Two") == 201


LINK = re.compile(r'<a[^>]+href="(/[^"#]*)|<form[^>]+action="(/[^"#]*)"[^>]*role="search"')


@pytest.mark.parametrize("subscribed", [True, False])
async def test_no_link_of_any_page_leads_a_reader_to_a_refusal(town: Town, subscribed: bool) -> None:
    await town.store.write(set_visibility, "/feeds/Everything", "shared")
    reader_id = town.users["Bo"].id
    await town.store.write(run_script, "CREATE FEED Mine AS RETURN ALL", NOW, subscriber=reader_id)
    await town.match()
    async with town.ask("Bo") as reader:
        reader.follow_redirects = True
        for name in ("Everything", "Mine"):
            query = await town.store.read(find_query_feed, name)
            form = {"ac": "subscribe" if subscribed else "unsubscribe", "s": f"feed/{HIT_ID_OFFSET + query.id}"}
            assert (await reader.post("/reader/api/0/subscription/edit", data=form)).status_code in (200, 404)
        todo, seen, refused = ["/"], {"/"}, {}
        while todo and len(seen) < 400:
            path = todo.pop()
            answer = await reader.get(path)
            if answer.status_code >= 400:
                refused[path] = answer.status_code
            if not answer.headers.get("content-type", "").startswith("text/html"):
                continue
            for match in LINK.finditer(answer.text):
                link = html.unescape(match[1] or match[2])
                if link not in seen and not link.startswith(("/api/", "/logout")):
                    seen.add(link)
                    todo.append(link)
    assert refused == {}
    assert len(seen) > 15
    assert {"/queries/new", "/queries/Everything", "/queries/Mine", "/settings", "/discover"} <= seen


async def save_in_every_way(client: httpx.AsyncClient, name: str, text: str) -> list[httpx.Response]:
    """Create a query by the API, replace it by the API, and save it on the page."""
    return [
        await client.post("/api/v1/queries", json={"text": text}),
        await client.put(f"/api/v1/queries/{name}", json={"text": text}),
        await client.post("/queries/edit", data={"do": "save", "text": text}),
    ]


async def test_an_alert_that_cannot_work_is_refused_where_it_is_created(town: Town) -> None:
    text = 'CREATE FEED Mailed AS RETURN ALL DELIVER TO EMAIL "ada@example.org"'
    async with town.ask("Ada") as ada:
        for answer in await save_in_every_way(ada, "Mailed", text):
            assert (answer.status_code, "smtp_url" in answer.text) == (400, True)
    node = make_idle_node(town.store, smtp_url="smtp://127.0.0.1:9", mail_from="hw@example.org")
    town.app = create_app(node, clock=lambda: NOW)
    async with town.ask("Ada") as ada:
        assert (await ada.post("/api/v1/queries", json={"text": text})).status_code == 201


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # by Apprise
async def test_a_notification_to_an_unknown_service_is_refused_where_it_is_created(town: Town) -> None:
    text = 'CREATE FEED Told AS RETURN ALL DELIVER TO NOTIFY "nonsense://secret@host"'
    async with town.ask("Bo") as reader:
        for answer in await save_in_every_way(reader, "Told", text):
            assert (answer.status_code, "cannot notify nonsense://…" in answer.text) == (400, True)
        text = 'CREATE FEED Told AS RETURN ALL DELIVER TO NOTIFY "json://receiver.example/hook"'
        assert (await reader.post("/api/v1/queries", json={"text": text})).status_code == 201


async def test_a_web_hook_that_the_address_guard_refuses_is_refused_where_it_is_created(town: Town) -> None:
    refused = ("http://10.0.0.1/hook", "http://127.0.0.1:8080/", "http://2130706433/", "https://h.example:22/")
    async with town.ask("Bo") as reader:
        for address in refused:
            text = f'CREATE FEED Hooked AS RETURN ALL DELIVER TO WEBHOOK "{address}"'
            for answer in await save_in_every_way(reader, "Hooked", text):
                assert (answer.status_code, "cannot deliver to" in answer.text) == (400, True), address
        text = 'CREATE FEED Hooked AS RETURN ALL DELIVER TO WEBHOOK "https://h.example:8443/hook"'
        assert (await reader.post("/api/v1/queries", json={"text": text})).status_code == 201
    town.app = create_app(make_idle_node(town.store, allow_private=True), clock=lambda: NOW)
    async with town.ask("Bo") as reader:
        text = f'CREATE OR REPLACE FEED Hooked AS RETURN ALL DELIVER TO WEBHOOK "{refused[0]}"'
        assert (await reader.post("/api/v1/queries", json={"text": text})).status_code == 201


async def test_a_failing_delivery_is_the_first_thing_its_owner_sees(town: Town) -> None:
    for who, name in (("Bo", "Bank"), ("Ada", "Alarm")):
        text = f'CREATE FEED {name} AS RETURN ALL DELIVER TO WEBHOOK "https://h.example/"'
        await town.store.write(run_script, text, NOW, subscriber=town.users[who].id)
    bank = await town.store.read(find_query_feed, "Bank")
    await town.store.write(add_deliveries, [Delivery(0, bank.id, "Bank", 1, 1, "webhook", "https://h", NOW, at=NOW)])
    (claimed,) = (await town.store.write(claim_due_batches, NOW, 300.0))[0]
    await town.store.write(settle_deliveries, [claimed.id], "dead", None, "The web hook answered 410.", NOW)
    async with town.ask("Bo") as bo, town.ask("Ada") as ada:
        page = (await bo.get("/read/all")).text
        assert "1 delivery of your queries failed" in page
        assert page.index("failed this week") < page.index("<h1")
        assert "failed this week" not in (await ada.get("/read/all")).text


async def test_monitors_without_an_owners_token_do_not_learn_the_names_of_queries(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = MeasuredQuality(0, None, None, 0, None, None)
    promise = PromiseReport("Merger", "a delay", {}, nothing, nothing, nothing, True, None, "", "")

    async def load(store: Store, now: float) -> list[PromiseReport]:
        return [replace(promise, query=None), promise]

    monkeypatch.setattr(status_page, "load_promises", load)
    monkeypatch.setattr(status_page, "list_broken_queries", lambda connection: [BrokenQuery("Merger", "It fails.")])
    async with town.ask() as stranger, town.ask("Bo") as reader, town.ask("Ada") as owner:
        for path in ("/health", "/metrics"):
            assert "Merger" in (await owner.get(path)).text, path
            for other in (stranger, reader):
                answer = await other.get(path)
                assert (answer.status_code, "Merger" in answer.text) == (200, False), path
        assert len((await stranger.get("/health")).json()["promises"]) == 1  # the server's own
        wrong = await stranger.get("/health", headers={"Authorization": "Bearer wrong"})
        assert (wrong.status_code, "Merger" in wrong.text) == (200, False)
