"""A feed, a subscription, a query feed, a token and a person are removed and restored in a real browser."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import Browser, Page, expect
from test_pages_look import Watched, violations

from headwater.credentials import hash_secret
from headwater.store.content.items import count_items
from headwater.store.queries.query_feeds import find_query_feed
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.accounts import add_api_token, add_user, find_owner, find_token_user, list_users
from headwater.store.readers.subscriptions import find_subscription
from headwater.store.store import Store

Start = Callable[..., Awaitable[str]]
NOW = 1_800_000_000.0


async def prepared(store: Store) -> None:
    owner = await store.read(find_owner)
    await store.write(add_user, "rita", None, NOW)
    await store.write(add_api_token, owner.id, hash_secret("secret"), "phone", ["read"], NOW)
    await store.write(run_script, 'CREATE FEED Volcanoes AS RETURN ALL WHERE ITEM CONTAINS "volcano"', NOW)


async def by_keyboard(page: Page, name: str) -> None:
    """Reach a button by the tab key alone, and press it."""
    for _ in range(40):
        await page.keyboard.press("Tab")
        if await page.evaluate("document.activeElement.textContent.trim()") == name:
            break
    else:
        raise AssertionError(f"{name} cannot be reached by the keyboard")
    await page.keyboard.press("Enter")


@pytest.mark.parametrize(("width", "scripts"), [(1280, True), (375, False)], ids=["desktop", "phone without scripts"])
async def test_what_is_removed_on_a_page_is_brought_back_from_the_page_that_follows(
    watched_site: Start, watched_store: Store, browser: Browser, width: int, scripts: bool
) -> None:
    await prepared(watched_store)
    base = await watched_site()
    context = await browser.new_context(viewport={"width": width, "height": 900}, java_script_enabled=scripts)
    watched = Watched(await context.new_page(), base)
    page, items = watched.page, await watched_store.read(count_items, 3)
    note = page.get_by_role("status").filter(has=page.get_by_role("button", name="Undo"))

    async def undone(removed: str, back: str) -> None:
        await expect(note).to_contain_text(removed)
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        if scripts:
            assert await violations(page, resultTypes=["violations"]) == []
            await by_keyboard(page, "Undo")
        else:
            await note.get_by_role("button", name="Undo").click()
        await expect(page.get_by_role("status").first).to_contain_text(back)

    await page.goto(f"{base}/feed/3")
    await page.get_by_role("button", name="Remove", exact=True).click()
    await undone("Feed removed", "Feed restored")
    assert await watched_store.read(count_items, 3) == items > 0

    await page.goto(f"{base}/feed/3")
    await page.get_by_role("button", name="Unsubscribe").click()
    await undone("Unsubscribed", "Subscription restored")
    owner = await watched_store.read(find_owner)
    assert await watched_store.read(find_subscription, owner.id, feed_id=3) is not None

    await page.goto(f"{base}/queries/Volcanoes")
    await page.get_by_role("button", name="Remove query feed").click()
    await undone("Query feed removed", "Query feed restored")
    assert (await watched_store.read(find_query_feed, "volcanoes")).name == "Volcanoes"

    await page.goto(f"{base}/settings")
    await page.get_by_role("button", name="Revoke").click()
    await expect(note).to_contain_text("Token revoked")
    assert await watched_store.read(find_token_user, hash_secret("secret")) is None
    await undone("Token revoked", "Token restored")
    assert await watched_store.read(find_token_user, hash_secret("secret")) is not None

    await page.goto(f"{base}/settings")
    await page.get_by_role("button", name="Remove", exact=True).click()
    await expect(note).to_contain_text("Account removed")
    assert [user.name for user in await watched_store.read(list_users)] == [owner.name]
    await undone("Account removed", "Account restored")
    assert [user.name for user in await watched_store.read(list_users)] == [owner.name, "rita"]
    assert watched.complaints == []
    assert watched.foreign == []


async def test_what_was_removed_stands_in_the_settings_until_it_is_back(
    watched_site: Start, watched_store: Store, browser: Browser
) -> None:
    base = await watched_site()
    watched = Watched(await browser.new_page(), base)
    page = watched.page
    await page.goto(f"{base}/feed/3")
    await page.get_by_role("button", name="Remove", exact=True).click()
    following = page.url
    await page.set_viewport_size({"width": 375, "height": 700})
    rules = {"type": "rule", "values": ["target-size", "color-contrast"]}
    assert await violations(page, resultTypes=["violations"], runOnly=rules) == []
    await page.goto(f"{base}/settings")
    title = await page.locator("#removed ~ table td").first.inner_text()
    await page.get_by_role("button", name=f"Restore {title}").click()
    await expect(page.locator("h1")).to_have_text(title)
    await page.goto(f"{base}/settings")
    await expect(page.locator("#removed")).to_have_count(0)
    await page.goto(f"{base}/read/all")
    await page.get_by_role("button", name="Mark all read").click()
    await expect(page.get_by_role("button", name="Undo")).to_be_visible()
    assert await violations(page, resultTypes=["violations"]) == []
    await page.goto(following)  # the page that still offers Undo
    await page.get_by_role("button", name="Undo").click()
    await expect(page.locator("main")).to_contain_text("can be restored: objects are kept for a day")
