"""Every page in a real browser is accessible (axe) in light and dark, fits a phone, and loads little, only from us."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from headwater.store.content.feeds import NewFeed
from headwater.store.content.items import list_items
from headwater.store.content.verdicts import save_refreshes
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store
from support.store_samples import a_verdict, an_item

Start = Callable[..., Awaitable[str]]
NOW = 1_800_000_000.0
AXE = (resources.files("axe_playwright_python") / "axe.min.js").read_text()
MOST = 150_000  # bytes of a page without pictures
WEIGHT = """() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .filter(one => one.initiatorType !== "img").reduce((sum, one) => sum + one.decodedBodySize, 0)"""
PAGES = ("/", "/read/all?item={item}", "/feeds", "/feed/3", "/queries/Volcanoes", "/quality", "/discover", "/settings",
         "/queries", "/status", "/keys", "/api/", "/nothing-here")  # fmt: skip


# Shrinks every glyph to the same height, so that no box depends on an installed font.
LOW_FONT = """() => { const sheet = new CSSStyleSheet(); sheet.replaceSync("* { font-size-adjust: .35 !important }");
    document.adoptedStyleSheets = [sheet]; }"""
LOW_LINKS = """() => [...document.querySelectorAll("main :is(td, li, li > h3, .also, .why, .links) > a")]
    .filter(link => link.checkVisibility() && link.getBoundingClientRect().height < 24).map(link => link.outerHTML)"""
SOME = ("/read/all?item={item}", "/feed/3", "/queries/Volcanoes", "/settings")


async def prepared(store: Store) -> int:
    """Make a query feed; return the number of an item to open."""
    await store.write(run_script, 'CREATE FEED Volcanoes AS RETURN ALL WHERE ITEM CONTAINS "volcano"', NOW)
    (item,) = await store.read(list_items, limit=1, before=NOW)
    assert item.id is not None
    return item.id


async def violations(page: Page, **options: Any) -> list[str]:
    """Return axe's violations with their places."""
    # The browser itself adds the script, because our policy blocks foreign scripts.
    await page.evaluate(f"{AXE};0")
    found = await page.evaluate("options => axe.run(document, options)", options)
    return [
        f"{one['id']}: {node['html'][:150]} {node['failureSummary'][:200]}"
        for one in found["violations"]
        for node in one["nodes"]
    ]


class Watched:
    """Opens pages and records their errors and requests."""

    def __init__(self, page: Page, base: str) -> None:
        self.page, self.base = page, base
        self.complaints: list[str] = []
        self.foreign: list[str] = []
        self.weight = 0
        page.on("console", lambda message: self.complaints.append(f"{page.url}: {message.text}"))
        page.on("pageerror", lambda error: self.complaints.append(f"{page.url}: {error}"))
        page.on("request", lambda request: request.url.startswith(base) or self.foreign.append(request.url))

    async def open(self, path: str) -> None:
        await self.page.goto(self.base + path)
        await self.page.wait_for_timeout(200)  # until scripts have fetched
        self.weight = await self.page.evaluate(WEIGHT)


@pytest.mark.parametrize(
    ("scheme", "width", "rules"),
    [("light", 1280, None), ("dark", 1280, ["color-contrast"]), ("light", 375, ["color-contrast", "target-size"])],
)
async def test_every_page_is_accessible_light_and_only_ours(
    watched_site: Start, watched_store: Store, browser: Browser, scheme: Any, width: int, rules: list[str] | None
) -> None:
    item = await prepared(watched_store)
    base = await watched_site()
    context = await browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    watched = Watched(await context.new_page(), base)
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules is not None:
        options["runOnly"] = {"type": "rule", "values": rules}
    problems: list[str] = []
    for path in PAGES if rules is None else SOME:
        await watched.open(path.format(item=item))
        page = watched.page
        if width < 400:
            await page.evaluate(LOW_FONT)
            problems += [f"{path}: less than 24 px high: {one}" for one in await page.evaluate(LOW_LINKS)]
        problems += [f"{path}: {one}" for one in await violations(page, **options)]
        wide = await page.evaluate("document.documentElement.scrollWidth")
        if wide > width:
            problems.append(f"{path} is {wide} wide in a window of {width}")
        if watched.weight > MOST:
            problems.append(f"{path} weighs {watched.weight:,} bytes")
        if inline := await page.evaluate("document.querySelectorAll('[style], style, script:not([src])').length"):
            problems.append(f"{path} has {inline} inline styles or scripts")
    assert problems == []
    assert watched.foreign == []
    assert [one for one in watched.complaints if "nothing-here" not in one] == []


async def test_the_switch_keeps_dark_and_goes_back_to_the_page(watched_site: Start, browser: Browser) -> None:
    base = await watched_site()
    page = await browser.new_page(color_scheme="light")
    await page.goto(f"{base}/quality")
    light = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    await page.get_by_role("button", name="Change colours").click()
    # The page is loaded again; until then its address and colours are the old ones.
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await expect(page.locator("body")).not_to_have_css("background-color", light)
    assert page.url == f"{base}/quality"
    await page.goto(f"{base}/feeds")
    assert await page.evaluate("document.documentElement.dataset.theme") == "dark"


async def test_charts_show_their_finding_and_their_numbers(watched_site: Start, browser: Browser) -> None:
    page = await browser.new_page()
    await page.goto(f"{await watched_site()}/feed/3")
    assert await page.locator("figure").count() == 2
    assert "items a week" in await page.locator("figcaption").first.inner_text()
    assert await page.locator("figure svg text").count() > 10
    await page.locator("figure summary").first.click()
    rows = page.locator("figure").first.locator("tbody tr")
    assert await rows.count() == 168
    assert await rows.first.is_visible()


async def test_on_a_phone_moments_say_what_happened_then(watched_site: Start, browser: Browser) -> None:
    base = await watched_site()
    page = await browser.new_page(viewport={"width": 390, "height": 844})
    await page.goto(f"{base}/feeds")
    said = """cells => cells.slice(0, 3).map(one => getComputedStyle(one, "::before").content.replaceAll('"', ""))"""
    shown = [word.strip() for word in await page.eval_on_selector_all("td.when", said)]
    assert shown == ["refreshed", "changed", "next"]
    await page.set_viewport_size({"width": 1280, "height": 900})
    assert await page.eval_on_selector_all("td.when", said) == ["none"] * 3  # there the columns have headings


async def test_words_without_end_make_no_page_wider_than_its_screen(
    site: Start, web_store: Store, browser: Browser
) -> None:
    word = "Donaudampfschifffahrtsgesellschaft" * 8
    added = await web_store.write(
        add_and_subscribe,
        [NewFeed(f"https://a.example/{word}", title=word, link=f"https://{word[:60]}.example/", tags=(word[:90],))],
        NOW,
    )
    feed = added[0].feed
    item = an_item(feed.id, "1", title=word, content=f"<p>{word}</p><pre>{word}</pre><h2>{word}</h2>", authors=(word,))
    await save_refreshes(web_store, [a_verdict(feed, item, at=NOW - 60)])
    await web_store.write(run_script, f'CREATE FEED {word[:60]} AS RETURN ALL WHERE ITEM CONTAINS "{word}"', NOW)
    base = await site()
    (stored,) = await web_store.read(list_items, limit=1)
    named = f"/queries/{word[:60]}"
    pages = [f"/read/all?item={stored.id}", "/read/all", "/feeds", f"/feed/{feed.id}", "/queries", named,
             "/status", "/discover", "/settings", f"/read/search?q={word}", f"/{word}"]  # fmt: skip
    too_wide = []
    for width in (390, 820, 1280):
        page = await browser.new_page(viewport={"width": width, "height": 844})
        for path in pages:
            await page.goto(base + path)
            if (found := await page.evaluate("document.documentElement.scrollWidth")) > width:
                too_wide.append((path[:40], width, found))
        await page.close()
    assert too_wide == []
