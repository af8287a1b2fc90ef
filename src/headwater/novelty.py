"""Old state + outcome + now → what is new, what was lost, what to write. Pure.

A refresh is judged in two steps, because only the store knows items that left the last window: `unknown` names the
identities it should be asked for, `judge` decides. An item is known by its identity (guid, else normalised link, else a
hash of its text); where a publisher changes identities, by its text among the items of the last window.

Loss: as long as a fetched window reaches back to something we knew, nothing was missed. When it does not, the window
was saturated, and the items between what we knew and what it shows are estimated from the dates it carries.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import islice

from headwater.estimate.kinds import ALL_NOW, Kind, believable, dating
from headwater.formats.dates import parse_date
from headwater.formats.urls import normalise
from headwater.model import Document, Ending, Entry, Item, Known, Outcome, Refresh, Verdict
from headwater.quick import changed

MOVED_AFTER = 3  # sights of the same permanent redirect before the stored address follows it
UNSTABLE_AFTER = 2  # windows whose identities changed under the same texts before guids are no longer believed
LONGEST_IDENTITY = 500
FUTURE = 3600.0  # a date further ahead than this is a mistake of the publisher: first sight counts
AT_ONCE = 5.0  # seconds within which all items of a document are dated when it is made at the request


def unknown(known: Known, outcome: Outcome) -> list[str]:
    """The identities of a fetched document that the last window does not tell about: ask the store for them."""
    if outcome.document is None or known.last_success is None:  # of a feed never read the store knows nothing
        return []
    window = dict(known.window)
    return [identity for identity in identities(outcome.document, known.unstable) if identity not in window]


def judge(
    known: Known, outcome: Outcome, seen: Mapping[str, str], *, reason: str = "", rate: float | None = None
) -> Verdict:
    """What one outcome means for a feed. `seen` holds the store's hashes of the identities `unknown` asked for.

    `rate` is what we believed about the feed, in items per second; it is used where a window without dates was
    saturated.
    """
    at = outcome.started + outcome.elapsed
    if outcome.document is not None and outcome.ending.ok:
        verdict = _judge_document(known, outcome, outcome.document, seen, at, reason, rate)
        return _pushed(known, verdict) if outcome.pushed else verdict
    refresh = Refresh(
        feed_id=known.feed_id,
        at=at,
        ending=outcome.ending,
        status=outcome.status,
        elapsed=outcome.elapsed,
        bytes=outcome.bytes,
        reason=reason,
        message=outcome.message,
        window=len(known.window) if outcome.ending is Ending.UNCHANGED else None,
        overlap=len(known.window) if outcome.ending is Ending.UNCHANGED else None,
    )
    after = _succeeded(known, outcome, at) if outcome.ending.ok else _failed(known, outcome, at)
    return _moved(Verdict(refresh, after, gone=outcome.ending is Ending.GONE))


def _by_last_modified(known: Known, outcome: Outcome, new: int, at: float) -> tuple[float, ...]:
    """Dates of new items that have none of their own: the newest is as old as the document, the others lie evenly
    since the last refresh. A document made anew for every request tells nothing."""
    since = known.last_success
    changed = parse_date(outcome.validators.last_modified) if outcome.validators else None
    if not new or since is None or changed is None or not since < changed < at - ALL_NOW:
        return ()
    return tuple(since + (changed - since) * (place + 1) / new for place in range(new))


def _judge_document(
    known: Known,
    outcome: Outcome,
    document: Document,
    seen: Mapping[str, str],
    at: float,
    reason: str,
    rate: float | None,
) -> Verdict:
    names = identities(document, known.unstable)
    hashes = [content_hash(entry) for entry in document.items]
    before = dict(known.window)
    renamed = _renamed(names, hashes, known, seen)
    names = [renamed.get(name, name) for name in names]

    window: dict[str, str] = {}
    new: list[Item] = []
    updated: list[Item] = []
    old: list[Entry] = []
    believed: list[float | None] = []  # of the new items: what may be learned from
    dates, odd = _dates(known, outcome, document, names, at)
    for name, digest, entry, date in zip(names, hashes, document.items, dates, strict=True):
        if name in window:  # the same item twice in one document: the first stands
            continue
        window[name] = digest
        last = before.get(name) or seen.get(name)
        if last is None:
            new.append(_item(known.feed_id, name, digest, entry, at))
            believed.append(date)
        else:
            old.append(entry)
            if last != digest:
                updated.append(_item(known.feed_id, name, digest, entry, at))

    first = known.last_success is None
    complete = outcome.ending is not Ending.PARTIAL  # a partial document says nothing about what is not in it
    saturated = complete and not first and bool(before) and bool(new) and not _reaches_back(believed, old)
    lost = estimated_loss(believed, known.last_success or at, at, rate) if saturated else 0.0
    if not complete:
        most = max(len(before), len(window)) if outcome.pushed else None  # polls are rare then: it must not only grow
        window = dict(islice({**window, **before}.items(), most))
    refresh = Refresh(
        feed_id=known.feed_id,
        at=at,
        ending=outcome.ending,
        status=outcome.status,
        elapsed=outcome.elapsed,
        bytes=outcome.bytes,
        new=len(new),
        updated=len(updated),
        window=len(window),
        overlap=len(old),
        saturated=saturated,
        lost=lost,
        reason=reason,
        message="; ".join(filter(None, [outcome.message, odd])),
        published=tuple(sorted(min(date, at) for date in believed if date is not None))
        or _by_last_modified(known, outcome, len(new), at),
    )
    after = changed(
        _succeeded(known, outcome, at),
        window=tuple(window.items()),
        body_hash=outcome.body_hash,
        last_change=at if new or updated else known.last_change,
        unstable=min(known.unstable + 1, UNSTABLE_AFTER) if _mostly(renamed, names) else known.unstable,
        hints=document.hints,
        hub=document.hub[0] if document.hub else None,
        topic=document.self or outcome.final_url if document.hub else None,
    )
    return _moved(Verdict(refresh, after, tuple(new), tuple(updated), title=document.title, link=document.link))


def _pushed(known: Known, verdict: Verdict) -> Verdict:
    """A push brings items and shows that the feed lives. When the feed is polled next, and what its own server and
    document ask for, is as it was: nobody has asked them."""
    after = changed(
        verdict.known,
        last_refresh=known.last_refresh,
        fresh_until=known.fresh_until,
        not_before=known.not_before,
        failures=known.failures,
        failing_since=known.failing_since,
        last_error=known.last_error,
        moved_to=known.moved_to,
        moves=known.moves,
        body_hash=known.body_hash,
        hints=known.hints,
        hub=known.hub,
        topic=known.topic,
    )
    return changed(verdict, known=after, url=None)


# identity


def identities(document: Document, unstable: int = 0) -> list[str]:
    """The identity of each item. A guid that stands on several different items, or changes, identifies nothing."""
    guids = {entry.id for entry in document.items}
    if unstable < UNSTABLE_AFTER and len(guids) == len(document.items) and None not in guids and "" not in guids:
        return [_short(entry.id) for entry in document.items]  # type: ignore[arg-type]  # each has one of its own
    bearers = Counter(guid for guid, _ in {(entry.id, entry.link or entry.title) for entry in document.items})
    distrusted = unstable >= UNSTABLE_AFTER
    return [_identity(entry, trusted=not distrusted and bearers[entry.id] == 1) for entry in document.items]


def _identity(entry: Entry, trusted: bool) -> str:
    if entry.id and trusted:
        return _short(entry.id)
    if entry.link:
        return _short("link:" + normalise(entry.link))
    if entry.id and not (entry.title or entry.content or entry.summary):
        return _short(entry.id)
    return "hash:" + _digest(f"{entry.title or ''}\0{(entry.content or entry.summary or '')[:200]}")


def _short(identity: str) -> str:
    return identity if len(identity) <= LONGEST_IDENTITY else "hash:" + _digest(identity)


def content_hash(entry: Entry) -> str:
    """Two halves, the title's and the text's, so that a changed identity can still be recognised by the title."""
    files = "\0".join([enclosure.url for enclosure in entry.enclosures]) if entry.enclosures else ""
    text = f"{entry.summary or ''}\0{entry.content or ''}\0{files}"
    return _digest(entry.title or "")[:8] + _digest(text)[:8]


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def _renamed(names: Sequence[str], hashes: Sequence[str], known: Known, seen: Mapping[str, str]) -> dict[str, str]:
    """New identities of items we had under another one: same text, or, where everything was renamed, same title."""
    if not known.window:
        return {}
    before = dict(known.window)
    strange = {
        name: digest for name, digest in zip(names, hashes, strict=True) if name not in before and name not in seen
    }
    if not strange:
        return {}
    left = [(name, digest) for name, digest in known.window if name not in set(names)]
    by_text = _unique(left, slice(None))
    found = {name: by_text[digest] for name, digest in strange.items() if digest in by_text}
    if len(strange) == len(set(names)) and len(found) * 2 < len(strange):
        by_title = _unique(left, slice(8))
        titles = {name: by_title[digest[:8]] for name, digest in strange.items() if digest[:8] in by_title}
        if len(titles) * 2 > len(strange):  # a single equal title is "Weather today"; most of them is a renaming
            found = titles
    return {name: old for old, name in {old: name for name, old in reversed(found.items())}.items()}  # one each


def _unique(window: Sequence[tuple[str, str]], part: slice) -> dict[str, str]:
    counts = Counter(digest[part] for _, digest in window)
    return {digest[part]: name for name, digest in window if counts[digest[part]] == 1}


def _mostly(renamed: Mapping[str, str], names: Sequence[str]) -> bool:
    return len(renamed) * 2 > len(set(names))


# loss


def _reaches_back(new: Sequence[float | None], old: Sequence[Entry]) -> bool:
    """Whether the document shows something known behind its new items.

    An item pinned to the top is known too but proves nothing: where dates tell, a known item must be as old as the
    oldest new one.
    """
    dates = [entry.published for entry in old if entry.published is not None]
    if not old:
        return False
    known = [date for date in new if date is not None]
    if len(dates) < len(old) or len(known) < len(new):
        return True
    return min(dates) <= min(known)


def estimated_loss(new: Sequence[float | None], last: float, now: float, rate: float | None) -> float:
    """How many items passed unread, when a window of only new items came back after the refresh at `last`.

    `new` holds the believable dates of those items, None where there is none.

    With dates: the pace inside the window, continued over the gap before it. Without: the mean excess of a Poisson
    count over the window, at the believed rate, or at the least rate that fills a window.

    >>> ten = [1000.0 + 10 * k for k in range(10)]
    >>> estimated_loss(ten, last=900.0, now=2000.0, rate=None)  # one item per 10 s, 100 s not shown
    9.0
    """
    dates = sorted(date for date in new if date is not None)
    if len(dates) == len(new) and len(dates) > 1 and dates[-1] > dates[0]:
        pace = (len(dates) - 1) / (dates[-1] - dates[0])
        return max(0.0, pace * (dates[0] - last) - 1.0)
    width = len(new)
    mean = max((rate or 0.0) * (now - last), float(width))
    return _excess(mean, width)


def _excess(mean: float, width: int) -> float:
    """E[N − width | N ≥ width] for N ~ Poisson(mean)."""
    if mean > 50 * width:
        return mean - width
    term = total = 1.0  # P(N = width + k) relative to P(N = width)
    weighted = 0.0
    k = 0
    while k < 10 or term > 1e-9 * total:
        k += 1
        term *= mean / (width + k)
        total += term
        weighted += k * term
        if not math.isfinite(total):
            return mean - width
    return weighted / total


# what is kept


def _dates(
    known: Known, outcome: Outcome, document: Document, names: Sequence[str], at: float
) -> tuple[tuple[float | None, ...], str]:
    """The date of each item where it can be believed, and in words what is odd about them (a `Kind`), if anything."""
    dates = [entry.published if entry.published is not None else entry.updated for entry in document.items]
    if outcome.ending is Ending.PARTIAL:  # a few new items of one moment are no forgery: only the whole window tells
        return tuple(believable([date], at)[0] for date in dates), ""
    last = known.last_success
    kind = dating(dates, at, last)
    if kind is Kind.ON_THE_FLY and not _made_now(known, names, dates):
        last = at  # a lively feed, not a forged one
        kind = dating(dates, at, last)
    return believable(dates, at, last), "" if kind is None else kind.value


def _made_now(known: Known, names: Sequence[str], dates: Sequence[float | None]) -> bool:
    """Whether dates that all lie in the last minutes are the moment of the request.

    Items we had before and that are dated after our last look prove it. Where there are none, the document was made in
    one go: within seconds.
    """
    before = {name for name, _ in known.window}
    old = [date for name, date in zip(names, dates, strict=True) if name in before and date is not None]
    if old:
        return sum(date > (known.last_success or 0.0) for date in old) * 2 > len(old)
    real = [date for date in dates if date is not None]
    return max(real) - min(real) < AT_ONCE


def _item(feed_id: int, identity: str, digest: str, entry: Entry, at: float) -> Item:
    """A reader sees the publisher's date even where nothing may be learned from it, unless it lies in the future."""
    date = entry.published if entry.published is not None else entry.updated
    if date is not None and not 0 < date <= at + FUTURE:
        date = None
    return Item(  # by place, which takes a fifth of the time: a first refresh makes as many as the window is long
        feed_id,
        identity,
        digest,
        entry.title,
        entry.link,
        at if date is None else date,
        date is not None,
        entry.updated,
        at,
        entry.authors,
        entry.summary,
        entry.content,
        entry.categories,
        entry.enclosures,
        entry.language,
        source=entry.source,
    )


def _succeeded(known: Known, outcome: Outcome, at: float) -> Known:
    return changed(
        known,
        validators=known.validators if outcome.validators is None else outcome.validators,
        last_refresh=at,
        last_success=at,
        not_before=None,
        fresh_until=None if outcome.fresh_for is None else at + outcome.fresh_for,
        failures=0,
        failing_since=None,
        last_error=None,
        moved_to=outcome.moved_to,
        moves=_sights(known, outcome),
    )


def _failed(known: Known, outcome: Outcome, at: float) -> Known:
    after = changed(
        known,
        last_refresh=at,
        not_before=known.not_before if outcome.retry_after is None else at + outcome.retry_after,
        failures=known.failures + 1,
        failing_since=at if known.failing_since is None else known.failing_since,
        last_error=outcome.message,
    )
    # A failure on the way says nothing about a move: earlier sights of it still count.
    return changed(after, moved_to=outcome.moved_to, moves=_sights(known, outcome)) if outcome.moved_to else after


def _sights(known: Known, outcome: Outcome) -> int:
    """How often in a row the same permanent redirect has been seen."""
    if outcome.moved_to is None:
        return 0
    return known.moves + 1 if outcome.moved_to == known.moved_to else 1


def _moved(verdict: Verdict) -> Verdict:
    """A permanent redirect seen often enough moves the feed; validators belong to the address they came from."""
    known = verdict.known
    if known.moved_to is None or known.moves < MOVED_AFTER or not verdict.refresh.ending.ok:
        return verdict
    moved = changed(known, url=known.moved_to, moved_to=None, moves=0)
    return changed(verdict, known=moved, url=moved.url)
