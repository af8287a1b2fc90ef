"""Items are listed newest first, in pages, and found by search."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.errors import InputError, NotFound
from headwater.store.content import search as searching
from headwater.store.content.feeds import NewFeed
from headwater.store.content.items import count_items, find_item, list_items
from headwater.store.content.search import index_queued, search_items
from headwater.store.content.verdicts import save_refreshes
from headwater.store.opening import open_store
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store
from support.store_samples import NOW, a_verdict, an_item, one_feed


async def test_items_are_listed_newest_first_and_paged_without_gaps_or_repeats(store: Store) -> None:
    feed = await one_feed(store)
    items = [an_item(feed.id, f"{k}", published=NOW + k % 7) for k in range(50)]
    await save_refreshes(store, [a_verdict(feed, *items)])
    pages, after = [], None
    while page := await store.read(list_items, after=after, limit=8):
        pages.append(page)
        after = (page[-1].published, page[-1].id or 0)
    listed = [item for page in pages for item in page]
    assert len(listed) == 50
    assert listed == sorted(listed, key=lambda item: (item.published, item.id), reverse=True)
    assert len({item.id for item in listed}) == 50


async def test_lists_are_narrowed_by_feed_tag_and_time(store: Store) -> None:
    (a, b) = (
        one.feed
        for one in await store.write(
            add_and_subscribe, [NewFeed("https://a.org/", tags=("x",)), NewFeed("https://b.org/")], NOW
        )
    )
    await save_refreshes(
        store,
        [a_verdict(f, *(an_item(f.id, f"{k}", published=NOW + k) for k in range(4))) for f in (a, b)],
    )
    assert {item.feed_id for item in await store.read(list_items, feed_id=b.id)} == {b.id}
    assert {item.feed_id for item in await store.read(list_items, tag="x")} == {a.id}
    assert [item.published for item in await store.read(list_items, feed_id=a.id, since=NOW + 1, before=NOW + 3)] == [
        NOW + 2,
        NOW + 1,
    ]
    assert await store.read(count_items) == 8
    assert await store.read(count_items, a.id) == 4
    with pytest.raises(NotFound):
        await store.read(find_item, 12345)


TEXTS = {
    "snow": "<p>Snow falls on the South Pole</p>",
    "accents": "L’été à Reykjavík, naïve façade",
    "cjk": "東京タワーに行く",
    "code": "c++ and foo_bar, http://example.org/path?x=1 'quoted' \"double\"",
    "thai": "ฉันกินข้าว",
    "entities": "fish &amp; chips &eacute;tude",
    "numbers": "3.14 -5 1e10 2024-01-01",
}


@pytest.fixture
async def library(store: Store) -> Store:
    feed = await one_feed(store)
    await save_refreshes(
        store, [a_verdict(feed, *(an_item(feed.id, k, title=None, content=v) for k, v in TEXTS.items()))]
    )
    return store


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("snow", {"snow"}),
        ("SNOW pole", {"snow"}),
        ('"south pole"', {"snow"}),
        ('"pole south"', set()),
        ('"south pole', {"snow"}),
        ("ete facade", {"accents"}),
        ("REYKJAVIK", {"accents"}),
        ("reyk*", {"accents"}),
        ("reyk", set()),
        ("東京", {"cjk"}),
        ("京東", set()),
        ("foo_bar", {"code"}),
        ("c++", {"code"}),
        ("c#", set()),
        ("and -c#", {"code"}),
        ("and -c++", set()),
        ("กิน", {"thai"}),
        ("กัน", set()),
        ("example.org/path", {"code"}),
        ("etude", {"entities"}),
        ("amp", set()),
        ("3.14", {"numbers"}),
        ("2024-01-01", {"numbers"}),
        ("and -quoted", set()),
        ("a* -snow", {"accents", "code"}),
        ("p", set()),  # markup is not searched
        ("", set()),
        ("?!…", set()),
        ("snow AND NOT OR NEAR(", set()),
        ("' OR 1=1; --", set()),
        ("col:snow", set()),
        ("^snow", {"snow"}),
        ("x" * 5000, set()),
        ("\x00 snow \ud800", {"snow"}),
    ],
)
async def test_searching_finds_the_same_on_both_databases(library: Store, said: str, found: set[str]) -> None:
    assert {item.identity for item in (await search_items(library, said)).items} == found


async def test_only_unwanted_words_are_no_search(library: Store) -> None:
    with pytest.raises(InputError, match="at least one word"):
        await search_items(library, "-snow")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.text(max_size=60) | st.text(alphabet="\"'*()-:^&|!<>\\ ab", max_size=40))
async def test_no_text_is_an_error_of_syntax(library: Store, said: str) -> None:
    with suppress(InputError):  # only unwanted words
        await search_items(library, said)


async def test_search_is_narrowed_and_paged_latest_arrival_first(store: Store) -> None:
    a, b = await one_feed(store, tags=("x",)), await one_feed(store, "https://b.org/")
    await save_refreshes(store, [a_verdict(f, *(an_item(f.id, f"{k}") for k in range(5))) for f in (a, b)])
    first = await search_items(store, "title", limit=4)
    assert first.more
    second = await search_items(store, "title", limit=100, before_id=first.items[-1].id)
    assert not second.more
    ids = [item.id or 0 for item in (*first.items, *second.items)]
    assert ids == sorted(ids, reverse=True)
    assert len(ids) == 10
    assert {item.feed_id for item in (await search_items(store, "title", feed_id=a.id)).items} == {a.id}
    assert {item.feed_id for item in (await search_items(store, "title", tag="x")).items} == {a.id}


async def test_a_search_says_how_many_items_it_has_not_looked_at(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = await one_feed(store)
    await save_refreshes(store, [a_verdict(feed, *(an_item(feed.id, f"{k}") for k in range(30)))])
    monkeypatch.setattr("headwater.store.content.search.CATCH_UP", 0)
    assert (await search_items(store, "title")).waiting == 30
    assert await store.write(index_queued, limit=10) == 10
    found = await search_items(store, "title")
    assert (len(found.items), found.waiting) == (10, 20)


async def test_an_index_made_another_way_is_made_anew(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with await open_store(database_url) as store:
        feed = await one_feed(store)
        await save_refreshes(store, [a_verdict(feed, an_item(feed.id, content="winter"))])
        assert len((await search_items(store, "winter")).items) == 1
    monkeypatch.setattr(searching, "index_fingerprint", lambda: "another")
    monkeypatch.setattr(searching, "list_index_words", lambda *_: "summer")
    async with await open_store(database_url) as store:
        assert (await search_items(store, "winter")).items == ()
        assert len((await search_items(store, "summer")).items) == 1


async def test_a_giant_item_is_stored_and_searchable(store: Store) -> None:
    feed = await one_feed(store)
    many = " ".join(f"word{k}" for k in range(100_000))
    long = "x" * 500_000
    (saved,) = await save_refreshes(
        store, [a_verdict(feed, an_item(feed.id, "many", content=many), an_item(feed.id, "long", content=long))]
    )
    assert saved.skipped is None
    assert {item.identity for item in (await search_items(store, "word7")).items} == {"many"}
    assert {item.identity for item in (await search_items(store, "long")).items} == {"long"}
