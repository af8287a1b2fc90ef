"""The first page works in a real browser: its policy blocks nothing, it fits a phone, and the form works."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import Browser

from headwater.store.content.feeds import NewFeed, count_feeds, list_feeds
from headwater.store.content.verdicts import save_refreshes
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store
from support.store_samples import a_verdict, an_item

Start = Callable[..., Awaitable[str]]
NOW = 1_800_000_000.0


@pytest.mark.parametrize("width", [360, 800, 1400])
async def test_the_page_fits_its_window_and_its_policy(
    site: Start, web_store: Store, browser: Browser, width: int
) -> None:
    (added,) = await web_store.write(
        add_and_subscribe, [NewFeed("https://a.example/" + "long" * 60, title="Wort" * 60)], NOW
    )
    items = [an_item(added.feed.id, str(n), title="Wort" * 80, published=NOW - n) for n in range(5)]
    await save_refreshes(web_store, [a_verdict(added.feed, *items, at=NOW - 1)])
    page = await browser.new_page(viewport={"width": width, "height": 800})
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    await page.goto(await site() + "/status")
    assert await page.evaluate("document.documentElement.scrollWidth") <= width
    assert (
        await page.evaluate("getComputedStyle(document.querySelector('.add button')).backgroundColor") != "rgb(0, 0, 0)"
    )
    assert complaints == []


async def test_a_feed_is_added_by_the_form(site: Start, web_store: Store, browser: Browser) -> None:
    page = await browser.new_page()
    await page.goto(await site() + "/status")
    await page.get_by_label("Website or feed URL").fill("https://a.example/feed")
    await page.get_by_role("button", name="Add").click()
    assert "Feed added" in await page.get_by_role("status").inner_text()
    assert [feed.url for feed in await web_store.read(list_feeds)] == ["https://a.example/feed"]


async def test_another_site_cannot_send_the_form(site: Start, web_store: Store, browser: Browser) -> None:
    base = await site()
    page = await browser.new_page()
    await page.goto(base)  # the visitor has our cookie
    await page.goto("data:text/html,<p>elsewhere")
    fields = '<input name=address value="https://evil.example/">'
    form = f'<form method=post action="{base}/feeds">{fields}</form>'
    await page.set_content(form)
    async with page.expect_navigation() as navigation:
        await page.evaluate("document.forms[0].submit()")
    answer = await navigation.value
    assert answer is not None
    assert answer.status == 403
    assert await web_store.read(count_feeds) == 0
