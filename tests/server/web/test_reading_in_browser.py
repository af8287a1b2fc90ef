"""Reading works in a real browser by the keyboard, on a phone and without JavaScript; so does writing a query."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

import aiohttp
import pytest
from playwright.async_api import Browser, Route, expect

from headwater.store.content.feeds import NewFeed, list_feeds
from headwater.store.content.verdicts import save_refreshes
from headwater.store.queries.query_feeds import list_all_query_feeds
from headwater.store.readers.accounts import find_owner
from headwater.store.readers.subscriptions import add_and_subscribe, list_subscriptions
from headwater.store.readers.unread_counts import count_unread
from headwater.store.store import Store
from headwater.web.pages.sidebar import count_unread_by_path
from support.store_samples import a_verdict, an_item

Start = Callable[..., Awaitable[str]]
NOW = 1_800_000_000.0


async def test_the_keyboard_reads_marks_stars_and_takes_back(
    watched_site: Start, watched_store: Store, browser: Browser
) -> None:
    base = await watched_site()
    owner = await watched_store.read(find_owner)
    before = (await watched_store.read(count_unread, owner.id)).total
    assert before > 60
    page = await (await browser.new_context(viewport={"width": 1280, "height": 800})).new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    await page.goto(base)
    rows = page.locator(".row-item")
    await page.keyboard.press("j")
    await expect(page.locator("article .title")).to_have_text(await rows.nth(0).locator(".t").inner_text())
    await page.keyboard.press("j")
    await expect(rows.nth(1)).to_have_class("row-item is-open")  # opened, and no longer unread
    await page.keyboard.press("s")
    await expect(rows.nth(1).locator(".star")).to_have_text("★")
    await page.keyboard.press("k")
    await expect(rows.nth(0)).to_have_class("row-item is-open")
    await page.keyboard.press("m")
    await expect(rows.nth(0)).to_have_class(re.compile("is-open.*is-unread|is-unread.*is-open"))
    counts = await watched_store.read(count_unread, owner.id)
    assert (counts.total, counts.starred) == (before - 1, 1)

    # Every count in the sidebar is the current number of unread items: feeds, and their folders.
    feeds = [one.feed_id for one in await watched_store.read(list_subscriptions, owner.id) if one.feed_id is not None]
    said = await count_unread_by_path(watched_store, owner.id, feeds)
    assert any(path.startswith("/read/tag/") for path in said)
    for path, number in said.items():
        place = page.locator(f'.side [data-place="{path}"]').first
        await expect(place.locator(".count")).to_contain_text(f"{number:,}")
    assert await page.locator(".side summary[data-place] .count").count() == sum("/tag/" in path for path in said)

    # The list grows at its end, and the address can be opened again.
    await page.locator("a.older").click()
    await expect(rows.nth(60)).to_be_attached()  # a hundred, some of them folded into one
    await page.reload()
    await expect(page.locator("article")).to_be_visible()

    # The panel “why” shows the origin; keys are listed.
    await page.keyboard.press("e")
    await expect(page.locator("details[data-explain]")).to_contain_text("From ")
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_contain_text("next item, previous item")
    await page.keyboard.press("Escape")

    # All are marked read, and it is undone. Opening the address of an unread item has marked it.
    await expect(rows.nth(0)).not_to_have_class(re.compile("is-unread"))
    left = (await watched_store.read(count_unread, owner.id)).total
    assert left == before - 2
    await page.keyboard.press("Shift+A")
    await expect(page.get_by_text("marked as read.")).to_be_visible()
    assert (await watched_store.read(count_unread, owner.id)).total == 0
    await page.get_by_role("button", name="Undo").click()
    await page.wait_for_url(f"{base}/read/all")
    assert (await watched_store.read(count_unread, owner.id)).total == left

    # Search: by words, and in the language.
    await page.keyboard.press("/")
    await page.keyboard.type('TITLE CONTAINS "the"')
    await page.keyboard.press("Enter")
    await expect(page.locator(".list .note:visible")).to_contain_text("As a query this matches")
    await page.locator("#search").fill("TITLE CONTAINS the")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("the query has a mistake")
    await page.locator("#search").blur()
    await page.keyboard.press("g")
    await page.keyboard.press("s")
    await page.wait_for_url(f"{base}/read/starred")
    await expect(rows).to_have_count(1)
    assert errors == []


async def test_new_items_wait_until_they_are_asked_for(
    watched_site: Start, watched_store: Store, browser: Browser
) -> None:
    page = await browser.new_page()
    await page.goto(await watched_site())
    first = await page.locator(".row-item .t").first.inner_text()
    # Everything arrived after the epoch, as if the page had been loaded then.
    await page.evaluate("document.querySelector('.columns').dataset.since = '0'; dispatchEvent(new Event('focus'))")
    await expect(page.locator(".waiting")).to_contain_text("100+ new items")
    assert await page.locator(".row-item .t").first.inner_text() == first


async def test_a_slow_connection_and_the_back_button_do_not_lose_the_place(
    watched_site: Start, watched_store: Store, browser: Browser
) -> None:
    page = await (await browser.new_context(viewport={"width": 1280, "height": 700})).new_page()
    await page.goto(await watched_site())
    rows = page.locator(".row-item")
    await page.locator("a.older").click()
    await expect(rows.nth(60)).to_be_attached()
    loaded = await rows.count()

    # Press three keys while the first article is still loading: the third opens, and the two skipped stay unread.
    gate = asyncio.Event()

    async def slowly(route: Route) -> None:
        if route.request.headers.get("x-part") == "article":
            await gate.wait()
        await route.continue_()

    await page.route("**/read/**", slowly)
    for _ in range(3):
        await page.keyboard.press("j")
    await expect(rows.nth(2)).to_have_class(re.compile("is-open"))
    gate.set()
    await expect(page.locator("article .title")).to_have_text(await rows.nth(2).locator(".t").inner_text())
    await expect(rows.nth(2)).not_to_have_class(re.compile("is-unread"))
    for number in (0, 1):
        await expect(rows.nth(number)).to_have_class(re.compile("is-unread"))
    assert await page.evaluate("document.activeElement.className") == "article"  # the space bar scrolls it

    # One key marks the skipped items as read.
    owner = (await watched_store.read(find_owner)).id
    before = (await watched_store.read(count_unread, owner)).total
    await page.keyboard.press("u")
    await expect(rows.nth(0)).not_to_have_class(re.compile("is-unread"))
    await expect(rows.nth(1)).not_to_have_class(re.compile("is-unread"))
    assert (await watched_store.read(count_unread, owner)).total == before - 2
    undo = page.locator(".undo")
    await expect(undo).to_contain_text("2 items marked as read.")
    await expect(undo).to_be_in_viewport()
    await undo.get_by_role("button").click()
    await expect(undo).to_be_hidden()
    for number in (0, 1):
        await expect(rows.nth(number)).to_have_class(re.compile("is-unread"))
    await expect(rows.nth(2)).to_have_class(re.compile("is-open"))
    assert (await watched_store.read(count_unread, owner)).total == before

    # Go far down the list and back: everything loaded is still there, at the same position.
    await rows.nth(60).locator(".open").click()
    await expect(rows.nth(60)).to_have_class(re.compile("is-open"))
    await expect(page.locator("article .title")).to_have_text(await rows.nth(60).locator(".t").inner_text())
    await page.go_back()
    await expect(rows.nth(2)).to_have_class(re.compile("is-open"))
    await page.go_back()
    await expect(page.locator(".row-item.is-open")).to_have_count(0)
    assert await rows.count() == loaded
    await page.go_forward()
    await page.go_forward()
    await expect(rows.nth(60)).to_have_class(re.compile("is-open"))
    assert await rows.count() == loaded


async def test_what_is_written_from_right_to_left_is_set_so(site: Start, web_store: Store, browser: Browser) -> None:
    feed = (
        await web_store.write(add_and_subscribe, [NewFeed("https://a.example/f", title="צהרון (יומי)")], NOW - 100)
    )[0].feed
    texts = ("انفجار بركاني!", "Lava by night", "x" * 400)
    items = [
        an_item(feed.id, str(n), title=text, content=f"<p>{text}</p>", published=NOW - n, first_seen=NOW - 10)
        for n, text in enumerate(texts)
    ]
    await save_refreshes(web_store, [a_verdict(feed, *items, at=NOW - 10)])
    for width in (1280, 390):
        page = await (await browser.new_context(viewport={"width": width, "height": 800})).new_page()
        await page.goto(await site())
        ways = await page.locator(".row-item .t").evaluate_all("all => all.map(one => getComputedStyle(one).direction)")
        assert ways == ["rtl", "ltr", "ltr"]
        await page.locator(".row-item .open").first.click()
        for part in (".title", ".content"):
            assert await page.locator(f"article {part}").evaluate("it => getComputedStyle(it).direction") == "rtl"
        wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0  # a word of 400 letters is broken
        await page.close()


async def test_without_javascript_everything_can_be_read_marked_and_searched(
    watched_site: Start, watched_store: Store, browser: Browser
) -> None:
    base = await watched_site()
    page = await (await browser.new_context(java_script_enabled=False)).new_page()
    await page.goto(base)
    title = await page.locator(".row-item .t").nth(2).inner_text()
    await page.locator(".row-item .open").nth(2).click()
    assert await page.locator("article .title").inner_text() == title
    assert len(await page.locator("article .content").inner_text()) > 20
    await page.get_by_role("button", name="Mark read").click()
    await expect(page.get_by_role("button", name="Mark unread")).to_have_count(1)
    await page.get_by_role("button", name="☆ Star").click()
    await expect(page.get_by_role("button", name="★ Starred")).to_have_count(1)
    await page.get_by_role("link", name="— older —").click()
    assert await page.locator(".row-item").count() > 0
    await page.get_by_role("link", name="unread", exact=True).click()
    await page.get_by_label("Search, or a query").fill(title)
    await page.keyboard.press("Enter")
    await expect(page.locator(".list h1")).to_have_text(f"“{title}”")
    await expect(page.locator(".row-item .t").first).to_have_text(title)
    await page.goto(f"{base}/read/all")
    await page.get_by_role("button", name="Mark all read").click()
    await page.get_by_role("button", name="Undo").click()
    await page.wait_for_url(f"{base}/read/all")


@pytest.mark.parametrize("width", [1280, 375])
async def test_an_item_is_labelled_by_key_or_finger(watched_site: Start, browser: Browser, width: int) -> None:
    base = await watched_site()
    page = await (await browser.new_context(viewport={"width": width, "height": 800}, has_touch=True)).new_page()
    await page.goto(base)
    await page.locator(".row-item .open").nth(1).tap()
    title = await page.locator("article .title").inner_text()
    if width > 1000:
        await page.keyboard.press("l")
    else:
        await page.get_by_label("New label").tap()
    await page.keyboard.type("to cite")
    await page.keyboard.press("Enter")
    label = page.locator(".labels .tag")
    await expect(label).to_have_text("to cite")
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await label.tap()
    await expect(page.locator(".list h1")).to_have_text("to cite")
    await expect(page.locator(".row-item .t")).to_have_text([title])
    await page.locator(".row-item .open").tap()
    await page.get_by_role("button", name="Remove the label to cite").tap()
    await expect(label).to_have_count(0)
    await expect(page.locator(".label-list details")).to_have_count(0)


async def test_a_phone_shows_one_column_at_a_time(watched_site: Start, browser: Browser) -> None:
    page = await (await browser.new_context(viewport={"width": 375, "height": 700}, has_touch=True)).new_page()
    await page.goto(await watched_site())
    side, article = page.locator(".side"), page.locator("section.article")
    await expect(side).to_be_hidden()
    await expect(article).to_be_hidden()
    await page.locator(".row-item .open").nth(3).tap()
    await expect(article).to_be_visible()
    await expect(page.locator("section.list")).to_be_hidden()
    await page.get_by_role("link", name="Back to the list").tap()
    await expect(page.locator("section.list")).to_be_visible()
    await page.get_by_role("link", name="Feeds and tags").tap()
    await expect(side).to_be_visible()
    bar = await page.locator("nav.places").bounding_box()
    assert bar is not None
    assert bar["y"] > 600  # at the bottom, within reach of the thumb


async def test_the_editor_says_what_is_wrong_as_one_types_and_previews_what_is_right(
    watched_site: Start, watched_store: Store, browser: Browser
) -> None:
    page = await browser.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    await page.goto(f"{await watched_site()}/queries/new")
    text = page.locator("#text")
    await text.focus()
    await page.keyboard.type('CREATE FEED X AS\nRETURN ALL WHERE TITEL CONTAINS "a"')
    await expect(page.locator(".bubble")).to_contain_text("did you mean TITLE?")
    await expect(page.locator("#messages")).to_contain_text("Line 2, column 18")
    await expect(page.locator(".wrong")).to_have_text("TITEL")
    assert (await page.locator(".numbers").inner_text()).split() == ["1", "2"]
    await text.fill('CREATE FEED X AS RETURN ALL WHERE TITLE CONTAINS "the"')
    await expect(page.locator("#preview")).to_contain_text("X matches")
    await expect(page.locator(".bubble")).to_be_hidden()
    await expect(page.locator("#preview mark").first).to_have_text("the", ignore_case=True)

    # The form writes the language, and the gallery has ten examples.
    await page.locator("#b-name").fill("Built")
    await page.locator("#b-any").fill('volcano, say "no"')
    await expect(text).to_have_value(
        'CREATE FEED Built AS\nRETURN ALL\nWHERE ITEM CONTAINS "volcano" OR "say \\"no\\"";', timeout=5000
    )
    await page.locator("#b-keep").fill("many")
    await expect(page.locator("#b-keep + #keep-wrong")).to_contain_text("not a whole number")
    assert await page.locator(".gallery li").count() == 10
    await page.get_by_role("button", name="Save as feed").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Built")
    assert [query.name for query in await watched_store.read(list_all_query_feeds)] == ["Built"]
    assert errors == []


async def test_the_editor_completes_the_titles_of_feeds(
    watched_site: Start, watched_store: Store, browser: Browser
) -> None:
    titles = sorted(one.title for one in await watched_store.read(list_feeds) if one.title)
    page = await browser.new_page()
    await page.goto(f"{await watched_site()}/queries/new")
    text, choices = page.locator("#text"), page.locator(".choices li")
    await text.focus()
    await page.keyboard.type(f'CREATE FEED X AS RETURN FEED "{titles[0][:-1].lower()}')
    await expect(choices.first).to_have_text(titles[0], timeout=20_000)
    await expect(choices.first).to_be_visible()
    await page.keyboard.press("Enter")
    await expect(page.locator(".choices")).to_be_hidden()
    await expect(text).to_have_value(f'CREATE FEED X AS RETURN FEED "{titles[0]}"')
    await expect(page.locator("#preview")).to_contain_text("X matches")


async def test_a_completion_that_arrives_after_the_choice_stays_hidden(
    watched_site: Start, watched_store: Store, browser: Browser
) -> None:
    title = sorted(one.title for one in await watched_store.read(list_feeds) if one.title)[0]
    page = await browser.new_page()
    await page.add_init_script("""
        const read = Response.prototype.json;
        Response.prototype.json = async function () {
          const value = await read.call(this);
          await new Promise((resume) => setTimeout(resume, window.slow || 0));
          if (window.slow) document.documentElement.dataset.late = "yes";
          return value;
        };
    """)
    await page.goto(f"{await watched_site()}/queries/new")
    text, choices = page.locator("#text"), page.locator(".choices")
    await text.focus()
    await page.keyboard.type(f'CREATE FEED X AS RETURN FEED "{title[:-2]}')
    await expect(choices.locator("li").first).to_have_text(title, timeout=20_000)
    await page.evaluate("window.slow = 500")
    async with page.expect_response(lambda answer: answer.request.headers.get("x-part") == "complete"):
        await page.keyboard.type(title[-2])
    await page.keyboard.press("Enter")
    await expect(page.locator("html[data-late]")).to_be_attached()
    await expect(choices).to_be_hidden()
    await expect(text).to_have_value(f'CREATE FEED X AS RETURN FEED "{title}"')


@pytest.mark.parametrize("example", range(10))
async def test_every_example_can_be_opened_and_is_well_written(watched_site: Start, example: int) -> None:
    base = await watched_site()
    async with aiohttp.ClientSession() as session, session.get(f"{base}/queries/new?example={example}") as answer:
        assert answer.status == 200
        assert 'class="said bad"' not in await answer.text()
