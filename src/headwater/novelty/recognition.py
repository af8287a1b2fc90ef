"""Recognises known items under new identities: after a change of rung, of scheme, of guids, or of our own ladder.

Two items are the same if they alone have a feature in common, such as the key of their link. A feature that others of
the document or of the last window have too proves nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from headwater.model import Entry, Known, Markup
from headwater.novelty.item_identity import (
    TITLE_HASH,
    EntryTrace,
    Rung,
    SharedKeys,
    find_shared_keys,
    list_other_identities,
    trace_window_entry,
)

_EMPTY = "cae6694171d0aacb"  # the hash of a content without title and text

FindFeature = Callable[[EntryTrace], object | None]
"""Returns a feature of an item, None if the item lacks it."""


class Rule(NamedTuple):
    """A feature that makes a new and a known item the same, where the condition holds."""

    feature: FindFeature
    holds: Callable[[EntryTrace, EntryTrace], bool] = lambda new, old: True


class Recognised(NamedTuple):
    """The known identity of each item that has a new one, and how many of them got another guid."""

    identities: dict[str, str]
    new_guids: int


def recognise_items(
    entries: Sequence[Entry[Markup]], traces: Sequence[EntryTrace], known: Known, seen: Mapping[str, str]
) -> Recognised:
    """Find the known identities of items whose identity is new. `seen` has the stored hashes of identities.

    Different guids mean different items, unless the guid alone has changed, or most guids of the document.
    """
    before, names = dict(known.window), {one.identity for one in traces}
    strange = {
        one.identity: (one, entry)
        for one, entry in zip(traces, entries, strict=True)
        if one.identity not in before and one.identity not in seen
    }
    if not strange:
        return Recognised({}, 0)
    left = {name: trace_window_entry(name, stored) for name, stored in known.window if name not in names}
    present = [one for one in traces if one.identity not in strange]
    found: dict[str, str] = {}
    for rule in _list_rules(present, find_shared_keys(known.window)):
        _pair_unique(rule, [one for one, _ in strange.values()], left.values(), found)
    if len(strange) == len(names) > 1:
        _pair_most([one for one, _ in strange.values()], left.values(), found)
    guids = sum(
        old.rung is Rung.GUID is strange[name][0].rung and old.guid_key != strange[name][0].guid_key
        for name, old in ((name, left[identity]) for name, identity in found.items())
    )
    stored = {name: digest for name, digest in seen.items() if name not in names and name not in before}
    if stored:
        used = {one.link_key for one in (*present, *left.values())} - {None}
        _match_stored([pair for name, pair in strange.items() if name not in found], stored, used, found)
    return Recognised(found, guids)


def _list_rules(present: Sequence[EntryTrace], shared: SharedKeys) -> list[Rule]:
    """Return the rules in the order of their weight. Keys that were shared, or that a known item has, prove less."""
    weak = shared | {(Rung.GUID, one.guid_key) for one in present} | {(Rung.LINK, one.link_key) for one in present}

    def find_guid(one: EntryTrace) -> str | None:
        return None if (Rung.GUID, one.guid_key) in weak else one.guid_key

    def find_link(one: EntryTrace) -> str | None:
        return None if (Rung.LINK, one.link_key) in weak else one.link_key

    return [
        Rule(find_guid),
        Rule(lambda one: one.guid_key and (one.guid_key, one.content_hash)),
        Rule(find_link, lambda new, old: new.rung is not old.rung),
        Rule(lambda one: one.link_key and _find_content(one) and (one.link_key, one.content_hash)),
        Rule(
            lambda one: one.link_key and _find_title(one) and (one.link_key, one.title_hash),
            lambda new, old: max(new.rung, old.rung) > Rung.GUID,
        ),
        Rule(_find_content, lambda new, old: new.rung is not old.rung and None in (new.link_key, old.link_key)),
        Rule(lambda one: one.page_key and (one.page_key, one.content_hash)),
        Rule(lambda one: one.page_key),
    ]


def _find_title(one: EntryTrace) -> str | None:
    return None if _EMPTY.startswith(one.title_hash) else one.title_hash


def _find_text(one: EntryTrace) -> str | None:
    text = one.content_hash[TITLE_HASH:]
    return None if _EMPTY.endswith(text) else text


def _find_content(one: EntryTrace) -> str | None:
    return None if one.content_hash == _EMPTY else one.content_hash


def _pair_unique(rule: Rule, new: Iterable[EntryTrace], old: Iterable[EntryTrace], found: dict[str, str]) -> None:
    """Add the pairs of items that alone have the same feature."""
    given = set(found.values())
    by_new = _index_unique([one for one in new if one.identity not in found], rule.feature)
    by_old = _index_unique([one for one in old if one.identity not in given], rule.feature)
    for feature, one in by_new.items():
        match = by_old.get(feature)
        if match is not None and rule.holds(one, match):
            found[one.identity] = match.identity


def _pair_most(new: Sequence[EntryTrace], old: Iterable[EntryTrace], found: dict[str, str]) -> None:
    """Pair items by content, title or text alone, if that pairs most of a document of which every identity is new.

    One equal title may be “Weather today”; if most are equal, the items were renamed. Where most of those recognised
    so far kept their links, an equal title under another link is another item's.
    """
    old = list(old)
    links = {one.identity: one.link_key for one in old}
    kept = [one for one in new if one.link_key and one.link_key == links.get(found.get(one.identity, ""))]
    moved = len(kept) * 2 <= len(found)

    def may_be_same(one: EntryTrace, other: EntryTrace) -> bool:
        return moved or one.link_key == other.link_key or None in (one.link_key, other.link_key)

    for feature in (_find_content, _find_title, _find_text):
        pairs = dict(found)
        _pair_unique(Rule(feature, may_be_same), new, old, pairs)
        if len(pairs) * 2 > len(new):
            found.update(pairs)


def _index_unique(traces: Sequence[EntryTrace], feature: FindFeature) -> dict[object, EntryTrace]:
    features = [feature(one) for one in traces]
    counts = Counter(features)
    return {value: one for value, one in zip(features, traces, strict=True) if value is not None and counts[value] == 1}


def _match_stored(
    strange: Sequence[tuple[EntryTrace, Entry[Markup]]],
    stored: Mapping[str, str],
    used: Set[str | None],
    found: dict[str, str],
) -> None:
    """Match items that left the window and come back: by an identity of another rung and the same title.

    A link that items of the document or of the last window have (`used`) proves nothing.
    """
    others = {
        one.identity: list_other_identities(entry, one.identity)
        for one, entry in strange
        if one.link_key not in used and _find_title(one)
    }
    bearers = Counter(other for names in others.values() for other in names)
    given = set(found.values())
    for one, _ in strange:
        for other in others.get(one.identity, ()):
            same = stored.get(other, "")[:TITLE_HASH] == one.title_hash
            if same and bearers[other] == 1 and other not in given:
                found[one.identity] = other
                given.add(other)
                break
