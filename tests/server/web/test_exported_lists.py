"""Exported subscription lists contain query feeds, under addresses that a reader app can fetch unchanged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import httpx
import pytest

from headwater.credentials import hash_password, hash_secret
from headwater.formats import read
from headwater.formats.opml import read_opml
from headwater.node.queries.processor import QueryProcessor
from headwater.publish.published_documents import list_outlines
from headwater.store.content.feeds import NewFeed
from headwater.store.content.verdicts import save_refreshes
from headwater.store.publishing.private_feeds import list_feed_tokens, revoke_feed_tokens, set_private
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.accounts import add_api_token, claim_ownership, find_owner
from headwater.store.readers.subscriptions import add_and_subscribe, list_subscriptions, subscribe_to_query_feed
from headwater.store.store import Store
from support.store_samples import SOMEBODY, a_verdict, an_item

NOW = 1_800_000_000.0
Start = Callable[..., Awaitable[str]]
PATHS = ("/api/v1/opml", "/settings/export.opml", "/reader/api/0/subscription/export")


@pytest.fixture
async def account(web_store: Store) -> Store:
    """Make an account with a password, a feed, and a private and a public query feed."""
    (added,) = await web_store.write(add_and_subscribe, [NewFeed("https://a.example/feed", tags=("news",))], NOW - 50)
    await web_store.write(claim_ownership, "Ada", hash_password("correct horse battery"))
    owner = await web_store.read(find_owner)
    await web_store.write(add_api_token, owner.id, hash_secret("api"), "phone", ("read", "write"), NOW)
    for name in ("Mine", "Everybody"):
        await web_store.write(run_script, f"CREATE FEED {name} AS RETURN ALL", NOW)
    await web_store.write(set_private, "/feeds/Everybody", False)
    processor = QueryProcessor(web_store)
    await processor.load()
    await save_refreshes(web_store, [a_verdict(added.feed, an_item(added.feed.id, "https://a.example/1"), at=NOW)])
    while await processor.step():
        pass
    subscribed = {one.query_id for one in await web_store.read(list_subscriptions, owner.id)}
    for query_id in {1, 2} - subscribed:
        await web_store.write(subscribe_to_query_feed, owner.id, query_id, NOW)
    return web_store


async def export(http: httpx.AsyncClient, base: str, path: str) -> dict[str, str]:
    """Return the addresses of the query feeds in an exported list, by title."""
    answer = await http.get(base + path, headers={"Authorization": "Bearer api"})
    assert answer.status_code == 200, answer.text
    found = read_opml(answer.content).feeds
    assert "https://a.example/feed" in {one.url for one in found}
    return {one.title or "": one.url for one in found if one.url != "https://a.example/feed"}


@pytest.mark.parametrize("path", PATHS)
async def test_the_addresses_of_query_feeds_work(account: Store, site: Start, path: str) -> None:
    base = await site()
    async with httpx.AsyncClient() as http:
        lists = await export(http, base, path)
        assert lists.keys() == {"Mine", "Everybody"}
        assert "token" not in lists["Everybody"]
        for url in lists.values():
            parts = urlsplit(url)
            document = await http.get(f"{base}{parts.path}?{parts.query}")
            assert document.status_code == 200
            assert [item.id for item in read(document.content).items] == ["https://a.example/1"]
        assert (await http.get(f"{base}/feeds/Mine.atom")).status_code == 404


async def test_a_list_keeps_its_tokens_until_they_are_revoked(account: Store, site: Start) -> None:
    base = await site()
    async with httpx.AsyncClient() as http:
        first = await export(http, base, PATHS[0])
        assert [await export(http, base, path) for path in PATHS] == [first] * 3
        (token,) = await account.read(list_feed_tokens)
        assert (token.path, token.label) == ("/feeds/mine", "OPML of Ada")


async def test_a_revoked_token_is_not_made_again(account: Store) -> None:
    owner = await account.read(find_owner)

    async def find_address(now: float) -> str:
        outlines = await list_outlines(account, owner, "https://feeds.example", now)
        return next(one.url for one in outlines if one.title == "Mine")

    first = await find_address(NOW)
    assert await find_address(NOW + 60) == first
    await account.write(revoke_feed_tokens, "/feeds/Mine", "OPML of Ada", by=SOMEBODY)
    assert await find_address(NOW + 120) != first
