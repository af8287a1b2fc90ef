"""Feeds are published over real HTTP: addresses, conditional requests, encodings, deltas, archive pages, errors."""

from __future__ import annotations

import asyncio
import gzip

import feedparser
import pytest
from publish_server import BASE
from validity import problems

from headwater.formats import read
from headwater.formats.opml import read_opml
from headwater.publish import document_cache
from headwater.store.content.feeds import list_feeds
from headwater.store.content.verdicts import save_refreshes
from headwater.store.publishing.private_feeds import read_publication_version, set_private
from headwater.store.queries.query_scripts import run_script
from headwater.store.store import Store
from support.store_samples import NOW, a_verdict, an_item, intercept_reads, one_feed

CHANGED = document_cache.CHECK_SECONDS + 0.05  # seconds until a change is visible


async def filled(store: Store, count: int = 3) -> object:
    feed = await one_feed(store, tags=("news",))
    items = [an_item(feed.id, f"https://example.org/{n}", first_seen=NOW + n) for n in range(count)]
    await save_refreshes(store, [a_verdict(feed, *items)])
    return feed


@pytest.mark.parametrize(
    ("suffix", "type"),
    [("rss", "application/rss+xml"), ("atom", "application/atom+xml"), ("json", "application/feed+json")],
)
async def test_a_tag_is_a_feed_in_three_formats(store: Store, ask, suffix: str, type: str) -> None:
    await filled(store)
    answer = await ask(f"/tags/news.{suffix}")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == f"{type}; charset=utf-8"
    document = read(answer.content)
    assert {item.id for item in document.items} == {f"https://example.org/{n}" for n in range(3)}
    assert document.self == f"{BASE}/tags/news.{suffix}"
    assert f'<{BASE}/tags/news.{suffix}>; rel="self"' in answer.headers["link"]
    assert all(item.source and item.source.url == "https://example.org/feed" for item in document.items)
    if suffix != "json":
        assert not feedparser.parse(answer.content).bozo


async def test_the_html_page_escapes_publishers_texts(store: Store, ask) -> None:
    feed = await one_feed(store, tags=("a&b <i>",))
    await save_refreshes(
        store, [a_verdict(feed, an_item(feed.id, title="<script>x</script>", link="javascript:alert(1)"))]
    )
    answer = await ask("/tags/a%26b%20%3Ci%3E.html")
    assert answer.status_code == 200
    assert "<script" not in answer.text
    assert "&lt;script&gt;" in answer.text
    assert 'href="javascript' not in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


async def test_subscription_lists_are_opml(store: Store, ask) -> None:
    await filled(store)
    await one_feed(store, "https://other.example/feed", tags=("else",))
    everything = await ask("/feeds.opml")
    assert len(read_opml(everything.content).feeds) == 2
    assert problems(everything.content, "opml") == []
    (only,) = read_opml((await ask("/tags/news.opml")).content).feeds
    assert only.url == "https://example.org/feed"


async def test_an_empty_list_is_valid(ask) -> None:
    assert problems((await ask("/feeds.opml")).content, "opml") == []


@pytest.mark.parametrize("suffix", ["rss", "atom", "json"])
async def test_a_feed_without_items_is_valid_and_as_old_as_its_query(store: Store, ask, suffix: str) -> None:
    await store.write(run_script, "CREATE FEED empty AS RETURN ALL", NOW)
    answer = await ask(f"/feeds/empty.{suffix}")
    assert problems(answer.content, suffix) == []
    if suffix != "json":
        assert read(answer.content).updated == NOW


@pytest.mark.parametrize("form", ["{}", "W/{}", '"other", {}', '"a",W/{} , "b"', "*"])
async def test_who_has_it_already_is_told_so(store: Store, ask, form: str) -> None:
    await filled(store)
    first = await ask("/tags/news.rss")
    etag = first.headers["etag"]
    assert not etag.startswith("W/")
    again = await ask("/tags/news.rss", {"If-None-Match": form.format(etag)})
    assert again.status_code == 304
    assert again.content == b""
    for name in ("etag", "cache-control", "vary"):
        assert again.headers[name] == first.headers[name]
    assert "content-type" not in again.headers


async def test_a_date_counts_only_without_an_etag(store: Store, ask) -> None:
    await filled(store)
    modified = (await ask("/tags/news.rss")).headers["last-modified"]
    assert (await ask("/tags/news.rss", {"If-Modified-Since": modified})).status_code == 304
    both = {"If-Modified-Since": modified, "If-None-Match": '"another"'}
    assert (await ask("/tags/news.rss", both)).status_code == 200


async def test_each_encoding_has_its_own_etag_and_both_are_recognised(store: Store, ask) -> None:
    await filled(store)
    plain = await ask("/tags/news.rss")
    zipped = await ask("/tags/news.rss", {"Accept-Encoding": "br;q=1.0, gzip;q=0.8"})
    assert zipped.headers["content-encoding"] == "gzip"
    assert zipped.content == plain.content  # the client has unpacked it
    assert int(zipped.headers["content-length"]) < len(plain.content)
    assert zipped.headers["etag"] != plain.headers["etag"]
    for headers in ({}, {"Accept-Encoding": "gzip"}):
        for etag in (plain.headers["etag"], zipped.headers["etag"]):
            assert (await ask("/tags/news.rss", {"If-None-Match": etag, **headers})).status_code == 304
    for refused in ("gzip;q=0", "gzip;q=0.0, *;q=0.5", "identity"):
        assert "content-encoding" not in (await ask("/tags/news.rss", {"Accept-Encoding": refused})).headers


async def test_head_has_the_headers_of_get(store: Store, ask) -> None:
    await filled(store)
    got, head = await ask("/tags/news.atom"), await ask("/tags/news.atom", method="HEAD")
    assert head.content == b""
    assert {k: v for k, v in head.headers.items() if k != "date"} == {
        k: v for k, v in got.headers.items() if k != "date"
    }


async def test_a_new_item_changes_the_document_and_its_tags_even_within_one_second(store: Store, ask) -> None:
    feed = await filled(store)
    first = await ask("/tags/news.rss")
    new = an_item(feed.id, "https://example.org/new", first_seen=NOW + 2)
    await save_refreshes(store, [a_verdict(feed, new, at=NOW + 60)])
    await asyncio.sleep(CHANGED)
    headers = {"If-None-Match": first.headers["etag"], "If-Modified-Since": first.headers["last-modified"]}
    again = await ask("/tags/news.rss", headers)
    assert again.status_code == 200
    assert len(read(again.content).items) == 4
    assert again.headers["last-modified"] != first.headers["last-modified"]


async def test_a_delta_contains_only_new_entries_and_only_on_request(store: Store, ask) -> None:
    feed = await filled(store)
    etag = (await ask("/tags/news.rss", {"Accept-Encoding": "gzip"})).headers["etag"]
    await save_refreshes(store, [a_verdict(feed, an_item(feed.id, "https://example.org/new"), at=NOW + 60)])
    await asyncio.sleep(CHANGED)
    part = await ask("/tags/news.rss", {"If-None-Match": etag, "A-IM": "feed, gzip"})
    assert (part.status_code, part.headers["im"]) == (226, "feed")
    assert [item.id for item in read(part.content).items] == ["https://example.org/new"]
    whole = await ask("/tags/news.rss", {"If-None-Match": etag})
    assert (whole.status_code, len(read(whole.content).items)) == (200, 4)
    assert whole.headers["etag"] == part.headers["etag"]
    assert (await ask("/tags/news.rss", {"A-IM": "feed"})).status_code == 200
    assert (await ask("/tags/news.rss", {"A-IM": "feed", "If-None-Match": '"unknown"'})).status_code == 200
    assert (await ask("/tags/news.rss", {"A-IM": "feed", "If-None-Match": whole.headers["etag"]})).status_code == 304


async def test_archive_pages_contain_every_past_item_once(store: Store, ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_cache, "PAGE_ITEMS", 5)
    await filled(store, 73)
    address, seen = "/tags/news.atom", []
    head = read((await ask(address)).content)
    seen += [item.id for item in head.items]
    page, past = head.next, []
    while page:
        answer = await ask(page.removeprefix(BASE))
        assert "max-age=86400" in answer.headers["cache-control"]
        document = read(answer.content)
        past = [item.id for item in document.items] + past
        page = document.next
    assert past == [f"https://example.org/{n}" for n in range(70)]  # the document shows the others
    assert set(past) | set(seen) == {f"https://example.org/{n}" for n in range(73)}
    before = (await ask("/tags/news.atom?page=3")).headers["etag"]
    (feed,) = await store.read(list_feeds)
    await save_refreshes(
        store, [a_verdict(feed, an_item(feed.id, "https://example.org/new", first_seen=NOW + 99), at=NOW + 60)]
    )
    await asyncio.sleep(CHANGED)
    assert (await ask("/tags/news.atom?page=3", {"If-None-Match": before})).status_code == 304


@pytest.mark.parametrize(
    "path",
    ["/tags/unknown.rss", "/feeds/unknown.rss", "/tags/.rss", "/tags/news.rss?page=0", "/tags/news.rss?page=99",
     "/tags/news.rss?page=-1", "/tags/news.rss?page=" + "9" * 50, "/tags/../../etc/passwd.rss", "/tags/unknown.opml",
     "/tags/%00.rss", "/tags/" + "x" * 3000 + ".json"],
)  # fmt: skip
async def test_an_unknown_path_is_404(store: Store, ask, path: str) -> None:
    await filled(store)
    answer = await ask(path)
    assert answer.status_code == 404
    assert answer.text.strip()


async def test_a_feed_refuses_other_methods(store: Store, ask) -> None:
    answer = await ask("/tags/news.rss", method="POST")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


async def test_an_item_that_arrived_in_two_ways_is_shown_once(store: Store, ask) -> None:
    for n in (1, 2):
        feed = await one_feed(store, f"https://{n}.example/feed", tags=("news",))
        await save_refreshes(store, [a_verdict(feed, an_item(feed.id, "tag:a.example,2026:1"), an_item(feed.id, "7"))])
    items = read((await ask("/tags/news.json")).content).items
    assert sorted(item.id.partition(":")[0] for item in items) == ["tag", "urn", "urn"]  # “7” means nothing elsewhere


async def test_many_concurrent_readers_cause_one_read(store: Store, ask, monkeypatch: pytest.MonkeyPatch) -> None:
    await filled(store)
    rendered = 0
    original = document_cache.render_document

    def counting(document):  # type: ignore[no-untyped-def]
        nonlocal rendered
        rendered += 1
        return original(document)

    monkeypatch.setattr(document_cache, "render_document", counting)
    answers = await asyncio.gather(*(ask("/tags/news.rss") for _ in range(50)))
    assert {answer.status_code for answer in answers} == {200}
    assert rendered == 1


async def test_the_zipped_bytes_are_the_same_each_time(store: Store) -> None:
    await filled(store)
    one, two = document_cache.DocumentCache(store, BASE), document_cache.DocumentCache(store, BASE)
    first, second = (
        await one.load_document(("/tags/news", "rss", None, None)),
        await two.load_document(("/tags/news", "rss", None, None)),
    )
    assert first is not None
    assert second is not None
    assert (first.zipped, first.etag) == (second.zipped, second.etag)
    assert gzip.decompress(first.zipped) == first.body


async def test_a_change_during_a_check_is_seen_by_the_next_request(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = await one_feed(store, tags=("news",))
    await save_refreshes(store, [a_verdict(feed, an_item(feed.id, "https://example.org/old"))])
    await store.write(set_private, "/tags/news", False)
    documents = document_cache.DocumentCache(store, BASE)
    assert await documents.find_document("/tags/news", "json", None, None) is not None
    documents.expire()
    read, read_it, may_tell = store.read, asyncio.Event(), asyncio.Event()

    async def held() -> object:
        seen = await read(read_publication_version)
        read_it.set()
        await may_tell.wait()
        return seen

    intercept_reads(monkeypatch, store, read_publication_version, held)
    looking = asyncio.create_task(documents.refresh_version())
    await read_it.wait()
    await save_refreshes(
        store, [a_verdict(feed, an_item(feed.id, "https://example.org/new", first_seen=NOW + 1), at=NOW + 1)]
    )
    documents.expire()
    may_tell.set()
    found = await documents.find_document("/tags/news", "json", None, None)
    await looking
    assert found is not None
    assert b"https://example.org/new" in found.body
