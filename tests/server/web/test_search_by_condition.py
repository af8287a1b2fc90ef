"""A search by a condition comes page by page, and a preview step by step, with what a whole run finds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import quote

import pytest
from playwright.async_api import Browser, expect

from headwater.language import parse
from headwater.model import SafeHtml
from headwater.node.queries import preview
from headwater.node.queries.preview import open_run, preview_queries, start_run, stream_previews
from headwater.store.content.feeds import NewFeed
from headwater.store.content.search import index_queued
from headwater.store.content.verdicts import save_refreshes
from headwater.store.readers.accounts import find_owner
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store
from headwater.web.shared import search_box
from headwater.web.shared.search_box import UnfinishedSearches, run_search
from support.store_samples import a_verdict, an_item

NOW = 1_800_000_000.0
ITEMS = 300
COMPARING = 'TITLE SIMILAR TO "Lava" AT 0.3 AND SIZE > 4'  # weighs words by all items


async def fill(store: Store) -> int:
    """Store items of which every third has the word, and half of these in the title; return the owner."""
    (added,) = await store.write(add_and_subscribe, [NewFeed("https://a.example/feed")], NOW)
    items = [
        an_item(
            added.feed.id,
            f"{number}",
            title=f"Lava {number}" if number % 6 == 0 else f"Title {number}",
            content=SafeHtml("lava flows" if number % 3 == 0 else "rain"),
            published=NOW - 1800,
            first_seen=NOW - 1800,
        )
        for number in range(ITEMS)
    ]
    await save_refreshes(store, [a_verdict(added.feed, *items)])
    while await store.write(index_queued):
        pass
    return (await store.read(find_owner)).id


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ('ITEM CONTAINS "lava"', 100),
        ('TITLE CONTAINS "lava"', 50),
        ('NOT ITEM CONTAINS "rain" AND SIZE > 0', 100),  # no index narrows it
        ("SIZE > 100000", 0),
    ],
)
async def test_the_pages_of_a_search_together_have_each_item_once(
    web_store: Store, monkeypatch: pytest.MonkeyPatch, condition: str, count: int
) -> None:
    monkeypatch.setattr(search_box, "MAX_EVALUATED", 64)  # a page ends although it is not full
    owner = await fill(web_store)
    said = f"SIZE >= 0 AND {condition}"
    before: int | None = None
    found: list[int] = []
    shares: list[float] = []
    kept = looked_at = 0
    for _ in range(ITEMS):
        page = await run_search(web_store, owner, said, NOW, before_id=before, limit=20)
        assert page.query is not None
        assert len(page.readings) <= 20
        found += [one.item.id or 0 for one in page.readings]
        kept, looked_at = kept + page.kept, looked_at + page.looked_at
        shares += [page.searched] if page.searched is not None else []
        if (before := page.next_id) is None:
            break
    assert (len(found), kept, looked_at) == (count, count, ITEMS)
    assert found == sorted(set(found), reverse=True)
    assert shares == sorted(shares)
    assert all(0 < share < 1 for share in shares)


async def test_the_steps_of_a_preview_end_with_the_whole(web_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(web_store)
    creates = list(parse('CREATE FEED a AS RETURN ALL WHERE SIZE > 0 AND NOT ITEM CONTAINS "rain";').queries)
    monkeypatch.setattr(preview, "FIRST_STEP", 16)
    steps = [found async for (found,) in stream_previews(web_store, creates, 7, NOW)]
    assert len(steps) > 3
    assert [one.done for one in steps] == sorted(one.done for one in steps)
    assert steps[0].latest == steps[-1].latest[: len(steps[0].latest)]  # the latest items come first
    assert [steps[-1]] == await preview_queries(web_store, creates, 7, NOW)
    assert (steps[-1].kept, steps[-1].looked_at, steps[-1].done) == (100, ITEMS, 1)


async def test_a_preview_divides_by_the_time_that_is_stored(web_store: Store) -> None:
    await fill(web_store)
    creates = list(parse('CREATE FEED a AS RETURN ALL WHERE ITEM CONTAINS "lava";').queries)
    (found,) = await preview_queries(web_store, creates, 7, NOW)
    assert found.stored_days == pytest.approx(1800 / 86_400)
    assert found.per_day == 100  # half an hour is not extrapolated to a day, nor spread over a week
    (later,) = await preview_queries(web_store, creates, 7, NOW + 86_400 * 4 - 1800)
    assert later.per_day == 25


async def test_a_search_that_no_index_narrows_goes_on_in_the_browser(
    site: Callable[..., Awaitable[str]], web_store: Store, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_box, "MAX_EVALUATED", 64)
    await fill(web_store)
    page = await (await browser.new_context()).new_page()
    await page.goto(f"{await site()}/read/search?q={quote('SIZE > 0 AND TITLE MATCHES /^Lava [12]?[0-9]$/')}")
    await expect(page.locator(".row-item")).to_have_count(5)  # 0, 6, 12, 18, 24: the oldest of all
    await expect(page.locator("progress")).to_have_count(0)
    await expect(page.locator(".note:has(.kept)")).to_contain_text(f"matches 5 of {ITEMS} items", use_inner_text=True)
    await page.goto(f"{page.url.split('?')[0]}?q={quote(COMPARING)}")
    await expect(page.locator(".row-item")).to_have_count(50)  # all, when the last item is compared
    await expect(page.locator("progress")).to_have_count(0)
    await page.goto(f"{page.url.split('?')[0]}?q={quote('SIZE > 0 AND TITLE MATCHES /^nowhere$/')}")
    await expect(page.locator(".list .empty")).to_contain_text("Nothing found")
    await expect(page.locator(".note:has(.kept)")).to_contain_text(f"matches 0 of {ITEMS} items", use_inner_text=True)


async def test_a_search_that_compares_items_comes_in_parts_and_finds_the_same(
    web_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, said = await fill(web_store), COMPARING
    whole = await run_search(web_store, owner, said, NOW, before_id=None, limit=20)
    monkeypatch.setattr(search_box, "MAX_EVALUATED", 64)
    unfinished, parts = UnfinishedSearches(), [search_box.SearchResult((), next_id=None)]
    while len(parts) == 1 or parts[-1].next_id == search_box.GO_ON:
        before = parts[-1].next_id
        parts.append(await run_search(web_store, owner, said, NOW, before_id=before, limit=20, unfinished=unfinished))
    shares = [part.searched or 0.0 for part in parts[1:-1]]
    assert len(shares) >= 2
    assert shares == sorted(shares)
    assert all(0 < share < 1 and not part.readings for share, part in zip(shares, parts[1:], strict=False))
    assert parts[-1] == whole
    assert whole.kept == 50
    other = await run_search(web_store, owner, said, NOW, before_id=search_box.GO_ON, limit=20, unfinished=unfinished)
    assert other.searched == shares[0]  # a run that is not kept any more begins again


@pytest.mark.parametrize(
    ("condition", "reads"),
    [('ITEM CONTAINS "lava"', 0), ('RETURN FEED "Lava news" WHERE ITEM CONTAINS "lava"', 1), ("SOURCE = nobody", 1)],
)
async def test_a_search_reads_the_names_of_feeds_only_if_it_names_one(
    web_store: Store, monkeypatch: pytest.MonkeyPatch, condition: str, reads: int
) -> None:
    user, load, read = await fill(web_store), search_box.load_catalogue, []
    monkeypatch.setattr(search_box, "load_catalogue", lambda *given: read.append(given) or load(*given))
    found = await run_search(web_store, user, condition, NOW, before_id=None, limit=10)
    assert len(read) == reads
    assert (found.problem is None) is (reads == 0)


async def test_a_search_in_titles_evaluates_no_items_that_have_the_word_elsewhere(web_store: Store) -> None:
    await fill(web_store)
    (create,) = parse('CREATE FEED a AS RETURN ALL WHERE TITLE CONTAINS "lava" OR TITLE = "Title 1"').queries
    run = await start_run(web_store, [create], NOW - 86_400)
    while run.done < 1:
        await run.step(web_store)
    assert run.evaluated == len(run.list_found("a")) == 51


async def test_a_search_evaluates_about_as_many_items_as_its_page_needs(web_store: Store) -> None:
    await fill(web_store)
    (create,) = parse(
        'CREATE FEED a AS RETURN ALL WHERE ITEM CONTAINS "lava" AND NOT TITLE CONTAINS "lava 294"'
    ).queries
    run = await web_store.read(open_run, [create], NOW - 86_400, enough=30)
    evaluated = []
    while run.count_found("a") < 30:
        await run.step(web_store)
        evaluated.append(run.evaluated)
    assert evaluated == [30, 46]  # of the first 30, one has that title
    assert 0.3 < run.done < 0.6  # 46 of 100 items with the word


async def test_a_search_loads_the_names_of_the_feeds_that_it_finds_only(
    web_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = await fill(web_store)
    await web_store.write(add_and_subscribe, [NewFeed(f"https://{number}.example/") for number in range(9)], NOW)
    load, loaded = preview.load_item_origins, []
    monkeypatch.setattr(preview, "load_item_origins", lambda *given: loaded.append(given[1]) or load(*given))
    found = await run_search(web_store, owner, 'ITEM CONTAINS "lava"', NOW, before_id=None, limit=10)
    assert len(found.readings) == 10
    assert [len(feeds) for feeds in loaded] == [1]
