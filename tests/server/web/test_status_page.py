"""The status page, the form that adds a feed, health and metrics work over real HTTP."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs
from yarl import URL

from headwater.errors import StoreError
from headwater.model import Ending, Feed, Outcome, Refresh
from headwater.node.crawl.crawl_status import CrawlStatus
from headwater.store.content.feeds import NewFeed, count_feeds, list_feeds
from headwater.store.content.verdicts import save_refreshes
from headwater.store.maintenance.probe import WaitingWork, probe_tables, probe_writing
from headwater.store.opening import open_store
from headwater.store.publishing.deliveries import Delivery, add_deliveries, claim_due_batches, settle_deliveries
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store
from headwater.web.shared import health
from headwater.web.shared.health import CHECK_SECONDS, LATE, find_late_work
from support import ROOT
from support.idle_node import EmptyFeeds, make_idle_node
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


class FormSender:
    """A browser that only handles forms: it keeps cookies and sends the form's origin."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.session = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))

    async def __aenter__(self) -> FormSender:
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
    folder = escape(shlex.quote(f"{os.getcwd()}/data"))  # quoted for a shell, also with blanks
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
    class FailingFeeds(EmptyFeeds):
        async def fetch(self, url: str, *arguments: Any, **options: Any) -> Outcome:
            raise RuntimeError("secret insides")

    async with FormSender(await site(fetcher=FailingFeeds())) as visitor:
        status, page = await visitor.send("https://a.example/")
    assert status == 500
    assert "secret insides" not in page
    assert "Headwater made a mistake" in page


async def test_the_form_adds_a_feed_once(site: Start, web_store: Store) -> None:
    async with FormSender(await site()) as visitor:
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
    async with FormSender(await site()) as visitor:
        status, page = await visitor.send(address)
    assert status == 400
    assert 'role="alert"' in page
    assert await web_store.read(count_feeds) == 0


async def test_what_adding_says_is_shown_and_the_address_kept(site: Start) -> None:
    class Nowhere(EmptyFeeds):
        async def fetch(self, url: str, *arguments: Any, **options: Any) -> Outcome:
            return Outcome(Ending.DNS, url, url, NOW, 0.0, message="The host could not be found (DNS).")

    async with FormSender(await site(fetcher=Nowhere())) as visitor:
        status, page = await visitor.send('https://a.example/"><b>')
    assert status == 400
    assert "could not be found (DNS)." in page
    assert 'value="https://a.example/&#34;&gt;&lt;b&gt;"' in page


async def test_forms_of_other_sites_are_refused(site: Start, web_store: Store) -> None:
    base = await site(names=["feeds.example"])
    address = "https://evil.example/feed"
    async with FormSender(base) as visitor:
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
    async with FormSender(await site()) as visitor:
        assert (await visitor.send("https://a.example/" + "x" * 20_000))[0] == 413


async def test_health_and_metrics_tell_the_same_counts(site: Start, web_store: Store) -> None:
    feed = await one_feed(web_store)
    await one_feed(web_store, "https://b.example/feed")
    items = [an_item(feed.id, name, published=NOW - 10) for name in "abc"]
    await save_refreshes(web_store, [a_verdict(feed, *items, at=NOW - 1)])
    base = await site()
    async with aiohttp.ClientSession() as session, session.get(f"{base}/health") as answer:
        told = await answer.json()
    assert (told["status"], told["feeds"], told["items"], told["under_way"]) == ("ok", 2, 3, 3)
    assert (told["last_refresh"], told["next_due"]) == (NOW - 1, NOW + 90)
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


async def test_a_store_that_does_not_answer_is_reported(site: Start, web_store: Store, tmp_path: Path) -> None:
    base = await site()
    assert (await get(f"{base}/health"))[0] == 200
    overwrite(tmp_path)
    status, text = await get(f"{base}/health")
    assert (status, orjson.loads(text)["status"]) == (503, "failing")
    status, page = await get(base)
    assert status == 503
    assert "The database does not answer" in page


async def test_a_destroyed_root_page_of_every_table_and_index_is_noticed(web_store: Store, tmp_path: Path) -> None:
    await one_feed(web_store)
    file = tmp_path / "web.sqlite"
    with closing(sqlite3.connect(file)) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = raw.execute("PRAGMA page_size").fetchone()
        pages = dict(raw.execute("SELECT name, rootpage FROM sqlite_master WHERE rootpage > 0").fetchall())
    await web_store.read(probe_tables)
    assert {"item", "feed_tag", "subscription_tag", "item_search_data", "alembic_version"} <= set(pages)
    assert {"feed_name", "refresh_at", "sqlite_autoindex_saved_state_1"} <= set(pages)
    for page in pages.values():
        with file.open("r+b") as stream:
            stream.seek((page - 1) * size)
            whole = stream.read(size)
            stream.seek((page - 1) * size)
            stream.write(b"\xff" * size)
        with pytest.raises(StoreError):
            await web_store.read(probe_tables)
        with file.open("r+b") as stream:
            stream.seek((page - 1) * size)
            stream.write(whole)
    await web_store.read(probe_tables)


@pytest.mark.parametrize("table", ["item", "feed_tag", "delivery"])
async def test_a_destroyed_page_of_any_table_is_reported(
    site: Start, web_store: Store, tmp_path: Path, table: str
) -> None:
    await one_feed(web_store)
    base = await site()
    assert orjson.loads((await get(f"{base}/health"))[1])["status"] == "ok"
    file = tmp_path / "web.sqlite"
    with closing(sqlite3.connect(file)) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = raw.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        (size,) = raw.execute("PRAGMA page_size").fetchone()
    with file.open("r+b") as stream:
        stream.seek((page - 1) * size)
        stream.write(b"\xff" * size)
    await asyncio.sleep(CHECK_SECONDS + 0.1)
    status, text = await get(f"{base}/health")
    told = orjson.loads(text)
    assert (status, told["status"]) == (503, "failing")
    assert "database" in {one["name"] for one in told["problems"]}


async def test_a_store_that_cannot_be_written_is_reported_to_strangers_without_its_place(
    site: Start, web_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, write = await site(), web_store.write

    async def full(function: Any, *arguments: Any, **named: Any) -> Any:
        if function is probe_writing:
            raise StoreError("The disk is full: /data cannot grow.", "The disk is full.")
        return await write(function, *arguments, **named)

    monkeypatch.setattr(web_store, "write", full)
    sentences = {"X-Forwarded-For": "The disk is full.", "User-Agent": "The disk is full: /data cannot grow."}
    for header, sentence in sentences.items():  # without a password, this machine is the owner; a proxy's client is not
        async with aiohttp.ClientSession() as session, session.get(f"{base}/health", headers={header: "a"}) as answer:
            status, told = answer.status, orjson.loads(await answer.read())
        assert (status, told["status"], told["message"]) == (503, "failing", sentence)
        assert told["problems"][0] == {"name": "storage", "message": sentence}


@asynccontextmanager
async def locked(url: str) -> AsyncIterator[None]:
    """Hold a lock that lets nobody write, from another connection."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.execute("ROLLBACK")
    else:
        other = await asyncpg.connect(url)
        async with other.transaction():
            await other.execute("LOCK TABLE saved_state IN ACCESS EXCLUSIVE MODE")
            yield
        await other.close()


async def test_a_database_that_hangs_is_reported_in_time(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "PATIENCE", 0.2)
    async with await open_store(database_url) as store:
        node = make_idle_node(store)
        check = health.HealthCheck(store)
        async with locked(database_url):
            for _ in range(2):
                (found,) = await check.find_problems(node.settings, node.status(), NOW)
                assert (found.name, found.stops) == ("database", True)
        monkeypatch.setattr(health, "PATIENCE", 60.0)
        assert not any(one.stops for one in await check.find_problems(node.settings, node.status(), NOW))


async def make_read_only(store: Store, folder: Path) -> None:
    await store.write(lambda connection: connection.exec_driver_sql("PRAGMA query_only = ON"))


async def destroy(store: Store, folder: Path) -> None:
    overwrite(folder)


DOORS = (
    ("GET", "/health"),
    ("GET", "/"),
    ("GET", "/login"),
    ("GET", "/metrics"),
    ("GET", "/feeds.opml"),
    ("GET", "/feeds/news.atom"),
    ("GET", "/feeds/news/live"),
    ("GET", "/api/v1/feeds"),
    ("GET", "/reader/api/0/user-info"),
    ("POST", "/accounts/ClientLogin"),
    ("POST", "/hub"),
    ("POST", "/login"),
)


@pytest.mark.parametrize("break_database", [make_read_only, destroy])
async def test_a_broken_database_does_not_tell_strangers_where_it_is(
    site: Start, web_store: Store, tmp_path: Path, break_database: Callable[[Store, Path], Awaitable[None]]
) -> None:
    base = await site()
    await break_database(web_store, tmp_path)
    form = {"Email": "owner", "Passwd": "guessed", "name": "owner", "password": "guessed", "hub.mode": "subscribe"}
    form |= {"hub.topic": f"{base}/feeds/news.atom", "hub.callback": "https://a.example/"}
    answers: dict[str, tuple[int, str]] = {}
    with capture_logs() as logs:
        async with aiohttp.ClientSession(headers={"Authorization": "Bearer guessed"}) as session:
            for method, path in DOORS:
                async with session.request(method, base + path, data=form if method == "POST" else None) as answer:
                    answers[f"{method} {path}"] = answer.status, await answer.text()
    assert {path: text for path, (_, text) in answers.items() if str(tmp_path) in text or "web.sqlite" in text} == {}
    status, text = answers["GET /health"]
    assert (status, orjson.loads(text)["status"]) == (503, "failing")
    assert any(str(tmp_path) in str(line.get("error")) for line in logs if line["event"] == "database_failed")


async def test_failing_deliveries_are_reported(site: Start, web_store: Store) -> None:
    base = await site()
    new = Delivery(0, 1, "Lava", 1, 1, "webhook", "https://h.example/", NOW, at=NOW)
    await web_store.write(add_deliveries, [new])
    (claimed,) = (await web_store.write(claim_due_batches, NOW, 300.0))[0]
    await web_store.write(settle_deliveries, [claimed.id], "failed", NOW + 60, "The web hook answered 500.", NOW)
    status, text = await get(f"{base}/health")
    told = orjson.loads(text)
    assert (status, told["status"], told["problems"][0]["name"]) == (200, "degraded", "deliveries")
    assert "h.example" not in text
    assert (await get(f"{base}/health?strict=1"))[0] == 503


@given(
    st.builds(WaitingWork, st.none() | st.floats(0, 2e9), st.none() | st.floats(0, 2e9), st.integers(0, 9)),
    st.none() | st.floats(0, 2e9),
)
def test_health_names_exactly_what_is_late(work: WaitingWork, moved: float | None) -> None:
    status = CrawlStatus(1, 0, "uniform", 60.0, 60, NOW - 2 * LATE, 0, moved_at=moved)
    named = {one.name for one in find_late_work(work, status, NOW)}
    late = {"refreshes": moved, "queries": work.unmatched_since, "deliveries_late": work.undelivered_since}
    wanted = {name for name, since in late.items() if since is not None and NOW - since > LATE}
    assert named == wanted | ({"deliveries"} if work.failing_deliveries else set())


async def test_every_figure_is_in_the_documentation(site: Start, web_store: Store) -> None:
    feed = await one_feed(web_store)
    await save_refreshes(web_store, [a_verdict(feed, at=NOW - 1)])
    _, text = await get(f"{await site()}/metrics")
    for family in text_string_to_metric_families(text):
        assert f"`{family.name.replace('_day', '_hour')}" in DOCUMENTED
