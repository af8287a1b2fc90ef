"""A refresh is judged: identity, updates, loss, moves, and the feed's next state."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from headwater.formats.values.html import clean_early, hash_markup
from headwater.model import Document, Enclosure, Ending, Entry, Hints, Known, Markup, Outcome, Validators, Verdict
from headwater.novelty import estimate_lost_items, find_unknown_identities, identify_items, judge

NOW = 1_700_000_000.0


def fetched(*entries: Entry, at: float = NOW, ending: Ending = Ending.CHANGED, **more: object) -> Outcome:
    document = Document("rss 2.0", items=entries)
    url = "http://f.example/rss"
    return replace(Outcome(ending, url, url, at, 0.0, status=200, document=document), **more)  # type: ignore[arg-type]


def failed(ending: Ending, **more: object) -> Outcome:
    url = "http://f.example/rss"
    return replace(Outcome(ending, url, url, NOW, 0.0, message="It failed."), **more)  # type: ignore[arg-type]


def entry(k: int, **more: object) -> Entry:
    made = Entry(id=f"guid-{k}", link=f"http://f.example/{k}", title=f"Title {k}", published=NOW - 86_400 + 100 * k)
    return replace(made, **more)  # type: ignore[arg-type]


def entries(*numbers: int) -> list[Entry]:
    return [entry(k) for k in sorted(numbers, reverse=True)]


def after(*outcomes: Outcome, known: Known | None = None) -> Verdict:
    """Judge several outcomes in a row and return the last verdict; the store knows every identity."""
    state = known or Known(1, "http://f.example/rss")
    seen: dict[str, str] = {}
    for outcome in outcomes:
        verdict = judge(state, outcome, {i: seen[i] for i in find_unknown_identities(state, outcome) if i in seen})
        seen |= {item.identity: item.content_hash for item in verdict.new + verdict.updated}
        state = verdict.known
    return verdict


def test_everything_is_new_at_the_first_refresh_and_nothing_is_lost() -> None:
    verdict = after(fetched(*entries(1, 2, 3)))
    assert [item.identity for item in verdict.new] == ["guid-3", "guid-2", "guid-1"]
    assert (verdict.refresh.new, verdict.refresh.window, verdict.refresh.overlap) == (3, 3, 0)
    assert not verdict.refresh.saturated
    assert verdict.refresh.lost == 0


def test_only_unknown_items_are_new_and_the_overlap_is_counted() -> None:
    verdict = after(fetched(*entries(1, 2, 3)), fetched(*entries(2, 3, 4)))
    assert [item.identity for item in verdict.new] == ["guid-4"]
    assert (verdict.refresh.overlap, verdict.refresh.saturated) == (2, False)


def test_an_item_that_left_the_window_and_came_back_is_not_new() -> None:
    verdict = after(fetched(*entries(1, 2)), fetched(*entries(2, 3)), fetched(*entries(1, 3)))
    assert verdict.new == ()
    assert verdict.updated == ()


def test_a_changed_text_under_the_same_identity_is_an_update() -> None:
    verdict = after(fetched(entry(1)), fetched(entry(1, title="Corrected")))
    assert verdict.new == ()
    assert [item.title for item in verdict.updated] == ["Corrected"]
    assert verdict.refresh.updated == 1


def test_hashes_of_texts_stay_compatible_with_stored_ones() -> None:
    """A different hash would turn every stored item into an update."""
    files = (Enclosure("http://f.example/1.mp3"), Enclosure("http://f.example/2.mp3"))
    texts = Entry(id="1", title="Título", summary=Markup("short"), content=Markup("<p>long</p>"), enclosures=files)
    verdict = after(fetched(texts, Entry(id="2"), Entry(id="3", title="\ud800")))
    assert [item.content_hash for item in verdict.new] == ["a2dbf8788e354d95", "cae6694171d0aacb", "0c26add671d0aacb"]


def test_an_item_is_cleaned_when_it_is_stored_and_left_alone_while_it_stays_as_it_was() -> None:
    hostile = Markup("<p onclick='x()'>Hi <a href='/a'>there</a></p>", "http://f.example/rss")
    first = after(fetched(entry(1, content=hostile)))
    assert first.new[0].content == '<p>Hi <a href="http://f.example/a" rel="noopener noreferrer">there</a></p>'
    again = fetched(entry(1, content=replace(hostile, text="", raw_hash=hash_markup(hostile))))  # cleaned: to nothing
    assert judge(first.known, again, {}).updated == ()


def test_what_cleaning_removes_is_no_change() -> None:
    first, second = (entry(1, content=Markup(f"<p class='x{number}'>Hi</p><!-- {number} -->")) for number in (1, 2))
    verdict = after(fetched(first), fetched(second))
    assert (verdict.new, verdict.updated) == ((), ())
    assert dict(after(fetched(first)).known.window) != dict(verdict.known.window)
    assert after(fetched(first), fetched(second), fetched(entry(1, content=Markup("<p>Ho</p>")))).refresh.updated == 1


def test_cleaning_in_another_process_is_no_change() -> None:
    markup = Markup("<p class='x'>Hi</p>")
    verdict = after(fetched(entry(1, content=markup)), fetched(entry(1, content=clean_early(markup))))
    assert verdict.refresh.updated == 0
    assert after(fetched(entry(1, content=clean_early(markup)))).new[0].content == "<p>Hi</p>"


def test_identity_is_the_guid_else_the_normalised_link_else_a_hash() -> None:
    document = Document(
        "rss 2.0",
        items=(
            Entry(id="x"),
            Entry(link="HTTP://A.example?utm_source=rss"),
            Entry(title="t", content=Markup("c")),
            Entry(id="y" * 600),
        ),
    )
    guid, link, text, long = identify_items(document)
    assert (guid, link) == ("x", "link:http://a.example/")
    assert text.startswith("hash:")
    assert long.startswith("hash:")


def test_guid_shared_by_different_items_is_ignored() -> None:
    verdict = after(fetched(entry(1, id="site"), entry(2, id="site")))
    assert len(verdict.new) == 2


def test_the_same_item_twice_in_one_document_is_one_item() -> None:
    verdict = after(fetched(entry(1), entry(1), entry(1), entry(2)))
    assert len(verdict.new) == 2
    assert verdict.refresh.duplicates == 2


def test_a_window_without_overlap_is_saturated_and_its_loss_estimated_from_the_dates() -> None:
    first = fetched(*entries(*range(10)), at=NOW - 86_400 + 950)
    verdict = after(first, fetched(*entries(*range(20, 30)), at=NOW - 86_400 + 2_900))
    assert verdict.refresh.saturated
    assert verdict.refresh.lost == pytest.approx(10.5)  # items 10 … 19 were lost; the estimate is off by half a gap


def test_a_pinned_item_does_not_hide_a_loss() -> None:
    pinned = entry(9, published=NOW)  # a notice the publisher keeps at the top, always dated now
    first = fetched(pinned, *entries(0, 1, 2), at=NOW - 86_400 + 250)
    assert after(first, fetched(pinned, *entries(50, 51, 52))).refresh.saturated


def test_a_partial_document_neither_saturates_nor_forgets_the_window() -> None:
    verdict = after(fetched(*entries(1, 2)), fetched(entry(3), ending=Ending.PARTIAL))
    assert [item.identity for item in verdict.new] == ["guid-3"]
    assert not verdict.refresh.saturated
    assert len(verdict.known.window) == 3


def test_a_damaged_document_says_what_is_missing_and_neither_saturates_nor_forgets_the_window() -> None:
    whole = fetched(*entries(1, 2))
    damaged = fetched(entry(3))
    assert damaged.document is not None
    damaged = replace(damaged, document=replace(damaged.document, missing=2))
    verdict = after(whole, damaged)
    assert verdict.refresh.message == "1 of about 3 items could be read"
    assert not verdict.refresh.saturated
    assert len(verdict.known.window) == 2  # it does not grow, however often the document is damaged
    assert [item.title for item in verdict.new] == [entry(3).title]


def test_without_dates_the_loss_is_the_poisson_excess_over_the_window() -> None:
    first = fetched(*[entry(k, published=None) for k in range(5)], at=NOW - 1000)
    known = after(first).known
    verdict = judge(known, fetched(*[entry(k, published=None) for k in range(10, 15)]), {}, rate=0.05)
    assert verdict.refresh.saturated
    assert verdict.refresh.lost == pytest.approx(45.0, abs=0.5)  # .05 items/s · 1000 s − 5


def test_identities_that_change_at_every_fetch_do_not_flood_the_store() -> None:
    def salted(salt: str) -> Outcome:
        return fetched(*[replace(e, id=f"{e.id}?{salt}") for e in entries(1, 2, 3, 4)])

    verdict = after(salted("a"), salted("b"), salted("c"), salted("d"))
    assert verdict.new == ()
    assert not verdict.refresh.saturated
    assert verdict.known.unstable == 2


def test_identities_and_texts_that_change_are_recognised_by_their_titles() -> None:
    def salted(salt: str) -> Outcome:
        return fetched(*[replace(e, id=f"{e.id}?{salt}", link=None, content=Markup(salt)) for e in entries(1, 2, 3, 4)])

    assert after(salted("a"), salted("b")).new == ()


def test_one_equal_title_alone_is_a_new_item() -> None:
    verdict = after(
        fetched(entry(1, title="Weather")), fetched(entry(2, title="Weather", content=Markup("sun")), entry(1))
    )
    assert [item.identity for item in verdict.new] == ["guid-2"]


def test_missing_or_future_date_becomes_the_time_of_the_refresh() -> None:
    verdict = after(fetched(entry(1, published=None), entry(2, published=NOW + 7200), entry(3, published=NOW + 60)))
    assert [(item.published, item.dated) for item in verdict.new] == [(NOW, False), (NOW - 1, False), (NOW + 60, True)]
    assert verdict.refresh.published == (NOW,)


def test_undated_items_of_the_first_document_keep_its_order_below_the_dated_ones() -> None:
    first = after(fetched(entry(1, published=None), entry(2), entry(3, published=None), entry(4)))
    by_date = sorted(first.new, key=lambda item: -item.published)
    assert [item.identity for item in by_date] == ["guid-4", "guid-2", "guid-1", "guid-3"]
    undated = after(fetched(*[entry(k, published=None) for k in range(5)]))
    assert [item.published for item in undated.new] == [NOW - k for k in range(5)]


def test_undated_items_of_later_documents_are_dated_by_first_sight() -> None:
    verdict = after(fetched(entry(1)), fetched(entry(2, published=None), entry(1), at=NOW + 500))
    assert [(item.published, item.dated) for item in verdict.new] == [(NOW + 500, False)]


def test_dates_unfit_for_learning_are_still_shown() -> None:
    midnight = NOW - NOW % 86_400
    verdict = after(fetched(*[entry(k, published=midnight) for k in range(5)]))
    assert {item.published for item in verdict.new} == {midnight}
    assert verdict.refresh.published == ()


def test_validators_of_a_304_are_kept_and_a_200_without_drops_them() -> None:
    first = fetched(entry(1), validators=Validators('"a"', "Mon"))
    same = failed(Ending.UNCHANGED, validators=Validators('"b"', "Tue"), message="")
    assert after(first, same).known.validators == Validators('"b"', "Tue")
    assert after(first, same, fetched(entry(1), validators=Validators())).known.validators == Validators()


@pytest.mark.parametrize("ending", [e for e in Ending if not e.ok])
def test_a_failure_keeps_items_window_and_validators(ending: Ending) -> None:
    verdict = after(fetched(*entries(1, 2), validators=Validators('"a"')), failed(ending))
    assert verdict.new == verdict.updated == ()
    assert len(verdict.known.window) == 2
    assert verdict.known.validators == Validators('"a"')
    assert (verdict.known.failures, verdict.known.last_error) == (1, "It failed.")
    assert verdict.gone is (ending is Ending.GONE)


def test_one_success_ends_a_series_of_failures() -> None:
    known = after(failed(Ending.BROKEN), failed(Ending.TIMEOUT), fetched(entry(1))).known
    assert (known.failures, known.failing_since, known.last_error) == (0, None, None)


def test_retry_after_and_max_age_are_stored_as_times() -> None:
    known = after(fetched(entry(1), fresh_for=600.0), failed(Ending.THROTTLED, retry_after=120.0)).known
    assert known.fresh_until == NOW + 600
    assert known.not_before == NOW + 120


def test_permanent_redirect_moves_the_feed_only_after_repetition() -> None:
    moved = fetched(entry(1), moved_to="http://g.example/rss")
    assert after(moved, moved).url is None
    assert after(moved, fetched(entry(1)), moved, moved).url is None
    verdict = after(moved, moved, moved)
    assert verdict.url == verdict.known.url == "http://g.example/rss"


def test_hub_and_hints_of_the_document_are_kept() -> None:
    document = Document("atom 1.0", hub=("http://hub.example/",), self="http://f.example/self", hints=Hints(ttl=60.0))
    known = after(replace(fetched(), document=document)).known
    assert (known.hub, known.topic, known.hints.ttl) == ("http://hub.example/", "http://f.example/self", 60.0)


@settings(max_examples=200)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=12), st.integers(1, 6))
def test_polling_stores_each_item_once_and_notices_every_loss(steps: list[int], width: int) -> None:
    """A feed that publishes `steps[k]` items before the k-th poll and shows the newest `width`."""
    known, seen, count, missed = Known(1, "http://f.example/rss"), {}, width, 0
    got: list[str] = []
    flagged = False
    for k, step in enumerate(steps):
        count += step if k else 0
        missed += max(0, step - width) if k else 0
        outcome = fetched(*[entry(n) for n in range(count - 1, max(count - width, 0) - 1, -1)], at=NOW + k)
        verdict = judge(known, outcome, {i: seen[i] for i in find_unknown_identities(known, outcome) if i in seen})
        got += [item.identity for item in verdict.new]
        seen |= {item.identity: item.content_hash for item in verdict.new}
        flagged |= verdict.refresh.saturated
        known = verdict.known
        assert verdict.refresh.lost >= 0
    assert len(got) == len(set(got)) == count - missed
    assert flagged or not missed


def test_the_loss_is_never_negative_nor_infinite() -> None:
    for rate in (None, 0.0, 1e-9, 1e6):
        for dates in [None], [NOW - 50, NOW - 20]:
            assert 0 <= estimate_lost_items(dates, NOW - 1e7, NOW, rate) < 1e14


def test_a_feed_without_dates_is_dated_by_its_last_modified() -> None:
    def undated(*numbers: int, at: float, modified: float) -> Outcome:
        stamp = Validators(last_modified=formatdate(modified, usegmt=True))
        return fetched(*[entry(k, published=None) for k in numbers], at=at, validators=stamp)

    first = undated(1, at=NOW - 1000, modified=NOW - 5000)
    assert after(first, undated(1, 2, 3, at=NOW, modified=NOW - 400)).refresh.published == (NOW - 700, NOW - 400)
    made_anew = undated(1, 2, at=NOW, modified=NOW)
    assert after(first, made_anew).refresh.published == ()
    before_we_looked = undated(1, 2, at=NOW, modified=NOW - 2000)
    assert after(first, before_we_looked).refresh.published == ()
