"""Names each item by the first rung of a ladder that no different item shares: guid, link, link with title, text.

    guid ─► link with fragment ─► link with title ─► title and text ─► everything

A rung that different items of the document share is not trusted for them. It stays so while the feed shows any of
them, because the next document may show only one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from enum import IntEnum
from hashlib import blake2b
from typing import NamedTuple
from zlib import crc32

from headwater.formats.values.enclosures import type_picture
from headwater.formats.values.html import clean_markup, find_first_picture, hash_markup
from headwater.formats.values.links import is_web_url, normalise_url
from headwater.model import Document, Entry, FetchedEntry, Markup, Window

UNSTABLE_AFTER = 2  # windows with changed identities but the same texts after which guids are ignored
MAX_IDENTITY_LENGTH = 500
CONTENT_HASH = 16  # hexadecimal digits of `content_hash`
RAW_HASH = 8  # and of `raw_hash`, which follows it in a window; then come the rung and the keys of guid and link
KEY = 12
KEYS = 1 + 2 * KEY  # the rung, and both keys
SOURCE_HASH = 16  # digits of the hash of an item's bytes, which may follow, with the item's date behind it
TITLE_HASH = 8  # digits of `content_hash` that belong to the title
_NO_KEY = "-" * KEY
_LEGACY = CONTENT_HASH + RAW_HASH  # the length of an entry of 0.2.0, which has neither rung nor keys
_COMPLETE = _LEGACY + KEYS
_BLANK = blake2b(digest_size=16)  # copied for each text: creating one takes longer than hashing a title


class Rung(IntEnum):
    """The part of an item that identifies it."""

    GUID = 0
    LINK = 1
    TITLE = 2
    TEXT = 3
    WHOLE = 4


class Name(NamedTuple):
    """The identity of an item and the rung that gives it."""

    identity: str
    rung: Rung


class EntryTrace(NamedTuple):
    """An item of a document as the window remembers it, by which it may be recognised under another identity.

    Keys are hashes of guid and link, None where the item has no such part. `page_key` is that of the link without its
    fragment, by which 0.2.0 identified items.
    """

    identity: str
    rung: Rung
    content_hash: str
    guid_key: str | None
    link_key: str | None
    page_key: str | None = None

    @property
    def title_hash(self) -> str:
        return self.content_hash[:TITLE_HASH]


def identify_items(document: Document[Markup], unstable: int = 0) -> list[str]:
    """Return the identity of each item of a document."""
    return [name.identity for name in name_entries(document.items, unstable)]


def name_entries(
    entries: Sequence[Entry[Markup]], unstable: int = 0, window: Sequence[tuple[str, str]] = ()
) -> list[Name]:
    """Return the name of each item. Items have the same name only if nothing tells them apart."""
    read = [entry for entry in entries if not is_unread(entry)]
    if len(read) < len(entries):
        named = iter(name_entries(read, unstable, window))
        return [Name(entry.id or "", Rung.GUID) if is_unread(entry) else next(named) for entry in entries]
    guids = {entry.id for entry in entries}
    shared = find_shared_keys(window)
    if unstable < UNSTABLE_AFTER and not shared and len(guids) == len(entries) and guids.isdisjoint((None, "")):
        return [Name(shorten_identity(entry.id), Rung.GUID) for entry in entries]  # type: ignore[arg-type]  # none is None
    names: list[Name | None] = [None] * len(entries)
    looks = [_describe_look(entry) for entry in entries]
    for rung in Rung:
        unnamed = [place for place, name in enumerate(names) if name is None]
        if not unnamed:
            break
        among = range(len(entries)) if rung <= Rung.TITLE else unnamed
        given = {place: _name_by_rung(entries[place], rung, unstable) for place in among}
        bearers: defaultdict[str | None, set[object]] = defaultdict(set)
        for place, identity in given.items():
            bearers[identity].add(looks[place][:3] if rung is Rung.GUID else looks[place])
        for place in unnamed:
            identity = given[place]
            trusted = rung is Rung.WHOLE or (
                len(bearers[identity]) == 1 and not _is_shared(entries[place], rung, shared)
            )
            if identity is not None and trusted:
                names[place] = Name(identity, rung)
    return [name for name in names if name is not None]


def is_unread(entry: Entry[Markup]) -> bool:
    """Say whether an item was left out of reading, because its bytes are those of the last document."""
    return isinstance(entry, FetchedEntry) and entry.stored is not None


def _describe_look(entry: Entry[Markup]) -> tuple[str | None, str | None, str, float | None]:
    """Return what tells an item from others: two items that look the same are one."""
    return entry.link and normalise_full(entry.link), entry.title, raw_hash(entry), entry.published


def _name_by_rung(entry: Entry[Markup], rung: Rung, unstable: int) -> str | None:
    """Return the identity that a rung gives, None if the item lacks that part."""
    if rung is Rung.GUID:
        return shorten_identity(entry.id) if entry.id and unstable < UNSTABLE_AFTER else None
    if rung is Rung.LINK:
        return shorten_identity("link:" + normalise_full(entry.link)) if entry.link else None
    if rung is Rung.TITLE:
        return _name_by_title(entry)
    if rung is Rung.TEXT:
        return _name_by_text(entry)
    guid = entry.id if unstable < UNSTABLE_AFTER else None
    return "hash:" + hash_text("\0".join(map(str, (guid, *_describe_look(entry)))))


def _name_by_title(entry: Entry[Markup]) -> str | None:
    if not entry.link or not entry.title:
        return None
    return "title:" + hash_text(f"{normalise_full(entry.link)}\0{entry.title}")


def _name_by_text(entry: Entry[Markup]) -> str | None:
    text = clean_markup(entry.content) or clean_markup(entry.summary) or ""
    if not (entry.title or text):
        return shorten_identity(entry.id) if entry.id else None
    return "hash:" + hash_text(f"{entry.title or ''}\0{text[:200]}")


def list_other_identities(entry: Entry[Markup], identity: str) -> list[str]:
    """Return the identities under which the item may be stored if its feed has changed its rung or its scheme."""
    link = entry.link and normalise_full(entry.link)
    found: list[str | None] = []
    if entry.id:
        found += map(shorten_identity, (entry.id, *_swap_scheme(entry.id)))
    if link:
        found += [shorten_identity("link:" + one) for one in (link, *_swap_scheme(link))]
        found += [_name_by_title(entry), shorten_identity("link:" + normalise_url(link))]
    else:
        found.append(_name_by_text(entry))
    return [one for one in dict.fromkeys(found) if one is not None and one != identity]


def _swap_scheme(address: str) -> list[str]:
    scheme, separator, rest = address.partition("://")
    other = {"http": "https", "https": "http"}.get(scheme.lower())
    return [f"{other}{separator}{rest}"] if separator and other else []


def normalise_full(link: str) -> str:
    """Return the normalised address with its fragment, which may tell the notes of one page apart.

    >>> normalise_full("HTTP://Example.ORG?utm_source=rss#day-2")
    'http://example.org/#day-2'
    """
    if "#" not in link:
        return normalise_url(link)
    address, _, fragment = link.strip().partition("#")
    return f"{normalise_url(address)}#{fragment}" if fragment else normalise_url(address)


def describe_keys(entry: Entry[Markup], rung: Rung) -> str:
    """Return the end of a window's entry: the rung, and the keys of guid and link."""
    return f"{rung:d}{_hash_key(entry.id) or _NO_KEY}{_hash_key(entry.link) or _NO_KEY}"


def find_keys(stored: str) -> str | None:
    """Return the end of a window's entry, None if 0.2.0 wrote it."""
    return stored[_LEGACY:_COMPLETE] if len(stored) >= _COMPLETE else None


def describe_source(entry: Entry[Markup], rung: Rung) -> str:
    """Return what follows the keys in a window's entry, if the item has a guid of its own and its bytes are known."""
    if rung is not Rung.GUID or not isinstance(entry, FetchedEntry):
        return ""
    return f"{entry.source_hash}{entry.published if entry.published is not None else ''}"


def find_source(stored: str) -> tuple[str, float | None] | None:
    """Return the hash of an item's bytes and its date from a window's entry, None if it has neither."""
    found = stored[_COMPLETE:]
    if not found:
        return None
    date = found[SOURCE_HASH:]
    return found[:SOURCE_HASH], float(date) if date else None


def has_guid_name(stored: str) -> bool:
    """Say whether a window's entry is that of an item named by its guid."""
    return len(stored) >= _COMPLETE and stored[_LEGACY] == "0"


def trace_entry(entry: Entry[Markup], identity: str, content: str, keys: str) -> EntryTrace:
    """Return the trace of an item of the document."""
    page = _hash_key(normalise_url(entry.link)) if entry.link and "#" in entry.link else None
    return EntryTrace(identity, Rung(int(keys[0])), content, *_split_keys(keys), page)


def trace_window_entry(identity: str, stored: str) -> EntryTrace:
    """Return the trace of an item of the last document. Of what 0.2.0 stored, the identity tells one key."""
    content, keys = stored[:CONTENT_HASH], find_keys(stored)
    if keys is not None:
        return EntryTrace(identity, Rung(int(keys[0])), content, *_split_keys(keys))
    if identity.startswith("link:"):
        key = _hash_key(identity.removeprefix("link:"))
        return EntryTrace(identity, Rung.LINK, content, None, key, key)
    if identity.startswith("hash:"):
        return EntryTrace(identity, Rung.TEXT, content, None, None)
    return EntryTrace(identity, Rung.GUID, content, _hash_key(identity), None)


def _split_keys(keys: str) -> tuple[str | None, str | None]:
    guid, link = keys[1 : 1 + KEY], keys[1 + KEY :]
    return None if guid == _NO_KEY else guid, None if link == _NO_KEY else link


SharedKeys = frozenset[tuple[Rung, str | None]]
"""Keys of guids and links that different items have shared."""


def find_shared_keys(window: Sequence[tuple[str, str]]) -> SharedKeys:
    """Return the guids and links that the items of the last document have but are not named by."""
    found: set[tuple[Rung, str | None]] = set()
    for _, stored in window:
        if len(stored) >= _COMPLETE and stored[_LEGACY] != "0":
            guid, link = _split_keys(stored[_LEGACY:_COMPLETE])
            found.add((Rung.GUID, guid))
            if stored[_LEGACY] != "1":
                found.add((Rung.LINK, link))
    return frozenset(found - {(Rung.GUID, None), (Rung.LINK, None)})


def _is_shared(entry: Entry[Markup], rung: Rung, shared: SharedKeys) -> bool:
    if not shared or rung > Rung.LINK:
        return False
    return (rung, _hash_key(entry.id if rung is Rung.GUID else entry.link)) in shared


def _hash_key(address: str | None) -> str | None:
    """Hash a guid or link. Scheme, `www.`, tracking parameters and a final slash do not count."""
    if not address:
        return None
    if is_web_url(address):
        address = normalise_full(address).partition("://")[2].removeprefix("www.").removesuffix("/")
    return hash_text(address)[:KEY]


def shorten_identity(identity: str) -> str:
    """Return the identity, or its hash if it is too long to keep."""
    return identity if len(identity) <= MAX_IDENTITY_LENGTH else "hash:" + hash_text(identity)


def clean_entry(entry: Entry[Markup]) -> Entry:
    """Return the entry with safe HTML, and the first picture in it as its lead picture if it has no other."""
    summary, content = clean_markup(entry.summary), clean_markup(entry.content)
    picture = entry.image or find_first_picture(content or summary)
    return Entry(
        entry.id,
        entry.link,
        entry.title,
        entry.published,
        entry.updated,
        entry.authors,
        summary,
        content,
        entry.categories,
        type_picture(entry.enclosures, picture),
        entry.language,
        entry.source,
        picture,
        entry.people,
        entry.episode,
    )


def raw_hash(entry: Entry[Markup]) -> str:
    """Hash an entry as published. If it is as before, so is the content, and nothing has to be cleaned to know that.

    The opposite is not true: publishers change attributes and comments that cleaning removes.
    """
    files = "\0".join([enclosure.url for enclosure in entry.enclosures]) if entry.enclosures else ""
    texts = f"{entry.title or ''}\0{hash_markup(entry.summary)}\0{hash_markup(entry.content)}\0{files}"
    return f"{crc32(texts.encode('utf-8', 'replace')):08x}"


def list_raw_hashes(window: Window) -> list[str]:
    """Return the `raw_hash` of each item of a window that has one."""
    return [stored[CONTENT_HASH:_LEGACY] for _, stored in window if len(stored) >= _LEGACY]


def content_hash(entry: Entry) -> str:
    """Hash title and text into two halves, so that an item whose identity changed can be recognised by its title."""
    files = "\0".join([enclosure.url for enclosure in entry.enclosures]) if entry.enclosures else ""
    title, text = _BLANK.copy(), _BLANK.copy()
    title.update((entry.title or "").encode("utf-8", "replace"))
    text.update(f"{entry.summary or ''}\0{entry.content or ''}\0{files}".encode("utf-8", "replace"))
    return (title.digest()[:4] + text.digest()[:4]).hex()


def hash_text(text: str) -> str:
    """Return 32 hexadecimal digits."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
