"""Real documents, stored, selected by query feeds and published again, are valid by three independent judges.

The rules of `validity`, the grammar of RFC 4287 (`atom.rng`) and feedparser check each document and archive page.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import feedparser
import pytest
from lxml import etree
from msgspec.structs import replace
from test_real_items import real_items
from validity import problems

from headwater.formats import read
from headwater.node.queries.processor import QueryProcessor
from headwater.publish.document_cache import DocumentCache
from headwater.publish.published_documents import parse_document_path
from headwater.store.content.feeds import NewFeed
from headwater.store.content.verdicts import save_refreshes
from headwater.store.publishing.private_feeds import set_private
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store
from support.store_samples import a_verdict

BASE = "https://our.example"
NOW = 1_800_000_000.0
EVERY = 40  # takes every fortieth document; the soak takes all
ATOM = etree.RelaxNG(etree.parse(Path(__file__).with_name("atom.rng")))


async def publish_documents(store: Store, shared_data: Path, every: int) -> list[str]:
    """Store the items of real documents and a query feed for each of them; return the names of the query feeds."""
    imported = real_items(shared_data)[::every]
    new = [NewFeed(feed.url, title=feed.title) for feed, _ in imported]
    added = [one.feed for one in await store.write(add_and_subscribe, new, NOW - 50)]
    names = [f"q{number}" for number in range(len(added))]
    script = ";\n".join(f'CREATE FEED {name} AS RETURN "{feed.url}"' for name, feed in zip(names, added, strict=True))
    await store.write(run_script, script, NOW)
    processor = QueryProcessor(store, clock=lambda: NOW)
    await processor.load()
    for feed, (_, items) in zip(added, imported, strict=True):
        await save_refreshes(store, [a_verdict(feed, *(replace(one, feed_id=feed.id) for one in items), at=NOW)])
    while await processor.step():
        pass
    for name in names:
        await store.write(set_private, f"/feeds/{name}", False)
    return names


async def follow_pages(documents: DocumentCache, name: str, format: str) -> AsyncIterator[bytes]:
    """Return a query feed's document and its archive pages."""
    address: str | None = f"{BASE}/feeds/{name}.{format}"
    while address is not None:
        path, _, query = address.removeprefix(BASE).partition("?")
        key = parse_document_path(path, query)
        assert isinstance(key, tuple)
        found = await documents.find_document(*key)
        assert found is not None, address
        yield found.body
        address = read(found.body).next


def judge_document(body: bytes, format: str) -> list[str]:
    """Return the errors of a document, in words."""
    found = problems(body, format)
    if format == "atom" and not ATOM.validate(etree.fromstring(body)):
        found += [str(error) for error in ATOM.error_log][:3]
    if format != "json":
        parsed = feedparser.parse(body)
        found += [f"feedparser: {parsed.get('bozo_exception')}"] if parsed.bozo else []
        found += [] if len(parsed.entries) == len(read(body).items) else ["feedparser finds another number of items"]
    return found


async def check_documents(store: Store, shared_data: Path, every: int) -> int:
    """Judge all documents; return how many there are."""
    names = await publish_documents(store, shared_data, every)
    documents = DocumentCache(store, BASE, clock=lambda: NOW, hub=(f"{BASE}/hub",))
    count = 0
    for name in names:
        for format in ("rss", "atom", "json"):
            async for body in follow_pages(documents, name, format):
                count += 1
                assert judge_document(body, format) == [], (name, format)
    return count


async def test_republished_documents_are_valid(store: Store, shared_data: Path) -> None:
    assert await check_documents(store, shared_data, EVERY) >= 3 * 300 // EVERY


@pytest.mark.soak
@pytest.mark.timeout(0)
async def test_900_republished_documents_are_valid(store: Store, shared_data: Path) -> None:
    assert await check_documents(store, shared_data, 1) >= 900


@pytest.mark.parametrize(
    ("right", "wrong"),
    [(b"<updated>", b"<updatedd>"), (b"<id>", b"<id>a</id><id>"), (b'rel="self" href', b'rel="self" hrf')],
)
def test_the_grammar_refuses_what_is_not_atom(right: bytes, wrong: bytes) -> None:
    body = (
        b'<feed xmlns="http://www.w3.org/2005/Atom"><id>urn:x:1</id><title>t</title><updated>2026-11-15T00:00:00Z</updated>'
        b'<author><name>a</name></author><link rel="self" href="https://e.org/f"/></feed>'
    )
    assert ATOM.validate(etree.fromstring(body))
    broken = body.replace(right, wrong, 1).replace(
        b"</updated>", b"</updatedd>" if b"updatedd" in wrong else b"</updated>"
    )
    assert not ATOM.validate(etree.fromstring(broken))
