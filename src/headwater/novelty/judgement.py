"""Judges a refresh: new, changed and lost items, and what to remember."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice

import msgspec

from headwater.model import (
    Alias,
    Document,
    Ending,
    Entry,
    FetchedEntry,
    Item,
    Known,
    Markup,
    Outcome,
    Refresh,
    Verdict,
)
from headwater.novelty.item_identity import (
    CONTENT_HASH,
    KEYS,
    RAW_HASH,
    UNSTABLE_AFTER,
    Name,
    clean_entry,
    content_hash,
    describe_keys,
    describe_source,
    find_keys,
    list_other_identities,
    name_entries,
    raw_hash,
    trace_entry,
)
from headwater.novelty.loss import estimate_lost_items, overlaps_known
from headwater.novelty.publication_dates import date_by_last_modified, judge_dates, order_dates
from headwater.novelty.recognition import Recognised, recognise_items

FUTURE_TOLERANCE = 3600.0  # a date further ahead is a mistake: the item counts as undated
MOVED_AFTER = 3  # the address follows a permanent redirect seen this many times in a row
UNDATED_STEP = 1.0  # seconds between undated items, so that lists and published documents keep their order


def find_unknown_identities(known: Known, outcome: Outcome) -> list[str]:
    """Return the identities of a fetched document that the last window lacks; the store must be asked for them.

    Besides the item's own identity these are the ones it would have if its feed had changed its rung or its scheme.
    """
    if outcome.document is None or known.last_success is None:  # the store has no items of a feed never read
        return []
    window, entries = dict(known.window), outcome.document.items
    named = zip(entries, name_entries(entries, known.unstable, known.window), strict=True)
    unknown = [(entry, name.identity) for entry, name in named if name.identity not in window]
    others = [other for entry, name in unknown for other in list_other_identities(entry, name) if other not in window]
    return list(dict.fromkeys([*(name for _, name in unknown), *others]))


def judge(
    known: Known, outcome: Outcome, seen: Mapping[str, str], *, reason: str = "", rate: float | None = None
) -> Verdict:
    """Judge one outcome of a feed. `seen` holds the stored hashes of the identities from `find_unknown_identities`.

    `rate` is the expected rate of the feed, in items per second; it is used when a window without dates was saturated.
    """
    if outcome.document is not None and outcome.ending.ok:
        verdict = _judge_document(known, outcome, outcome.document, seen, reason, rate)
        return after_push(known, verdict) if outcome.pushed else verdict
    at = outcome.ended_at
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
    after = after_success(known, outcome, at) if outcome.ending.ok else after_failure(known, outcome, at)
    return apply_move(Verdict(refresh, after, gone=outcome.ending is Ending.GONE))


@dataclass(slots=True)
class _SortedItems:
    """The items of a document, sorted into new, updated and known ones."""

    window: dict[str, str] = field(default_factory=dict)
    new: list[Item] = field(default_factory=list)
    updated: list[Item] = field(default_factory=list)
    old: list[Entry[Markup]] = field(default_factory=list)
    plausible: list[float | None] = field(default_factory=list)  # dates of the new items, None if implausible
    aliases: list[Alias] = field(default_factory=list)
    duplicates: int = 0
    problem: str = ""  # the problem with the dates
    unstable: bool = False  # most guids have changed


def _sort_items(
    known: Known, outcome: Outcome, document: Document[Markup], seen: Mapping[str, str], at: float
) -> _SortedItems:
    entries = document.items
    names = name_entries(entries, known.unstable, known.window)
    had = {**seen, **dict(known.window)}
    clean, hashes, ends = _clean_changed(document, names, had)
    again = Recognised({}, 0)
    if had and any(name.identity not in had for name in names):
        traces = [
            trace_entry(entry, name.identity, digest, end[RAW_HASH : RAW_HASH + KEYS])
            for entry, name, digest, end in zip(entries, names, hashes, ends, strict=True)
        ]
        again = recognise_items(entries, traces, known, seen)
    given_dates = [entry.published if entry.published is not None else entry.updated for entry in entries]
    old_names = [again.identities.get(name.identity, name.identity) for name in names]
    dates, problem = judge_dates(known, outcome, given_dates, old_names, at)
    found = _SortedItems(problem=problem, unstable=again.new_guids * 2 > len(set(names)))
    window = found.window
    for place, (name, digest, given, date) in enumerate(zip(names, hashes, given_dates, dates, strict=True)):
        identity, old_name = name.identity, old_names[place]
        if identity in window:  # keep the first
            found.duplicates += 1
            continue
        window[identity] = digest + ends[place]
        if old_name != identity:
            found.aliases.append(Alias(identity, old_name, digest))
        last = had.get(old_name)
        if last is None and place in clean:
            found.new.append(_make_item(known.feed_id, identity, digest, clean[place], given, at))
            found.plausible.append(date)
        else:
            found.old.append(entries[place])
            if last is not None and last[:CONTENT_HASH] != digest:
                found.updated.append(_make_item(known.feed_id, identity, digest, clean[place], given, at))
    found.new = _date_undated(found.new, at, first=known.last_success is None)
    return found


def _date_undated(new: list[Item], at: float, *, first: bool) -> list[Item]:
    """Date undated items by the time of the refresh, in the order of the document.

    In a feed's first document they go below the dated ones: nobody knows how old they are.
    """
    dated = [item.published for item in new if item.dated]
    if len(dated) == len(new):
        return new
    last = min(at, min(dated) - UNDATED_STEP) if first and dated else at
    steps = count()
    return [
        item if item.dated else msgspec.structs.replace(item, published=last - UNDATED_STEP * next(steps))
        for item in new
    ]


def _clean_changed(
    document: Document[Markup], names: Sequence[Name], had: Mapping[str, str]
) -> tuple[dict[int, Entry], list[str], list[str]]:
    """Clean the entries that are not exactly as before.

    Return them by place, and of every entry the hash of its content and the rest of its entry in the window. Entries
    that were not read are as before.
    """
    clean: dict[int, Entry] = {}
    hashes, ends = [], []
    for place, (name, entry) in enumerate(zip(names, document.items, strict=True)):
        if isinstance(entry, FetchedEntry) and entry.stored is not None:
            hashes.append(entry.stored[:CONTENT_HASH])
            ends.append(entry.stored[CONTENT_HASH:])
            continue
        raw, last = raw_hash(entry), had.get(name.identity, "")
        keys = None
        if last[CONTENT_HASH : CONTENT_HASH + RAW_HASH] == raw:
            hashes.append(last[:CONTENT_HASH])
            keys = find_keys(last)
        else:
            clean[place] = clean_entry(entry)
            hashes.append(content_hash(clean[place]))
        ends.append(raw + (keys or describe_keys(entry, name.rung)) + describe_source(entry, name.rung))
    return clean, hashes, ends


def _judge_document(
    known: Known, outcome: Outcome, document: Document[Markup], seen: Mapping[str, str], reason: str, rate: float | None
) -> Verdict:
    at = outcome.ended_at
    found = _sort_items(known, outcome, document, seen, at)
    # A partial or damaged document says nothing about what is not in it.
    complete = outcome.ending is not Ending.PARTIAL and not document.missing
    last, lost = known.last_success, None
    if complete and last is not None and known.window and found.new and not overlaps_known(found.plausible, found.old):
        lost = estimate_lost_items(found.plausible, last, at, rate)
    bounded = outcome.pushed or document.missing > 0
    window = found.window if complete else _merge_window(known, found, bounded=bounded)
    refresh = Refresh(
        feed_id=known.feed_id,
        at=at,
        ending=outcome.ending,
        status=outcome.status,
        elapsed=outcome.elapsed,
        bytes=outcome.bytes,
        new=len(found.new),
        updated=len(found.updated),
        duplicates=found.duplicates,
        window=len(window),
        overlap=len(found.old),
        saturated=lost is not None,
        lost=lost or 0.0,
        reason=reason,
        message="; ".join(filter(None, [outcome.message, document.describe_missing(), found.problem])),
        published=order_dates(found.plausible, at) or date_by_last_modified(known, outcome, len(found.new), at),
    )
    after = msgspec.structs.replace(
        after_success(known, outcome, at),
        window=tuple(window.items()),
        body_hash=outcome.body_hash,
        last_change=at if found.new or found.updated else known.last_change,
        unstable=min(known.unstable + 1, UNSTABLE_AFTER) if found.unstable else known.unstable,
        hints=document.hints,
        hub=document.hub[0] if document.hub else None,
        topic=document.self or outcome.final_url if document.hub else None,
    )
    made = Verdict(
        refresh,
        after,
        tuple(found.new),
        tuple(found.updated),
        tuple(found.aliases),
        title=document.title,
        link=document.link,
    )
    return apply_move(made)


def _merge_window(known: Known, found: _SortedItems, *, bounded: bool) -> dict[str, str]:
    """Merge the known window into a document that shows only a part of it.

    `bounded` keeps it from growing: if a hub pushes the feed, polls are rare, and a damaged feed may stay damaged.
    """
    renamed = {alias.stored for alias in found.aliases}
    rest = {name: stored for name, stored in known.window if name not in found.window and name not in renamed}
    most = max(len(known.window), len(found.window)) if bounded else None
    return dict(islice({**found.window, **rest}.items(), most))


def accept_date(date: float | None, at: float) -> float | None:
    """Return the publisher's date of an item that arrived `at`; None if it lies more than an hour in the future."""
    return date if date is not None and 0 < date <= at + FUTURE_TOLERANCE else None


def _make_item(feed_id: int, identity: str, digest: str, entry: Entry, date: float | None, at: float) -> Item:
    """Make an item with the publisher's date, even one unfit for learning, unless it lies in the future."""
    date = accept_date(date, at)
    return Item(  # positional arguments take a fifth of the time, and a first refresh makes a whole window of items
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
        image=entry.image,
        people=entry.people,
        episode=entry.episode,
    )


# the state of a feed after a refresh: validators, failures, moves


def after_success(known: Known, outcome: Outcome, at: float) -> Known:
    """Return the state after a successful refresh."""
    return msgspec.structs.replace(
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
        moves=_count_redirects(known, outcome),
    )


def after_failure(known: Known, outcome: Outcome, at: float) -> Known:
    """Return the state after a failed refresh."""
    after = msgspec.structs.replace(
        known,
        last_refresh=at,
        not_before=known.not_before if outcome.retry_after is None else at + outcome.retry_after,
        failures=known.failures + 1,
        failing_since=at if known.failing_since is None else known.failing_since,
        last_error=outcome.message,
    )
    # A failure says nothing about a redirect: earlier sightings still count.
    return (
        msgspec.structs.replace(after, moved_to=outcome.moved_to, moves=_count_redirects(known, outcome))
        if outcome.moved_to
        else after
    )


def _count_redirects(known: Known, outcome: Outcome) -> int:
    """Count how often in a row the same permanent redirect has been seen."""
    if outcome.moved_to is None:
        return 0
    return known.moves + 1 if outcome.moved_to == known.moved_to else 1


def apply_move(verdict: Verdict) -> Verdict:
    """Move the feed to the target of a permanent redirect that was seen often enough.

    Validators belong to the address they came from.
    """
    known = verdict.known
    if known.moved_to is None or known.moves < MOVED_AFTER or not verdict.refresh.ending.ok:
        return verdict
    after = msgspec.structs.replace(known, url=known.moved_to, moved_to=None, moves=0)
    return msgspec.structs.replace(verdict, known=after, url=after.url)


def after_push(known: Known, verdict: Verdict) -> Verdict:
    """Return the verdict of a push.

    A push brings items and shows that the feed is alive, but it is not a poll: the next poll and the hints of server
    and document stay as they were.
    """
    after = msgspec.structs.replace(
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
    return msgspec.structs.replace(verdict, known=after, url=None)
