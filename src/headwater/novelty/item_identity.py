"""Identifies items by guid, link or text, and recognises renamed ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b

from headwater.formats.values.html import clean_markup, hash_markup
from headwater.formats.values.links import normalise_url
from headwater.model import Document, Entry, Known, Markup

UNSTABLE_AFTER = 2  # windows with changed identities but the same texts after which guids are ignored
LONGEST_IDENTITY = 500
CONTENT_HASH = 16  # hexadecimal digits; in a window the eight digits of `raw_hash` follow
_BLANK = blake2b(digest_size=16)  # copied for each text: creating one takes longer than hashing a title


def identify_items(document: Document[Markup], unstable: int = 0) -> list[str]:
    """Return the identity of each item. A guid shared by different items, or one that changes, is not used."""
    guids = {entry.id for entry in document.items}
    if unstable < UNSTABLE_AFTER and len(guids) == len(document.items) and None not in guids and "" not in guids:
        return [_shorten_identity(entry.id) for entry in document.items]  # type: ignore[arg-type]  # none is None
    bearers = Counter(guid for guid, _ in {(entry.id, entry.link or entry.title) for entry in document.items})
    distrusted = unstable >= UNSTABLE_AFTER
    return [_identify_entry(entry, trusted=not distrusted and bearers[entry.id] == 1) for entry in document.items]


def _identify_entry(entry: Entry[Markup], trusted: bool) -> str:
    if entry.id and trusted:
        return _shorten_identity(entry.id)
    if entry.link:
        return _shorten_identity("link:" + normalise_url(entry.link))
    text = clean_markup(entry.content) or clean_markup(entry.summary) or ""
    if entry.id and not (entry.title or text):
        return _shorten_identity(entry.id)
    return "hash:" + _hash_text(f"{entry.title or ''}\0{text[:200]}")


def _shorten_identity(identity: str) -> str:
    return identity if len(identity) <= LONGEST_IDENTITY else "hash:" + _hash_text(identity)


def clean_entry(entry: Entry[Markup]) -> Entry:
    """Return the entry with safe HTML."""
    return Entry(
        entry.id,
        entry.link,
        entry.title,
        entry.published,
        entry.updated,
        entry.authors,
        clean_markup(entry.summary),
        clean_markup(entry.content),
        entry.categories,
        entry.enclosures,
        entry.language,
        entry.source,
    )


def raw_hash(entry: Entry[Markup]) -> str:
    """Hash an entry as published. If it is as before, so is the content, and nothing has to be cleaned to know that.

    The opposite is not true: publishers change attributes and comments that cleaning removes.
    """
    files = "\0".join([enclosure.url for enclosure in entry.enclosures]) if entry.enclosures else ""
    whole = _BLANK.copy()
    texts = f"{entry.title or ''}\0{hash_markup(entry.summary)}\0{hash_markup(entry.content)}\0{files}"
    whole.update(texts.encode("utf-8", "replace"))
    return whole.digest()[:4].hex()


def content_hash(entry: Entry) -> str:
    """Hash title and text into two halves, so that an item whose identity changed can be recognised by its title."""
    files = "\0".join([enclosure.url for enclosure in entry.enclosures]) if entry.enclosures else ""
    title, text = _BLANK.copy(), _BLANK.copy()
    title.update((entry.title or "").encode("utf-8", "replace"))
    text.update(f"{entry.summary or ''}\0{entry.content or ''}\0{files}".encode("utf-8", "replace"))
    return (title.digest()[:4] + text.digest()[:4]).hex()


def _hash_text(text: str) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def find_renamed(names: Sequence[str], hashes: Sequence[str], known: Known, seen: Mapping[str, str]) -> dict[str, str]:
    """Map new identities to known ones: items of the same text, or of the same title if all identities changed."""
    if not known.window:
        return {}
    before = dict(known.window)
    strange = {
        name: digest for name, digest in zip(names, hashes, strict=True) if name not in before and name not in seen
    }
    if not strange:
        return {}
    left = [(name, digest) for name, digest in known.window if name not in set(names)]
    by_text = _index_unique(left, slice(CONTENT_HASH))
    found = {name: by_text[digest] for name, digest in strange.items() if digest in by_text}
    if len(strange) == len(set(names)) and len(found) * 2 < len(strange):
        by_title = _index_unique(left, slice(8))
        titles = {name: by_title[digest[:8]] for name, digest in strange.items() if digest[:8] in by_title}
        if len(titles) * 2 > len(
            strange
        ):  # one equal title may be "Weather today"; if most are equal, the items were renamed
            found = titles
    return {name: old for old, name in {old: name for name, old in reversed(found.items())}.items()}  # one each


def _index_unique(window: Sequence[tuple[str, str]], part: slice) -> dict[str, str]:
    counts = Counter(digest[part] for _, digest in window)
    return {digest[part]: name for name, digest in window if counts[digest[part]] == 1}


def are_mostly_renamed(renamed: Mapping[str, str], names: Sequence[str]) -> bool:
    """Say whether the publisher has changed identities rather than items."""
    return len(renamed) * 2 > len(set(names))
