"""The real Liferea and RSS Guard sync twice with a live server, and marks arrive in both directions.

They run on a separate screen (Xvfb) with prepared accounts. Liferea is driven by its actions on a private message bus,
RSS Guard by its keys. Results are checked in the apps' own databases and in the server's store.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest
from desktop import Desktop, open_desktop, require_programs

from headwater.credentials import hash_password
from headwater.model import Feed
from headwater.store.content.feeds import NewFeed
from headwater.store.content.verdicts import save_refreshes
from headwater.store.readers.accounts import claim_ownership, find_owner
from headwater.store.readers.item_labels import change_item_labels
from headwater.store.readers.marks import mark_items
from headwater.store.readers.reader_items import find_reader_items
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store
from support.store_samples import a_verdict, an_item

NOW = 1_800_000_000.0
PASSWORD = "correct horse battery"
Start = Callable[..., Awaitable[str]]
Eventually = Callable[..., Awaitable[None]]


@dataclass
class Account:
    """Ada's account: two feeds in a folder with three items each, one of them read and one starred."""

    store: Store
    user: int
    feeds: list[Feed] = field(default_factory=list)
    arrived: int = 0

    async def add_item(self, feed: Feed) -> int:
        """Store a new item; return its number."""
        self.arrived += 1
        at = NOW - 900 + self.arrived
        times = {"published": at, "first_seen": at}
        new = an_item(feed.id, f"https://e.example/{self.arrived}", title=f"Title {self.arrived}", **times)
        await save_refreshes(self.store, [a_verdict(feed, new, at=at)])
        return self.arrived

    async def mark(self, number: int, **marks: bool) -> None:
        await self.store.write(mark_items, self.user, [number], NOW, **marks)

    async def states(self) -> dict[int, tuple[bool, bool]]:
        """Return each item, and whether it is read and starred."""
        found = await self.store.read(find_reader_items, self.user, range(1, self.arrived + 1))
        return {one.id: (one.read, one.starred) for one in found}


@pytest.fixture
async def account(web_store: Store) -> Account:
    # No server runs at the addresses of the feeds, where the apps look for icons.
    new = [NewFeed(f"http://127.0.0.1:9/{name}", title=f"Feed {name}", tags=("news",)) for name in "AB"]
    feeds = [one.feed for one in await web_store.write(add_and_subscribe, new, NOW - 5000)]
    await web_store.write(claim_ownership, "ada", hash_password(PASSWORD))
    made = Account(web_store, (await web_store.read(find_owner)).id, feeds)
    for feed in feeds * 3:
        await made.add_item(feed)
    await made.mark(1, read=True)
    await made.mark(2, starred=True)
    return made


@pytest.fixture
async def desktop(tmp_path: Path) -> AsyncIterator[Desktop]:
    require_programs("Xvfb", "dbus-daemon")
    async with open_desktop(tmp_path / "desktop") as opened:
        yield opened


def read_rows(file: Path, query: str) -> list[tuple[object, ...]]:
    """Return rows of an app's database; none while it is being created."""
    try:
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as opened:
            return opened.execute(query).fetchall()
    except sqlite3.OperationalError:
        return []


def parse_number(long_id: object) -> int:
    return int(str(long_id).rpartition("/")[2], 16)


@dataclass
class Liferea:
    """A user's Liferea with one Google Reader account."""

    desktop: Desktop

    def prepare(self, base: str) -> None:
        config = self.desktop.home / "config"
        source = {"title": "headwater", "type": "source", "sourceType": "fl_google_reader", "id": "account"}
        source |= {"xmlUrl": base, "updateInterval": "-1", "username": "ada", "password": PASSWORD}
        attributes = " ".join(f"{name}={quoteattr(value)}" for name, value in source.items())
        (config / "liferea").mkdir()
        (config / "liferea" / "feedlist.opml").write_text(
            f'<opml version="1.0"><head/><body><outline {attributes}/></body></opml>'
        )
        (config / "glib-2.0" / "settings").mkdir(parents=True)
        plugins = "[org/gnome/liferea/plugins]\nactive-plugins=@as []\n"  # one of them asks for a keyring
        (config / "glib-2.0" / "settings" / "keyfile").write_text(plugins)

    def states(self) -> dict[int, tuple[bool, bool]]:
        file = self.desktop.home / "data" / "liferea" / "liferea.db"
        rows = read_rows(file, "SELECT source_id, read, marked FROM items")
        return {parse_number(id): (bool(read), bool(marked)) for id, read, marked in rows}

    async def refresh(self) -> None:
        await self._call("org.gnome.feed.Reader", "/org/gnome/feed/Reader", "org.gnome.feed.Reader.Refresh")

    async def act(self, name: str) -> None:
        at = ("net.sourceforge.liferea", "/net/sourceforge/liferea", "org.gtk.Actions.Activate")
        await self._call(*at, name, "[]", "{}")

    async def _call(self, name: str, path: str, method: str, *given: str) -> None:
        await self.desktop.call("gdbus", "call", "--session", "-d", name, "-o", path, "-m", method, *given)


async def test_liferea_synchronises_twice_and_marks_in_both_directions(
    site: Start, account: Account, desktop: Desktop, eventually: Eventually
) -> None:
    require_programs("liferea", "gdbus")
    liferea = Liferea(desktop)
    liferea.prepare(await site())
    async with desktop.running("liferea"):
        await eventually(lambda: len(liferea.states()) == 6, "Liferea has the six items")
        assert {id for id, (read, _) in liferea.states().items() if read} == {1}

        await liferea.act("next-unread-item")
        await eventually(lambda: _count_marked(account, read=2), "the server knows what was read in Liferea")
        await liferea.act("toggle-selected-item-flag")
        await eventually(lambda: _count_marked(account, starred=2), "the server knows what was flagged in Liferea")

        new = await account.add_item(account.feeds[0])
        other = next(id for id, (read, _) in (await account.states()).items() if not read and id != new)
        await account.mark(other, read=True)
        await liferea.refresh()
        await eventually(lambda: new in liferea.states(), "the second sync brings the new item")
        await eventually(lambda: liferea.states()[other][0], "the second sync brings what was read elsewhere")
        server = await account.states()
        assert {id: read for id, (read, _) in liferea.states().items()} == {id: one[0] for id, one in server.items()}


async def _count_marked(account: Account, read: int = 0, starred: int = 0) -> bool:
    states = (await account.states()).values()
    return sum(one[0] for one in states) >= read and sum(one[1] for one in states) >= starred


@dataclass
class RssGuard:
    """A user's RSS Guard with one FreshRSS account; function keys stand for its menu."""

    desktop: Desktop

    @property
    def command(self) -> tuple[str, ...]:
        return ("rssguard", "--data", str(self._folder), "--no-single-instance")

    @property
    def _folder(self) -> Path:
        return self.desktop.home / "rssguard"

    def is_new_database_ready(self) -> bool:
        last = "SELECT name FROM sqlite_master WHERE name = 'LabelsInMessages'"  # the last table that it makes
        return bool(read_rows(self._folder / "database" / "database.db", last))

    async def read_version(self) -> str:
        """Return the version in the title of its window."""
        title = await self.desktop.call("xdotool", "getwindowname", await self.find_window())
        return title.removeprefix("RSS Guard ")

    def prepare(self, base: str, version: str) -> None:
        """Add the account to the database that its first start created."""
        account = {"service": 1, "url": base, "username": "ada", "password": self._encrypt(PASSWORD)}
        account |= {"batch_size": 1000, "download_only_unread": False, "intelligent_synchronization": True}
        with closing(sqlite3.connect(self._folder / "database" / "database.db")) as opened:
            values = ("greader", 0, json.dumps(account))
            opened.execute("INSERT INTO Accounts (type, proxy_type, custom_data) VALUES (?, ?, ?)", values)
            opened.commit()
        keys = {"UpdateAllItems": "F5", "MarkAllItemsRead": "F6"}
        sections = {
            "main": {"first_run": "false", f"first_run_{version}": "false", "update_on_start": "false"},
            "gui": {"use_tray_icon": "false"},
            "keyboard": {f"m_action{name}": key for name, key in keys.items()},
        }
        lines = [f"[{name}]\n" + "".join(f"{k}={v}\n" for k, v in some.items()) for name, some in sections.items()]
        (self._folder / "config").mkdir(exist_ok=True)
        (self._folder / "config" / "config.ini").write_text("\n".join(lines))
        (self._folder / "config" / "key.private").write_text("1")

    @staticmethod
    def _encrypt(text: str) -> str:
        """Encrypt a password as RSS Guard does under the key 1: each byte is mixed with the one before."""
        mixed, last = bytearray(b"\3\0"), 0
        for place, byte in enumerate(b"\0" + text.encode()):
            last ^= byte ^ (place % 8 == 0)
            mixed.append(last)
        return base64.b64encode(mixed).decode()

    def states(self) -> dict[int, tuple[bool, bool]]:
        file = self._folder / "database" / "database.db"
        rows = read_rows(file, "SELECT custom_id, is_read, is_important FROM Messages")
        return {parse_number(id): (bool(read), bool(starred)) for id, read, starred in rows}

    def titles(self, table: str, column: str) -> set[str]:
        rows = read_rows(self._folder / "database" / "database.db", f"SELECT {column} FROM {table}")
        return {str(name) for (name,) in rows}

    async def find_window(self) -> str:
        return (await self.desktop.call("xdotool", "search", "--onlyvisible", "--name", "^RSS Guard [0-9]")).strip()

    async def press(self, key: str, until: Callable[[], bool | Awaitable[bool]], what: str) -> None:
        """Press a key, and again every few seconds if it came too early, until a condition holds."""
        for attempt in range(400):
            if attempt % 40 == 0:
                await self.desktop.call("xdotool", "windowfocus", "--sync", await self.find_window())
                await self.desktop.call("xdotool", "key", key)
            await asyncio.sleep(0.1)
            done = until()
            if done if isinstance(done, bool) else await done:
                return
        pytest.fail(f"{what}: not after pressing {key}. RSS Guard has {self.states()}.")


async def test_rss_guard_synchronises_twice_and_marks_in_both_directions(
    site: Start, account: Account, desktop: Desktop, eventually: Eventually, web_store: Store
) -> None:
    require_programs("rssguard", "xdotool")
    rss_guard = RssGuard(desktop)
    more = {"QTWEBENGINE_DISABLE_SANDBOX": "1"}  # Chromium's sandbox does not run as root
    async with desktop.running(*rss_guard.command, **more):
        await eventually(rss_guard.is_new_database_ready, "RSS Guard has made its database")
        await eventually(rss_guard.find_window, "RSS Guard shows its window")
        version = await rss_guard.read_version()
    rss_guard.prepare(await site(), version)
    await web_store.write(change_item_labels, account.user, [3], ["later"])
    async with desktop.running(*rss_guard.command, **more):
        feeds = {"Feed A", "Feed B"}
        await eventually(lambda: rss_guard.titles("Feeds", "title") == feeds, "RSS Guard has the subscriptions")
        await eventually(rss_guard.find_window, "RSS Guard shows its window")
        server = await account.states()
        await rss_guard.press("F5", lambda: rss_guard.states() == server, "RSS Guard has the items with their marks")
        assert rss_guard.titles("Labels", "name") == {"later"}

        new = await account.add_item(account.feeds[0])
        await account.mark(3, read=True)
        server = await account.states()
        assert server[new] == (False, False)
        await rss_guard.press(
            "F5", lambda: rss_guard.states() == server, "the second sync brings the item and the mark"
        )

        await rss_guard.press("F6", lambda: all(read for read, _ in rss_guard.states().values()), "all is marked read")
        await rss_guard.press("F5", lambda: _count_marked(account, read=7), "the server knows what was marked read")
