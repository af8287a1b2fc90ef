"""Ordinary documents are read at once, others in a worker process that can be killed."""

from __future__ import annotations

import asyncio
import os
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
from misbehaviour import misbehave
from raw_server import RSS, RawServer, feed

from headwater.errors import NotAFeed
from headwater.fetch.client import Fetcher
from headwater.fetch.reading.document_reader import LARGE, DocumentReader, _CleanedItems, is_heavy
from headwater.formats import read
from headwater.model import Document, Ending, Entry, Markup
from headwater.novelty.item_identity import clean_entry

PADDING = b"<!--" + b"x" * LARGE + b"-->"  # makes any document large, which sends it to a worker


@pytest.fixture
async def reader() -> AsyncIterator[DocumentReader]:
    reader = DocumentReader(misbehave, cpu_seconds=1, wall_seconds=5)
    yield reader
    await reader.close()


async def test_an_ordinary_document_is_read_here_and_a_large_one_elsewhere():
    reader = DocumentReader(misbehave, cpu_seconds=10, wall_seconds=60)  # long enough for a busy machine
    assert (await reader.read(b"small", "http://example.org/", {})).format == str(os.getpid())
    first = await reader.read(PADDING, "http://example.org/", {})
    assert first.format != str(os.getpid())
    assert await reader.read(PADDING, "http://example.org/", {}) == first, "the worker is used again"
    await reader.close()


@pytest.mark.parametrize("deed", [b"spin", b"sleep", b"gorge", b"crash"])
async def test_a_document_that_exceeds_a_limit_costs_its_worker_and_nobody_else(reader: DocumentReader, deed: bytes):
    hostile = asyncio.create_task(reader.read(deed + PADDING, "http://example.org/", {}))
    await asyncio.sleep(0)
    assert (await reader.read(PADDING, "http://example.org/", {})).format.isdigit()
    with pytest.raises(NotAFeed) as caught:
        await hostile
    assert caught.value.what == "hostile"
    assert (await reader.read(PADDING, "http://example.org/", {})).format.isdigit()


async def test_a_bug_of_the_reader_is_a_document_that_could_not_be_read(reader: DocumentReader):
    for body in (b"raise", b"raise" + PADDING):
        with pytest.raises(NotAFeed, match="RecursionError"):
            await reader.read(body, "http://example.org/", {})


async def test_what_a_library_prints_does_not_get_among_the_answers(reader: DocumentReader):
    assert (await reader.read(b"print" + PADDING, "http://example.org/", {})).format.isdigit()


async def test_no_secret_of_the_environment_reaches_a_worker(reader: DocumentReader, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HEADWATER_SECRET", "token")
    assert (await reader.read(b"secret" + PADDING, "http://example.org/", {})).format == "none"


async def test_closing_ends_the_workers():
    reader = DocumentReader(misbehave)
    worker = int((await reader.read(PADDING, "http://example.org/", {})).format)
    await reader.close()
    assert not psutil.pid_exists(worker)


async def test_a_worker_understands_a_document_exactly_as_we_do():
    reader = DocumentReader(read)
    body = RSS.replace(b"</channel>", PADDING + b"</channel>")
    headers = {"Content-Type": "application/rss+xml; charset=utf-8"}
    try:
        assert await reader.read(body, "http://example.org/", headers) == read(body, "http://example.org/", headers)
        with pytest.raises(NotAFeed) as caught:
            await reader.read(b"<!doctype html><html>" + PADDING, "http://example.org/", {})
        assert caught.value.what == "html"
    finally:
        await reader.close()


async def test_a_document_in_utf_16_is_read_whole(server: RawServer):
    server.routes["/feed"] = feed(body=RSS.decode().replace("utf-8", "utf-16").encode("utf-16"))
    async with Fetcher(allow_private=True, contact=None) as fetcher:
        outcome = await fetcher.fetch(server.url("/feed"))
    assert outcome.ending is Ending.CHANGED
    assert outcome.document is not None
    assert outcome.document.items[0].title == "One"


async def test_a_damaged_document_is_read_and_one_without_items_refused():
    reader = DocumentReader(read)
    damaged = b"<<<RSS><channel><item><title>One</title></item></channel></rss>"
    try:
        assert [item.title for item in (await reader.read(damaged, "http://example.org/", {})).items] == ["One"]
        with pytest.raises(NotAFeed, match="not XML"):
            await reader.read(b"<<<RSS>", "http://example.org/", {})
    finally:
        await reader.close()


def rss(inside: bytes, before: bytes = b"") -> bytes:
    return before + b'<rss version="2.0"><channel><item>' + inside + b"</item></channel></rss>"


HOSTILE = {
    "levels": rss(b"<a>" * 200_000),
    "attributes": rss(b"<a " + b" ".join(b'a%d=""' % n for n in range(200_000)) + b"/>"),
    "open elements in HTML": rss(b"<description><![CDATA[" + b"<div>" * 200_000 + b"]]></description>"),
    "escaped open elements": rss(b"<description>" + b"&lt;div&gt;" * 5000 + b"</description>"),
    "formatting elements": rss(
        b"<description><![CDATA[" + b"".join(b"<font color=%d>" % n for n in range(3000)) + b"]]></description>"
    ),
    "document types": b"<!DOCTYPE [" * 5000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_documents_whose_cost_is_quadratic_are_kept_away_from_the_loop(name: str):
    assert is_heavy(HOSTILE[name])


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_document_ends_in_an_outcome_while_the_loop_goes_on(server: RawServer, name: str):
    server.routes["/feed"] = feed(body=HOSTILE[name])
    server.routes["/good"] = feed()
    async with Fetcher(allow_private=True, contact=None, per_host=2) as fetcher:
        fetcher._reader = DocumentReader(read, cpu_seconds=1, wall_seconds=3)
        hostile = asyncio.create_task(fetcher.fetch(server.url("/feed")))
        good = await fetcher.fetch(server.url("/good"))
        assert good.ending is Ending.CHANGED
        assert good.document is not None
        assert good.document.items[0].title == "One"
        assert (await hostile).ending in (Ending.CHANGED, Ending.PARTIAL, Ending.UNREADABLE)


def test_real_feeds_are_mostly_ordinary(shared_data: Path):
    with tarfile.open(shared_data / "feeds.tar.xz") as archive:
        files = [archive.extractfile(member) for member in archive if member.isfile()]
        bodies = [file.read() for file in files if file is not None]
    small = [body for body in bodies if len(body) <= LARGE]
    assert sum(map(is_heavy, small)) < 0.05 * len(small)


async def test_a_reader_without_windows_cleans_large_documents_once() -> None:
    """A terminal of a cluster does not know what is stored; it remembers what it has cleaned."""

    def write(numbers: range) -> bytes:
        text = "&lt;p onclick='x()'&gt;" + "word " * 1_000
        items = "".join(f"<item><guid>{n}</guid><description>{text} {n}</description></item>" for n in numbers)
        return f"<rss><channel>{items}</channel></rss>".encode()

    def is_cleaned(item: Entry[Markup]) -> bool:
        return item.summary is not None and item.summary.raw_hash is not None

    reader = DocumentReader(workers=1)
    try:
        first = await reader.read(write(range(20)), "https://a.example/", {})
        assert all(is_cleaned(item) for item in first.items)
        second = await reader.read(write(range(1, 21)), "https://a.example/", {})
        assert [item.id for item in second.items if is_cleaned(item)] == ["20"]
        assert [clean_entry(item).summary for item in second.items[:-1]] == [
            clean_entry(item).summary for item in first.items[1:]
        ]
        other = await reader.read(write(range(20)), "https://b.example/", {})
        assert all(is_cleaned(item) for item in other.items)
    finally:
        await reader.close()


def test_a_reader_forgets_the_feeds_that_it_read_longest_ago() -> None:
    cleaned = _CleanedItems(most=3)
    for name in "abca":
        cleaned.remember(name, Document("rss", items=(Entry(id=name),) * (2 if name == "a" else 1)))
    assert [len(cleaned.find_hashes(name)) for name in "abc"] == [2, 0, 1]
