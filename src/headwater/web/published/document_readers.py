"""Notes who reads published documents, as keyed hashes by week, and saves them once a minute."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import secrets
from collections.abc import Callable

import structlog

from headwater.errors import HeadwaterError
from headwater.store.publishing.document_readers import add_document_readers, week_of
from headwater.store.saved_state import load_state, save_state_once
from headwater.store.store import Store

SAVE_SECONDS = 60.0
MAX_NOTED = 50_000  # readers held in memory; beyond that a week's newcomers are not counted
KEY, VERSION = "key of document readers", 1

log = structlog.get_logger()


class DocumentReaders:
    """Notes the readers of documents. Noting costs a look into a set; new readers are saved in the background."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._week = -1
        self._noted: set[tuple[str, str]] = set()
        self._unsaved: list[tuple[str, str]] = []
        self._saved_at = -SAVE_SECONDS
        self._saving: asyncio.Task[None] | None = None

    def note(self, path: str, address: str | None) -> None:
        """Note that somebody at an address has read the document of a path."""
        now = self._clock()
        if week_of(now) != self._week:
            self._week = week_of(now)
            self._noted.clear()
        reader = (path, address or "")
        if reader not in self._noted and len(self._noted) < MAX_NOTED:
            self._noted.add(reader)
            self._unsaved.append(reader)
        if self._unsaved and now - self._saved_at >= SAVE_SECONDS and (self._saving is None or self._saving.done()):
            self._saved_at = now
            self._saving = asyncio.create_task(self._save())

    async def _save(self) -> None:
        try:
            await self.save()
        except HeadwaterError as error:  # the count is an estimate: it goes on with the next reader
            log.warning("document_readers_not_saved", error=str(error))

    async def save(self) -> None:
        """Save the readers noted since the last time."""
        some, self._unsaved = self._unsaved, []
        key = await self._load_key()
        week = self._week
        await self._store.write(
            add_document_readers, week, [(path, hash_reader(key, week, address)) for path, address in some]
        )

    async def _load_key(self) -> bytes:
        found = await self._store.read(load_state, KEY)
        if found is None:
            await self._store.write(save_state_once, KEY, VERSION, secrets.token_bytes(32), self._clock())
            found = await self._store.read(load_state, KEY)
        assert found is not None
        return found[1]


def hash_reader(key: bytes, week: int, address: str) -> bytes:
    """Return the hash of a reader. Of an IPv6 address only the network counts: hosts change the rest daily.

    >>> hash_reader(b"k", 1, "2001:db8::1") == hash_reader(b"k", 1, "2001:db8::2")
    True
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
        if isinstance(parsed, ipaddress.IPv6Address):
            address = str(parsed.ipv4_mapped or ipaddress.ip_network((parsed, 64), strict=False))
    except ValueError:
        pass
    return hashlib.blake2b(f"{week} {address}".encode(), key=key, digest_size=8).digest()
