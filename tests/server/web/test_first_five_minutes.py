"""A new user adds a first feed and a list, reads, and writes a query, in a real browser on a running node."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from playwright.async_api import Browser, expect

from headwater.assembly import build
from headwater.farm.farm import Farm
from headwater.node.node import Node
from headwater.settings import load_settings
from headwater.store.content.feeds import list_feeds
from headwater.store.content.items import list_items
from headwater.web.app import create_app


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[tuple[Node, str]]:
    """Run a node with its pages, as `headwater serve` does."""
    given = load_settings(data=folder, allow_private=True, least_interval=0.5, per_host=16, budget=6000.0)
    async with build("node", given) as node:
        app = create_app(node)
        listener = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_config=None, lifespan="off", server_header=False, timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield node, f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task
            listener.close()


async def test_from_an_empty_server_to_reading_a_query_feed(tmp_path: Path, browser: Browser) -> None:
    async with Farm(6, 1, 2000.0, hints=False) as farm, running(tmp_path) as (node, base):
        page = await (await browser.new_context(viewport={"width": 1280, "height": 900})).new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))

        # An empty server offers three ways to begin.
        await page.goto(base)
        for way in ("Add a feed", "Import subscriptions", "Try the demo"):
            await expect(page.get_by_role("heading", name=way)).to_be_visible()

        # An address that has no feed is refused with a sentence, and kept in the field.
        await page.get_by_label("Website or feed URL").fill(f"{farm.base_url()}/nothing")
        await page.get_by_role("button", name="Add", exact=True).click()
        await expect(page.get_by_role("alert")).to_contain_text("404")

        # The items of a feed's address are there at once.
        await page.goto(base)
        await page.get_by_label("Website or feed URL").fill(farm.url(0))
        await page.get_by_role("button", name="Add", exact=True).click()
        await expect(page).to_have_url(f"{base}/read/feed/1")
        assert await page.locator(".row-item").count() > 3

        # A list: progress, then the result.
        await page.goto(f"{base}/settings")
        addresses = "\n".join(farm.url(k) for k in range(6)) + "\nftp://nowhere.example/feed\n"
        await page.locator("#file").set_input_files(
            {"name": "list.txt", "mimeType": "text/plain", "buffer": addresses.encode()}
        )
        await page.get_by_role("button", name="Import").click()
        await expect(page.locator(".lead")).to_contain_text("5 feeds were added, 1 already there", timeout=20_000)
        for feed in await node.store.read(list_feeds):
            await node.crawl.request_refresh(feed.id)

        # A query becomes a feed in the sidebar.
        title = (await node.store.read(list_items, limit=1))[0].title or ""
        word = max(title.split(), key=len).strip("’:,.")
        await page.goto(f"{base}/queries/new")
        await page.locator("#text").fill(f'CREATE FEED Mine AS RETURN ALL WHERE TITLE CONTAINS "{word}"')
        await expect(page.locator("#preview")).to_contain_text("Mine matches")
        await page.get_by_role("button", name="Save as feed").click()
        await expect(page.get_by_role("heading", name="Mine", exact=True)).to_be_visible()
        await expect(page.locator("tbody code").first).to_have_text("http://localhost:8040/feeds/Mine.rss")
        await page.goto(f"{base}/read/query/Mine")
        await expect(page.locator('.side a[aria-current="page"]')).to_contain_text("Mine")

        # The feed's page explains its polling, and the quality page has plots.
        await page.goto(f"{base}/feed/1")
        await expect(page.locator("figure svg").first).to_be_visible()
        await page.get_by_role("button", name="Refresh now").click()
        await expect(page.get_by_role("status").first).to_contain_text("Feed refreshed")
        await node.maintenance.publish_report()
        await page.goto(f"{base}/quality")
        # The farm may have published in these seconds; the page says whether.
        await expect(page.get_by_role("heading", level=1)).to_contain_text(
            re.compile("are stored|Nothing was published")
        )
        assert await page.locator("figure").count() >= 1
        assert [one for one in complaints if "400 (Bad Request)" not in one] == []
