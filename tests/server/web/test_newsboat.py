"""The real newsboat reads feeds of a live server, learns the read state, and marks items."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import shutil
import sqlite3
import struct
import subprocess
import termios
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from headwater.credentials import hash_password
from headwater.farm.farm import Farm
from headwater.fetch.client import Fetcher
from headwater.node.new_feed import add_feed_from_address
from headwater.node.queries.processor import QueryProcessor
from headwater.store.content.feeds import list_feeds
from headwater.store.content.verdicts import save_refreshes
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.accounts import claim_ownership, find_owner
from headwater.store.readers.marks import mark_items
from headwater.store.readers.reader_items import list_reader_items
from headwater.store.readers.stream_positions import HIT_ID_OFFSET, Stream, StreamQuery
from headwater.store.readers.subscriptions import list_subscriptions
from headwater.store.readers.unread_counts import count_unread
from headwater.store.store import Store
from support.store_samples import a_verdict, an_item

Start = Callable[..., Awaitable[str]]
PASSWORD = 'a "quoted" password'
SECONDS = 30.0  # until the test gives up on a program


@dataclass
class Newsboat:
    """A user's newsboat, with its own cache."""

    program: str
    home: Path

    def _command(self, *more: str) -> list[str]:
        files = (("-C", "config"), ("-c", "cache.db"), ("-u", "urls"))
        return [self.program, *(part for flag, file in files for part in (flag, str(self.home / file))), *more]

    def _environment(self) -> dict[str, str]:
        return {"HOME": str(self.home), "TERM": "xterm", "LANG": "C.UTF-8", "PATH": os.environ["PATH"]}

    async def execute(self, *commands: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *self._command("-x", *commands),
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        out, _ = await asyncio.wait_for(process.communicate(), SECONDS)
        assert process.returncode == 0, out.decode()
        return out.decode()

    def cached(self) -> dict[int, bool]:
        """Return the numbers of its items, and whether it shows each as unread."""
        with closing(sqlite3.connect(self.home / "cache.db")) as cache:
            rows = cache.execute("SELECT guid, unread FROM rss_item").fetchall()
        return {int(guid.rpartition("/")[2], 16): bool(unread) for guid, unread in rows}

    async def typed(self, *keys: str, until: Callable[[], Awaitable[bool]]) -> None:
        """Start it in a terminal and press keys until a condition holds."""
        terminal, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        os.set_blocking(terminal, False)
        process = await asyncio.create_subprocess_exec(
            *self._command(), env=self._environment(), stdin=inside, stdout=inside, stderr=inside
        )
        os.close(inside)
        screen = b""
        try:
            for key in (None, *keys):
                if key is not None:
                    os.write(terminal, key.encode())
                quiet = 0
                while quiet < 10:  # until it has nothing more to draw
                    await asyncio.sleep(0.05)
                    try:
                        screen += os.read(terminal, 1 << 16)
                        quiet = 0
                    except BlockingIOError:
                        quiet += bool(screen)
            end = time.monotonic() + SECONDS
            while not await until():
                assert time.monotonic() < end, screen[-2000:]
                await asyncio.sleep(0.1)
        finally:
            process.kill()
            await process.wait()
            os.close(terminal)


@pytest.fixture
async def newsboat(site: Start, web_store: Store, farm: Callable[..., Awaitable[Farm]], tmp_path: Path) -> Newsboat:
    program = shutil.which("newsboat")
    if program is None:
        pytest.skip("no newsboat on this machine: apt-get install newsboat")
    source = await farm(feeds=3, speed=1000, hints=False)
    async with Fetcher(allow_private=True) as fetcher:
        for k in range(source.feeds):
            await add_feed_from_address(
                web_store, fetcher, source.url(k), now=time.time(), choose=lambda _, found: found[0], tags=["farm"]
            )
    await web_store.write(run_script, "CREATE FEED everything AS RETURN ALL KEEP LAST 100 ITEMS", time.time())
    processor = QueryProcessor(web_store)
    await processor.load()
    while await processor.step():
        pass
    await web_store.write(claim_ownership, "ada", hash_password(PASSWORD))
    home = tmp_path / "newsboat"
    home.mkdir()
    (home / "urls").write_text("")
    base = await site()
    kind = "freshrss" if await asyncio.to_thread(_version, program) >= (2, 24) else "feedhq"  # since then it has both
    settings = {"url": f"{base}/" if kind == "feedhq" else f"{base}/api/greader.php", "login": "ada"}
    settings |= {"password": PASSWORD.replace('"', '\\"'), "min-items": "1000"}
    lines = [f'urls-source "{kind}"', f"{kind}-show-special-feeds no", 'browser "true"', "auto-reload no"]
    lines += [f'{kind}-{name} "{value}"' for name, value in settings.items()]
    (home / "config").write_text("\n".join(lines) + "\n")
    return Newsboat(program, home)


def _version(program: str) -> tuple[int, int]:
    said = subprocess.run([program, "-v"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"newsboat (\d+)\.(\d+)", said)
    assert found
    return int(found[1]), int(found[2])


async def test_newsboat_reads_what_we_have_and_marks_what_it_reads(newsboat: Newsboat, web_store: Store) -> None:
    owner = await web_store.read(find_owner)
    every = (await web_store.read(list_reader_items, owner.id, part=StreamQuery(limit=1000))).items
    read = [one.item.id for one in every[::3] if one.item.id is not None]
    await web_store.write(mark_items, owner.id, read, time.time(), read=True)
    said = await newsboat.execute("reload", "print-unread")
    cached = newsboat.cached()
    items = {id: unread for id, unread in cached.items() if id < HIT_ID_OFFSET}
    assert items == {one.item.id: one.item.id not in read for one in every}
    shown = await web_store.read(list_reader_items, owner.id, Stream(query=1), StreamQuery(limit=1000))
    assert {id for id in cached if id >= HIT_ID_OFFSET} == {one.id for one in shown.items}
    assert int(said.split()[0]) == sum(cached.values())

    first = (await web_store.read(list_subscriptions, owner.id))[0].feed_id
    assert first is not None

    async def unread() -> int:
        found = (await web_store.read(count_unread, owner.id)).feeds.get(first)
        return found.count if found else 0

    before = await unread()
    # Open the first feed and its next unread article; it marks the article on leaving.
    await newsboat.typed("\n", "n", "\n", "q", until=lambda: _fewer(unread, before))
    # Mark the whole feed as read.
    await newsboat.typed("A", until=lambda: _fewer(unread, 1))
    again = await newsboat.execute("reload", "print-unread")
    assert int(again.split()[0]) < int(said.split()[0])


async def test_the_second_sync_of_newsboat_brings_new_items_and_what_was_read_elsewhere(
    newsboat: Newsboat, web_store: Store
) -> None:
    owner = await web_store.read(find_owner)
    await newsboat.execute("reload")
    before = newsboat.cached()
    (feed, *_) = await web_store.read(list_feeds)
    new = an_item(feed.id, "https://example.org/new", published=time.time(), first_seen=time.time())
    await save_refreshes(web_store, [a_verdict(feed, new, at=time.time())])
    read = next(id for id, unread in before.items() if unread and id < HIT_ID_OFFSET)
    await web_store.write(mark_items, owner.id, [read], time.time(), read=True)
    await newsboat.execute("reload")
    after = newsboat.cached()
    assert not after[read]
    assert len(after) == len(before) + 1
    assert all(after[id] for id in after.keys() - before.keys())


async def _fewer(count: Callable[[], Awaitable[int]], than: int) -> bool:
    return await count() < than
