"""Different items are never merged, and a feed that changes its identities does not flood its readers."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from headwater.errors import InputError
from headwater.formats import read_to_keep
from headwater.model import Document, Ending, Entry, Known, Markup, Outcome, Verdict
from headwater.novelty import find_unknown_identities, judge
from headwater.novelty.item_identity import name_entries

NOW = 1_700_000_000.0
Documents = list[tuple[str, tuple[Entry[Markup], ...]]]


class Feed:
    """A feed whose documents are judged one after the other; it remembers as much as the store would."""

    def __init__(self, known: Known | None = None, seen: dict[str, str] | None = None) -> None:
        self.known = known or Known(1, "http://f.example/rss")
        self.seen = seen or {}
        self.stored = 0

    def read(self, *entries: Entry[Markup], ending: Ending = Ending.CHANGED) -> Verdict:
        url = "http://f.example/rss"
        outcome = Outcome(ending, url, url, NOW, 0.0, document=Document("rss 2.0", items=entries))
        asked = find_unknown_identities(self.known, outcome)
        verdict = judge(self.known, outcome, {one: self.seen[one] for one in asked if one in self.seen})
        self.seen |= {one.identity: one.content_hash for one in verdict.new + verdict.updated}
        self.seen |= {one.identity: one.content_hash for one in verdict.aliases}
        self.known, self.stored = verdict.known, self.stored + len(verdict.new)
        return verdict


def item(k: int, **more: object) -> Entry[Markup]:
    made = Entry(f"guid-{k}", f"http://f.example/{k}", f"Title {k}", NOW - 100 * k, content=Markup(f"<p>Text {k}</p>"))
    return replace(made, **more)  # type: ignore[arg-type]


def test_links_that_differ_only_after_the_hash_are_different_items() -> None:
    assert len(Feed().read(*[item(k, id=None, link=f"http://f.example/log#day-{k}") for k in range(11)]).new) == 11


def test_items_that_share_one_link_are_told_apart_by_title_then_by_text() -> None:
    titled = [item(k, id=None, link="http://f.example/") for k in range(15)]
    assert len(Feed().read(*titled).new) == 15
    untitled = [replace(one, title="News") for one in titled]
    assert len(Feed().read(*untitled).new) == 15


def test_a_guid_shared_by_items_with_one_link_is_not_trusted() -> None:
    shared = [item(k, id="http://f.example/show.mp3", link="http://f.example/") for k in range(2)]
    assert len(Feed().read(*shared).new) == 2


def test_a_shared_guid_stays_distrusted_while_the_feed_shows_it() -> None:
    feed = Feed()
    feed.read(item(1, id="site"), item(2, id="site"))
    assert feed.read(item(2, id="site")).new == ()
    assert [one.title for one in feed.read(item(3, id="site")).new] == ["Title 3"]


def test_a_shared_link_stays_distrusted_while_the_feed_shows_it() -> None:
    feed, link = Feed(), "http://f.example/"
    feed.read(item(1, id=None, link=link), item(2, id=None, link=link))
    assert feed.read(item(2, id=None, link=link)).new == ()
    assert [one.title for one in feed.read(item(3, id=None, link=link)).new] == ["Title 3"]


def test_a_second_item_at_the_same_link_does_not_rename_the_first() -> None:
    feed, link = Feed(), "http://f.example/"
    feed.read(item(1, id=None, link=link))
    assert [one.title for one in feed.read(item(2, id=None, link=link), item(1, id=None, link=link)).new] == ["Title 2"]


def test_the_same_text_under_another_guid_and_link_is_another_item() -> None:
    feed, daily = Feed(), {"title": "Weather today", "content": None}
    feed.read(item(1, **daily), item(2))
    assert [one.identity for one in feed.read(item(3, **daily), item(2)).new] == ["guid-3"]


def test_a_page_that_every_issue_links_to_does_not_swallow_issues() -> None:
    feed = Feed()
    for k in range(4):
        assert len(feed.read(item(k, link="http://f.example/daily")).new) == 1


def send_no_guid(one: Entry[Markup]) -> Entry[Markup]:
    return replace(one, id=None)


def use_link_as_guid(one: Entry[Markup]) -> Entry[Markup]:
    return replace(one, id=one.link)


def move_to_https(one: Entry[Markup]) -> Entry[Markup]:
    def move(address: str | None) -> str | None:
        return address and address.replace("http://", "https://")

    return replace(one, id=move(one.id), link=move(one.link))


def add_tracking(one: Entry[Markup]) -> Entry[Markup]:
    def track(address: str | None) -> str | None:
        if not address or not address.startswith("http"):
            return address
        page, hash_sign, fragment = address.partition("#")
        return f"{page}{'&' if '?' in page else '?'}utm_source=rss&utm_medium=feed{hash_sign}{fragment}"

    return replace(one, id=track(one.id), link=track(one.link))


def use_new_guid(one: Entry[Markup]) -> Entry[Markup]:
    return replace(one, id=f"urn:new:{one.title}{one.link}")


def stay(one: Entry[Markup]) -> Entry[Markup]:
    return one


CHANGES = (stay, send_no_guid, use_link_as_guid, move_to_https, add_tracking, use_new_guid)
Change = Callable[[Entry[Markup]], Entry[Markup]]


@pytest.mark.parametrize("after", CHANGES)
@pytest.mark.parametrize("before", CHANGES)
def test_a_feed_that_changes_its_identities_brings_nothing_twice(before: Change, after: Change) -> None:
    feed, items = Feed(), [item(k) for k in range(10)]
    feed.read(*map(before, items[:8]))
    changed = feed.read(*map(after, items))
    assert {one.title for one in changed.new} == {"Title 8", "Title 9"}
    assert changed.updated == ()
    assert feed.read(*map(after, items)).new == ()


def test_a_new_item_with_an_old_title_is_new_while_its_feed_changes_its_identities() -> None:
    feed, items = Feed(), [item(k) for k in range(8)]
    feed.read(*items)
    invitation = item(9, title=items[7].title, content=Markup("<p>Another year, another party</p>"))
    assert [one.link for one in feed.read(*map(send_no_guid, [invitation, *items[:7]])).new] == [invitation.link]


def test_an_item_that_left_the_window_is_known_by_its_new_identity() -> None:
    feed, items = Feed(), [item(k) for k in range(6)]
    feed.read(*map(send_no_guid, items[:4]))
    feed.read(*items[:4])  # it begins to send guids
    feed.read(*items[4:])
    assert feed.read(*items).new == ()


def test_items_behind_the_window_are_recognised_when_a_longer_document_comes_with_guids() -> None:
    feed, items = Feed(), [item(k) for k in range(30)]
    for start in range(0, 30, 5):
        feed.read(*map(send_no_guid, items[start : start + 5]))
    assert feed.read(*map(move_to_https, items)).new == ()


NUMBERS = st.integers(0, 3)
LINKS = ("http://f.example/", "http://f.example/#a", "http://f.example/b", "http://f.example/b#c")


@settings(max_examples=300)
@given(
    st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=2, max_size=8, unique=True),
    st.sampled_from(CHANGES),
    st.booleans(),
)
def test_different_items_of_a_document_are_never_merged(
    parts: list[tuple[int, int, int]], change: Change, guids: bool
) -> None:
    """Links, titles and texts are shared at will; only whole items differ."""
    items = [
        item(place, link=LINKS[link], title=f"Title {title}", content=Markup(f"<p>Text {text}</p>"), published=NOW)
        for place, (link, title, text) in enumerate(parts)
    ]
    verdict = Feed().read(*[change(one if guids else send_no_guid(one)) for one in items])
    assert (len(verdict.new), verdict.refresh.duplicates) == (len(items), 0)


@settings(max_examples=300)
@given(st.lists(st.sampled_from(CHANGES), min_size=1, max_size=5), st.lists(st.integers(0, 3), min_size=5, max_size=5))
def test_changes_of_the_ladder_neither_create_duplicates_nor_lose_items(
    changes: list[Change], steps: list[int]
) -> None:
    """A feed of six items, publishing `steps` more between two documents, changes its identities at each."""
    feed, published = Feed(), 6
    feed.read(*[item(k) for k in range(6)])
    for change, step in zip(changes, steps, strict=False):
        published += step
        feed.read(*[change(item(k)) for k in range(published - 6, published)])
        assert feed.stored == published


def test_a_window_of_0_2_0_is_recognised() -> None:
    """0.2.0 named items by guid or by the link without its fragment, and stored no keys."""
    linked = [item(k, id=None, link=f"http://f.example/{k}#more") for k in range(4)]
    guided = [item(k) for k in range(4, 8)]
    first = Feed()
    first.read(*linked, *guided)
    hashes = dict(first.known.window)
    old = {name.partition("#")[0]: stored[:24] for name, stored in hashes.items()}
    known = replace(first.known, window=tuple(old.items()))
    for change in (stay, move_to_https, add_tracking):
        feed = Feed(known, {name: stored[:16] for name, stored in old.items()})
        verdict = feed.read(*map(change, [*linked, *guided]))
        assert (verdict.new, verdict.updated) == ((), ())


def test_of_items_that_0_2_0_merged_the_stored_one_is_recognised() -> None:
    merged = [item(k, id=None, link=f"http://f.example/log#{k}") for k in range(5)]
    first = Feed()
    first.read(merged[0])
    [(_, stored)] = first.known.window
    old = (("link:http://f.example/log", stored[:24]),)
    verdict = Feed(replace(first.known, window=old), {old[0][0]: stored[:16]}).read(*merged)
    assert [one.title for one in verdict.new] == [f"Title {k}" for k in range(1, 5)]


def test_a_partial_document_keeps_the_rest_of_the_window_once() -> None:
    feed, items = Feed(), [item(k) for k in range(4)]
    feed.read(*map(send_no_guid, items))
    feed.read(items[0], ending=Ending.PARTIAL)
    assert len(feed.known.window) == 4
    assert feed.read(*items).new == ()


@pytest.fixture(scope="module")
def documents(shared_data: Path) -> Documents:
    """Return the items of real documents, by file."""
    found = []
    with tarfile.open(shared_data / "feeds.tar.xz") as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            with suppress(InputError):
                if file is not None:
                    found.append((member.name, read_to_keep(file.read(), url="https://source.example/feed").items))
    return found


def test_only_exact_repetitions_of_real_documents_are_merged(documents: Documents) -> None:
    for name, entries in documents:
        assert len(set(name_entries(entries))) == len(set(entries)), name


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=[pytest.mark.soak, pytest.mark.timeout(0)])])
def test_real_feeds_that_change_their_identities_bring_nothing_twice(documents: Documents, every: int) -> None:
    for name, entries in documents[::every]:
        feed = Feed()
        verdict = feed.read(*entries)
        assert verdict.refresh.duplicates == len(entries) - len(verdict.new), name
        for change in (send_no_guid, move_to_https, add_tracking):
            again = Feed(feed.known, dict(feed.seen)).read(*map(change, entries))
            assert again.new == (), (name, change)


def test_a_feed_with_new_guids_and_counters_in_its_titles_brings_nothing_twice() -> None:
    feed, items = Feed(), [item(k) for k in range(6)]
    for round in range(4):
        given = [
            replace(one, id=f"{round}/{k}", title=f"{one.title} ({round} comments)") for k, one in enumerate(items)
        ]
        assert len(feed.read(*given).new) == (6 if round == 0 else 0)
