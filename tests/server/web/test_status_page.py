"""The page of what is happening, the form that adds a feed, health and metrics over real HTTP."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from markupsafe import escape
from prometheus_client.parser import text_string_to_metric_families
from yarl import URL

from headwater.model import Ending, Feed, Outcome, Refresh
from headwater.store.content.feeds import NewFeed, count_feeds, list_feeds
from headwater.store.content.verdicts import save_refreshes
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store
from support import ROOT
from support.idle_node import EmptyFeeds
from support.store_samples import a_verdict, an_item

Start = Callable[..., Awaitable[str]]
NOW = 1_800_000_000.0
DOCUMENTED = (ROOT / "docs" / "server.md").read_text()
HOSTILE = '<script>alert("x")</script>'


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


async def one_feed(store: Store, url: str = "https://a.example/feed", title: str | None = None) -> Feed:
    (added,) = await store.write(add_and_subscribe, [NewFeed(url, title=title)], NOW)
    return added.feed


class Visitor:
    """A browser as far as forms are concerned: it keeps cookies and says which site sent a form."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.session = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))

    async def __aenter__(self) -> Visitor:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.session.close()

    async def send(self, address: str, **headers: str) -> tuple[int, str]:
        named = {"Origin": self.base} | {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.post(f"{self.base}/feeds", data={"address": address}, headers=named) as answer:
            return answer.status, await answer.text()


async def test_without_feeds_the_page_says_how_to_add_one(site: Start) -> None:
    status, page = await get(f"{await site()}/status")
    assert status == 200
    assert "has no feeds yet" in page
    assert "headwater feeds add" in page
    folder = escape(shlex.quote(f"{os.getcwd()}/data"))  # as a shell takes it, also where it has blanks
    assert f"<pre><code>export HEADWATER_DATA={folder}\nheadwater feeds add" in page
    assert '<form method="post" action="/feeds">' in page


async def test_the_page_tells_what_happened(site: Start, web_store: Store) -> None:
    feed = await one_feed(web_store, title="The Gazette")
    bad = await one_feed(web_store, "https://b.example/feed", title="Broken News")
    await save_refreshes(
        web_store,
        [
            a_verdict(feed, an_item(feed.id, "a", title="Lava by night", published=NOW - 120), at=NOW - 60),
            a_verdict(
                bad,
                at=NOW - 30,
                refresh=Refresh(
                    bad.id, NOW - 30, Ending.BROKEN, status=500, lost=12, message="b.example is broken (500)."
                ),
            ),
        ],
    )
    _, page = await get(f"{await site()}/status")
    assert "Headwater watches 2 feeds" in page
    for words in ("The Gazette", "Broken News", "Lava by night", "b.example is broken (500).", "≈ 12",
                  "nothing published yet",
                  "3 refreshes under way", "1 server asked for a pause", "uniform"):  # fmt: skip
        assert words in page
    assert re.search(r"the next is due\s+<time[^>]*>in 2 min</time>", page)
    assert page.index("Broken News") < page.rindex("The Gazette")  # the latest refresh first


async def test_what_publishers_write_is_text_and_never_markup_or_script(site: Start, web_store: Store) -> None:
    feed = await one_feed(web_store, title=HOSTILE)
    item = an_item(feed.id, "x", title=HOSTILE, link="javascript:alert(1)", published=NOW - 5)
    refresh = Refresh(feed.id, NOW - 3, Ending.UNREADABLE, message=HOSTILE)
    await save_refreshes(web_store, [a_verdict(feed, item, at=NOW - 4, link="javascript:alert(2)")])
    await save_refreshes(web_store, [a_verdict(feed, at=NOW - 3, refresh=refresh)])
    _, page = await get(f"{await site()}/status")
    assert page.count("&lt;script&gt;") >= 3
    assert "<script>" not in page
    assert "javascript:" not in page


async def test_every_answer_carries_the_headers_that_keep_browsers_safe(site: Start) -> None:
    base = await site()
    async with aiohttp.ClientSession() as session:
        for path in ("/", "/health", "/metrics", "/static/site.css", "/nothing", "/static/../app.py"):
            async with session.get(URL(base + path, encoded=True)) as answer:
                policy = answer.headers["Content-Security-Policy"]
                assert "default-src 'none'" in policy
                assert "unsafe" not in policy
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
        async with session.get(base) as answer:
            assert answer.headers["Cache-Control"] == "no-store"
            page = await answer.text()
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?! type=\"module\" src=\"/static/)", page)


async def test_a_defect_shows_a_page_without_its_insides(web_store: Store, site: Start) -> None:
    class Broken(EmptyFeeds):
        async def fetch(self, url: str, *arguments: Any, **options: Any) -> Outcome:
            raise RuntimeError("secret insides")

    async with Visitor(await site(fetcher=Broken())) as visitor:
        status, page = await visitor.send("https://a.example/")
    assert status == 500
    assert "secret insides" not in page
    assert "Headwater made a mistake" in page


async def test_the_form_adds_a_feed_once(site: Start, web_store: Store) -> None:
    async with Visitor(await site()) as visitor:
        status, page = await visitor.send("https://a.example/feed")
        assert status == 200  # after the redirect
        assert "Feed added" in page
        assert "https://a.example/feed" in page
        _, page = await visitor.send("https://a.example/feed")
        assert "was there already" in page
    assert [feed.url for feed in await web_store.read(list_feeds)] == ["https://a.example/feed"]


@pytest.mark.parametrize("address", ["", "   ", "gopher://a.example/", "javascript:alert(1)", "nothing"])
async def test_addresses_that_cannot_be_are_refused_with_a_sentence(
    site: Start, web_store: Store, address: str
) -> None:
    async with Visitor(await site()) as visitor:
        status, page = await visitor.send(address)
    assert status == 400
    assert 'role="alert"' in page
    assert await web_store.read(count_feeds) == 0


async def test_what_adding_says_is_shown_and_the_address_kept(site: Start) -> None:
    class Nowhere(EmptyFeeds):
        async def fetch(self, url: str, *arguments: Any, **options: Any) -> Outcome:
            return Outcome(Ending.DNS, url, url, NOW, 0.0, message="The host could not be found (DNS).")

    async with Visitor(await site(fetcher=Nowhere())) as visitor:
        status, page = await visitor.send('https://a.example/"><b>')
    assert status == 400
    assert "could not be found (DNS)." in page
    assert 'value="https://a.example/&#34;&gt;&lt;b&gt;"' in page


async def test_forms_of_other_sites_are_refused(site: Start, web_store: Store) -> None:
    base = await site(names=["feeds.example"])
    address = "https://evil.example/feed"
    async with Visitor(base) as visitor:
        refused = [
            await visitor.send(address, Origin="https://evil.example"),
            await visitor.send(address, Origin="null"),
            await visitor.send(address, Sec_Fetch_Site="cross-site"),
            await visitor.send(address, Sec_Fetch_Site="same-site"),
            await visitor.send(address, Host="rebound.example"),
            await visitor.send(address, Host="rebound.example", Sec_Fetch_Site="same-origin"),
        ]
        assert [status for status, _ in refused] == [403] * len(refused)
        async with visitor.session.post(f"{base}/feeds", data={"address": address}) as answer:
            assert answer.status == 403
            assert "neither the header Sec-Fetch-Site nor Origin" in await answer.text()
        assert await web_store.read(count_feeds) == 0
        assert (await visitor.send(address, Sec_Fetch_Site="same-origin"))[0] == 200
    assert await web_store.read(count_feeds) == 1


async def test_large_forms_are_refused(site: Start) -> None:
    async with Visitor(await site()) as visitor:
        assert (await visitor.send("https://a.example/" + "x" * 20_000))[0] == 413


async def test_health_and_metrics_tell_the_same_counts(site: Start, web_store: Store) -> None:
    feed = await one_feed(web_store)
    await one_feed(web_store, "https://b.example/feed")
    items = [an_item(feed.id, name, published=NOW - 10) for name in "abc"]
    await save_refreshes(web_store, [a_verdict(feed, *items, at=NOW - 1)])
    base = await site()
    async with aiohttp.ClientSession() as session, session.get(f"{base}/health") as answer:
        health = await answer.json()
    assert (health["status"], health["feeds"], health["items"], health["under_way"]) == ("ok", 2, 3, 3)
    assert (health["last_refresh"], health["next_due"]) == (NOW - 1, NOW + 90)
    _, text = await get(f"{base}/metrics")
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["headwater_feeds", "all"] == 2
    assert samples["headwater_feeds", "never_refreshed"] == 1
    assert samples["headwater_items",] == 3
    assert samples["headwater_refreshes_hour", "changed"] == 1
    assert samples["headwater_new_items_day",] == 3
    assert samples["headwater_budget_requests_per_minute",] == 60


def overwrite(folder: Path) -> None:
    for file in folder.glob("web.sqlite*"):
        file.write_bytes(b"no database at all " * 5000)


async def test_a_store_that_does_not_answer_is_said(site: Start, web_store: Store, tmp_path: Path) -> None:
    base = await site()
    assert (await get(f"{base}/health"))[0] == 200
    overwrite(tmp_path)
    status, text = await get(f"{base}/health")
    assert (status, orjson.loads(text)["status"]) == (503, "failing")
    status, page = await get(base)
    assert status == 503
    assert "The database does not answer" in page


async def test_every_figure_is_in_the_documentation(site: Start, web_store: Store) -> None:
    feed = await one_feed(web_store)
    await save_refreshes(web_store, [a_verdict(feed, at=NOW - 1)])
    _, text = await get(f"{await site()}/metrics")
    for family in text_string_to_metric_families(text):
        assert f"`{family.name.replace('_day', '_hour')}" in DOCUMENTED
