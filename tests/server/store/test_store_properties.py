"""Every value that novelty can produce is read back unchanged, from both databases."""

from __future__ import annotations

import itertools

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from headwater.model import Enclosure, Ending, Episode, Hints, Item, Known, Person, Refresh, Source, Validators, Verdict
from headwater.store.content.feed_state import find_seen_identities, load_feed_states
from headwater.store.content.items import find_item, list_items
from headwater.store.content.outbox import find_last_position, list_outbox_entries
from headwater.store.content.refreshes import list_refreshes
from headwater.store.content.verdicts import save_refreshes
from headwater.store.store import Store
from support.store_samples import NOW, one_feed

COUNTER = itertools.count()  # a fresh feed for every example

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
maybe_text = st.none() | texts
times = st.floats(-1e11, 1e11, allow_nan=False)
maybe_time = st.none() | times
counts = st.integers(0, 2**31 - 1)
several = st.lists(texts, max_size=3).map(tuple)
sizes = st.none() | counts
enclosures = st.builds(
    Enclosure,
    texts,
    maybe_text,
    st.none() | st.integers(0, 2**63 - 1),
    sizes,
    sizes,
    maybe_time,
    maybe_text,
    maybe_text,
)
people = st.builds(Person, maybe_text, maybe_text, maybe_text)
episodes = st.builds(
    Episode,
    maybe_time,
    maybe_time,
    maybe_time,
    maybe_text,
    st.none() | enclosures,
    st.lists(enclosures, max_size=2).map(tuple),
)
hints = st.builds(
    Hints,
    ttl=maybe_time,
    skip_hours=st.lists(st.integers(0, 23), max_size=3).map(tuple),
    skip_days=several,
    update_period=maybe_text,
    update_frequency=st.none() | counts,
    update_base=maybe_time,
)
items = st.builds(
    Item,
    feed_id=st.just(0),
    identity=texts,
    content_hash=texts,
    title=maybe_text,
    link=maybe_text,
    published=times,
    dated=st.booleans(),
    updated=maybe_time,
    first_seen=times,
    authors=several,
    summary=maybe_text,
    content=maybe_text,
    categories=several,
    enclosures=st.lists(enclosures, max_size=2).map(tuple),
    language=maybe_text,
    source=st.none() | st.builds(Source, texts, maybe_text),
    version=st.just(1),
    id=st.none(),
    image=maybe_text,
    people=st.lists(people, max_size=2).map(tuple),
    episode=st.none() | episodes,
)
knowns = st.builds(
    Known,
    feed_id=st.just(0),
    url=st.just(""),
    validators=st.builds(Validators, maybe_text, maybe_text),
    window=st.lists(st.tuples(texts, texts), max_size=4).map(tuple),
    hints=hints,
    failures=counts,
    moves=counts,
    unstable=counts,
    **dict.fromkeys(("body_hash", "last_error", "moved_to", "hub", "topic"), maybe_text),
    **dict.fromkeys(("last_refresh", "last_success", "last_change", "next_refresh"), maybe_time),
    **dict.fromkeys(("not_before", "fresh_until", "failing_since"), maybe_time),
)
refreshes = st.builds(
    Refresh,
    feed_id=st.just(0),
    at=st.floats(0, 1e10),
    ending=st.sampled_from(Ending),
    status=st.none() | st.integers(100, 599),
    elapsed=st.floats(0, 1e6),
    bytes=st.integers(0, 2**40),
    updated=st.just(0),
    duplicates=counts,
    window=st.none() | counts,
    overlap=st.none() | counts,
    saturated=st.booleans(),
    lost=st.floats(0, 1e6),
    reason=texts,
    message=texts,
    published=st.lists(times, max_size=3).map(tuple),
)
quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@quick
@given(new=st.lists(items, max_size=4, unique_by=lambda one: one.identity), known=knowns, refresh=refreshes)
async def test_what_is_saved_is_read_back(store: Store, new: list[Item], known: Known, refresh: Refresh) -> None:
    feed = await one_feed(store, f"https://example.org/{next(COUNTER)}")
    mine = tuple(replace(one, feed_id=feed.id) for one in new)
    known = replace(known, feed_id=feed.id, url=feed.url)
    refresh = replace(refresh, feed_id=feed.id, new=len(mine))
    (saved,) = await save_refreshes(store, [Verdict(refresh, known, mine)])
    assert saved.skipped is None
    assert saved.new == mine
    assert [await store.read(find_item, id) for id in saved.new_ids] == [
        replace(one, id=id) for one, id in zip(mine, saved.new_ids, strict=True)
    ]
    # Only a parsed document has a window; after any other ending the feed keeps its window, here none.
    read = refresh.ending in (Ending.CHANGED, Ending.PARTIAL)
    assert await store.read(load_feed_states, [feed.id]) == {feed.id: known if read else replace(known, window=())}
    assert await store.read(list_refreshes, feed.id) == [refresh]
    expected = {one.identity: one.content_hash for one in mine}
    assert await store.read(find_seen_identities, {feed.id: [*expected, "not there"], 0: ["x"]}) == {
        feed.id: expected,
        0: {},
    }


def test_the_samples_draw_every_field() -> None:
    """A field added to the model must be drawn here too, or its round trip is not tested."""
    assert len(Known.__struct_fields__) == 20
    assert len(Item.__struct_fields__) == 21
    assert len(Refresh.__struct_fields__) == 16


@quick
@given(
    batches=st.lists(
        st.lists(st.tuples(st.integers(0, 2), st.sets(st.sampled_from("abcdef"))), min_size=1, max_size=4), max_size=4
    )
)
async def test_items_and_outbox_are_what_a_set_would_be(
    store: Store, batches: list[list[tuple[int, set[str]]]]
) -> None:
    """Compares with the simplest model: a set of (feed, identity), and a list of additions."""
    feeds = [await one_feed(store, f"https://example.org/{next(COUNTER)}") for _ in range(3)]
    start = await store.read(find_last_position)
    model: set[tuple[int, str]] = set()
    announced: list[tuple[int, str]] = []
    at = itertools.count()
    for batch in batches:
        verdicts = []
        for number, identities in batch:
            feed = feeds[number]
            new = tuple(Item(feed.id, one, "h", None, None, NOW, False, None, NOW) for one in sorted(identities))
            verdicts.append(Verdict(Refresh(feed.id, NOW + next(at), Ending.CHANGED), Known(feed.id, feed.url), new))
            announced += [(feed.id, one) for one in sorted(identities) if (feed.id, one) not in model]
            model |= {(feed.id, one) for one in identities}
        await save_refreshes(store, verdicts)
    stored = [(item.feed_id, item.identity) for feed in feeds for item in await store.read(list_items, feed_id=feed.id)]
    assert sorted(stored) == sorted(model)
    assert [(one.item.feed_id, one.item.identity) for one in await store.read(list_outbox_entries, start)] == announced
