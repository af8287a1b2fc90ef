"""The API manages standing queries, deliveries and published feeds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headwater.store.content.articles import list_article_sources

EVERYTHING = "CREATE FEED Everything AS RETURN ALL"
BROKEN = "CREATE FEED Broken AS RETURN"


@pytest.fixture
async def fed(server: Any) -> Any:
    added = await server.owner("POST", "/feeds", 201, json={"url": server.farm.url(0), "tags": ["news"]})
    server.feed = added["feed"]["id"]
    return server


async def test_a_script_is_checked_with_places_and_hints(server: Any) -> None:
    good = await server.ann("POST", "/queries/check", json={"text": EVERYTHING})
    assert good == {"ok": True, "statements": 1, "queries": ["Everything"], "messages": []}
    bad = await server.ann("POST", "/queries/check", json={"text": BROKEN})
    assert bad["ok"] is False
    assert bad["messages"][0]["line"] == 1
    assert bad["messages"][0]["column"] > 1


async def test_a_script_gets_its_one_form(server: Any) -> None:
    done = await server.ann("POST", "/queries/fmt", json={"text": EVERYTHING.lower()})
    assert done["text"].startswith("CREATE FEED everything")
    refused = await server.ann("POST", "/queries/fmt", 400, json={"text": BROKEN})
    assert refused["field"] == "text"
    assert refused["details"][0]["message"]


async def test_a_query_is_previewed_created_replaced_explained_and_dropped(fed: Any, eventually: Any) -> None:
    tried = await fed.owner("POST", "/queries/preview", json={"text": EVERYTHING, "days": 3650, "items": 2})
    assert tried["items"][0]["kept"] == tried["items"][0]["looked_at"] > 0
    assert len(tried["items"][0]["items"]) == 2
    made = await fed.owner("POST", "/queries", 201, json={"text": EVERYTHING})
    assert made["done"] == [{"action": "created", "name": "Everything"}]
    shown = await fed.owner("GET", "/queries/everything")
    while not shown["items"]:
        await asyncio.sleep(0.05)
        shown = await fed.owner("GET", "/queries/Everything")
    assert shown["text"] == EVERYTHING
    assert (await fed.owner("GET", "/queries"))["items"][0]["name"] == "Everything"
    hits = await fed.owner("GET", "/queries/Everything/items?limit=2")
    assert len(hits["items"]) == 2
    more = await fed.owner("GET", f"/queries/Everything/items?limit=2&cursor={hits['next']}")
    assert more["items"][0]["id"] < hits["items"][-1]["id"]
    told = await fed.owner("GET", "/queries/Everything/explanation")
    assert told["sources"][0]["feed_id"] == fed.feed
    streamed = await fed.owner("GET", "/items?query=Everything&limit=1")
    assert streamed["items"][0]["query"] == shown["id"]
    assert "Everything" in (await fed.owner("GET", f"/items/{streamed['items'][0]['id']}"))["queries"]
    text = 'CREATE OR REPLACE FEED Everything AS RETURN ALL WHERE TITLE CONTAINS "ice"'
    assert (await fed.owner("PUT", "/queries/Everything", json={"text": text}))["done"][0]["action"] == "replaced"
    plain = text.replace("OR REPLACE ", "")
    assert (await fed.owner("PUT", "/queries/everything", json={"text": plain}))["done"][0]["action"] == "replaced"
    assert (await fed.owner("GET", "/queries/Everything"))["text"] == plain
    assert (await fed.owner("POST", "/queries/preview", json={"text": plain}))["items"][0]["name"] == "Everything"
    refused = await fed.owner("POST", "/queries", 400, json={"text": plain})
    assert "exists already" in refused["message"]
    other = await fed.owner("PUT", "/queries/Other", 400, json={"text": text})
    assert other["field"] == "text"

    async def published(status: int) -> None:  # documents are checked four times a second
        async def answered() -> bool:
            return bool((await fed.owner.http.get("/feeds/Everything.atom")).status_code == status)

        await eventually(answered, f"the document answers {status}")

    await published(200)
    removed = await fed.owner("DELETE", "/queries/Everything")
    assert removed["dropped"] == ["Everything"]
    await published(404)
    before = (await fed.owner("GET", "/removals"))["items"]
    await fed.owner("POST", "/removals/undo", json={"undo": removed["undo"]})
    assert (await fed.owner("GET", "/queries/Everything"))["name"] == "Everything"
    await published(200)
    script = await fed.owner("POST", "/queries", 201, json={"text": "DROP FEED Everything"})
    assert len((await fed.owner("GET", "/removals"))["items"]) == len(before) == len(script["undo"]) == 1
    await fed.owner("GET", "/queries/Everything", 404)


async def test_a_query_that_others_read_is_only_dropped_with_them(fed: Any) -> None:
    await fed.owner("POST", "/queries", 201, json={"text": EVERYTHING})
    await fed.owner("POST", "/queries", 201, json={"text": "CREATE FEED Above AS RETURN Everything"})
    refused = await fed.owner("DELETE", "/queries/Everything", 400)
    assert "Above" in refused["message"]
    assert sorted((await fed.owner("DELETE", "/queries/Everything?cascade=true"))["dropped"]) == ["Above", "Everything"]


async def test_pages_behind_items_are_wished_for(fed: Any) -> None:
    await fed.owner("POST", "/queries", 201, json={"text": EVERYTHING})
    query = (await fed.owner("GET", "/queries/Everything"))["id"]
    await fed.owner("PUT", f"/feeds/{fed.feed}/articles", 204, json={"wanted": True})
    await fed.owner("PUT", "/queries/Everything/articles", 204, json={"wanted": True})
    assert await fed.store.read(list_article_sources) == ({fed.feed}, {query})
    await fed.owner("PUT", f"/feeds/{fed.feed}/articles", 204, json={"wanted": False})
    assert await fed.store.read(list_article_sources) == (set(), {query})
    await fed.owner("PUT", "/feeds/99/articles", 404, json={"wanted": True})


async def test_readers_neither_change_nor_see_the_queries_of_others(fed: Any) -> None:
    await fed.owner("POST", "/queries", 201, json={"text": EVERYTHING})
    for method, path, body, status in (
        ("POST", "/queries", {"text": EVERYTHING}, 403),
        ("PUT", "/queries/Everything", {"text": EVERYTHING}, 403),
        ("DELETE", "/queries/Everything", None, 404),
        ("GET", "/queries/Everything/explanation", None, 403),
    ):
        await fed.ann(method, path, status, json=body)
    (preview,) = (await fed.ann("POST", "/queries/preview", json={"text": EVERYTHING}))["items"]
    assert preview["looked_at"] == 0  # of the feeds that Ann reads
    assert (await fed.ann("GET", "/queries"))["items"] == []
    await fed.ann("GET", "/queries/Everything", 404)
    await fed.ann("GET", "/queries/Everything/items", 404)
    await fed.ann("GET", "/items?query=Everything", 404)


async def test_hostile_scripts_are_refused(server: Any) -> None:
    pattern = "CREATE FEED a AS RETURN ALL WHERE TITLE MATCHES '(a+)+$'"
    for text in ("(" * 60_000, "(" * 100_000, pattern, "😀", "'", "a\0b", "x" * 1_000_001, BROKEN):
        refused = await server.owner("POST", "/queries", 400, json={"text": text})
        assert refused["field"] == "text"


async def test_private_feeds_have_tokens_that_are_shown_once(fed: Any) -> None:
    assert await fed.owner("GET", "/published") == {"private": [], "shared": [], "public": [], "tokens": []}
    await fed.owner("PUT", "/published/tags/news", json={"private": True})
    made = await fed.owner("POST", "/published/tags/news/tokens", 201, json={"label": "phone"})
    assert made["url"] == f"https://feeds.example.org/tags/news.rss?token={made['token']}"
    assert made["private"] is True
    listed = await fed.owner("GET", "/published")
    assert listed["private"] == ["/tags/news"]
    assert listed["tokens"][0]["label"] == "phone"
    assert made["token"] not in str(listed)
    opened = await fed.owner.http.get(f"/tags/news.rss?token={made['token']}")
    assert opened.status_code == 200
    assert (await fed.owner("DELETE", "/published/tags/news/tokens?label=phone"))["revoked"] == 1
    await fed.owner("DELETE", "/published/tags/news/tokens", 404)
    await fed.owner("PUT", "/published/tags/none", 404, json={"private": True})
    await fed.owner("PUT", "/published/other/news", 400, json={"private": True})
    await fed.ann("GET", "/published", 403)
    await fed.ann("POST", "/published/tags/news/tokens", 403, json={})


async def test_deliveries_are_listed_counted_and_sent_again(fed: Any) -> None:
    hook = fed.farm.base_url() + "/nowhere"
    text = f'CREATE FEED Sent AS RETURN ALL DELIVER TO WEBHOOK "{hook}"'
    await fed.owner("POST", "/queries", 201, json={"text": text})
    await fed.owner("POST", "/feeds", 201, json={"url": fed.farm.url(1)})
    counts = await fed.owner("GET", "/deliveries/counts")
    while not sum(counts.values()):
        await asyncio.sleep(0.05)
        await fed.owner("POST", f"/feeds/{fed.feed}/refresh")
        counts = await fed.owner("GET", "/deliveries/counts")
    page = await fed.owner("GET", "/deliveries?limit=1")
    assert page["items"][0]["address"] == hook
    empty = await fed.owner("POST", "/deliveries/resend", 400, json={})
    assert empty["field"] == "ids"
    assert (await fed.owner("POST", "/deliveries/resend", json={"dead": True}))["due"] == 0
    await fed.owner("POST", "/deliveries/resend", 400, json={"ids": [999_999]})
    await fed.owner("GET", "/deliveries?state=lost", 400)
    await fed.ann("GET", "/deliveries", 403)


async def test_a_script_as_long_as_it_may_be_is_taken_however_json_writes_it(fed: Any) -> None:
    """The largest allowed body follows from the largest allowed texts."""
    for written, said in ((b"\\ud83d\\ude00" * 999_997, 200), (b"a" * 1_000_001, 400), (b"a" * 21_000_000, 413)):
        body = b'{"text": "-- ' + written + b'"}'
        await fed.owner("POST", "/queries/check", said, content=body, headers={"Content-Type": "application/json"})
