"""Items about one event are grouped into a story, once, in order of arrival."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InputError
from headwater.query.stories import story_grouper
from headwater.query.stories.story_grouper import StoryGrouper
from headwater.query.stories.story_items import StoryItem
from headwater.times import HOUR

ALASKA = "Alaska health worker has severe reaction to vaccine"


def item(number: int, source: str, title: str | None, hour: float, link: str | None = None) -> StoryItem:
    return StoryItem(number, source, source, title, hour * HOUR, link)


def group(*items: StoryItem) -> list[int | str]:
    grouper = StoryGrouper()
    return [grouper.place_item(each).story for each in items]


def test_items_about_one_event_join_the_first_of_them() -> None:
    grouper = StoryGrouper()
    first = grouper.place_item(item(1, "Reuters", ALASKA, 0))
    second = grouper.place_item(item(2, "BBC", "Health worker in Alaska: severe vaccine reaction", 1))
    assert (first.story, first.joined, first.score) == (1, None, None)
    assert (second.story, second.joined) == (1, 1)
    assert second.score is not None
    assert 0.35 <= second.score <= 1
    assert set(second.shared) == {"alaska", "health", "worker", "severe", "reaction", "vaccine"}


def test_one_shared_word_is_not_enough() -> None:
    assert group(item(1, "a", "Volcano awakens", 0), item(2, "b", "Volcano sleeps", 0)) == [1, 2]


def test_likeness_fades_with_age() -> None:
    later = "Severe reaction: Alaska worker waits"
    assert group(item(1, "a", ALASKA, 0), item(2, "b", later, 1)) == [1, 1]
    assert group(item(1, "a", ALASKA, 0), item(2, "b", later, 47)) == [1, 2]


def test_nothing_older_than_two_days_is_compared() -> None:
    assert group(item(1, "a", ALASKA, 0), item(2, "b", ALASKA, 48)) == [1, 1]
    assert group(item(1, "a", ALASKA, 0), item(2, "b", ALASKA, 48.1)) == [1, 2]


def test_a_story_ends_after_four_days_and_the_next_says_what_it_continues() -> None:
    grouper = StoryGrouper()
    placed = [grouper.place_item(item(number, f"s{number}", ALASKA, 30 * number)) for number in range(5)]
    assert [each.story for each in placed] == [0, 0, 0, 0, 4]
    assert [each.continues for each in placed] == [None, None, None, None, 0]


def test_words_that_a_source_repeats_do_not_count() -> None:
    titles = ["Hens lay eggs", "Rain floods town", "Bank raises rates", "Singer leaves band"] * 2
    items = [item(number, "Daily", f"{title} Daily Valley Herald", 0) for number, title in enumerate(titles[:8])]
    before, after = (
        [*items[:count], item(100, "Daily", "Cup final tonight Daily Valley Herald", 1)] for count in (1, 8)
    )
    other = item(101, "Weekly", "Daily Valley Herald closes", 1)
    assert group(*before, other)[-1] != 101
    assert group(*after, other)[-1] == 101


def test_a_series_stands_alone() -> None:
    hourly = [item(number, "Clock", f"2020/11/10 {number:02}:00 GMT news bulletin", number) for number in range(8)]
    assert group(*hourly)[5:] == [5, 6, 7]
    daily = [
        item(number, "Map", f"Covid cases today: {number} deaths in the kingdom", 20 * number) for number in range(4)
    ]
    assert group(*daily)[2:] == [2, 3]


def test_equal_links_join_whatever_the_titles() -> None:
    link = "https://example.org/a"
    assert group(item(1, "a", "One", 0, link), item(2, "b", None, 1, link)) == [1, 1]


def test_a_link_that_one_source_uses_twice_joins_nothing() -> None:
    link = "https://example.org/blog"
    items = [item(1, "a", "Hens lay", 0, link), item(2, "a", "Rain falls", 0, link), item(3, "b", "Cup final", 1, link)]
    assert group(*items) == [1, 2, 3]


def test_items_without_a_title_stand_alone() -> None:
    assert group(item(1, "a", None, 0), item(2, "b", None, 0), item(3, "c", "", 0)) == [1, 2, 3]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("東京で大きな地震が発生", "大きな地震が東京で発生した"),
        ("Землетрясение произошло в Токио ночью", "Ночью в Токио произошло землетрясение"),
        ("टोक्यो में भूकंप से इमारत गिरी", "भूकंप से टोक्यो में इमारत गिरी"),
    ],
)
def test_stories_in_other_scripts(one: str, other: str) -> None:
    assert group(item(1, "a", one, 0), item(2, "b", other, 1)) == [1, 1]


def test_hindi_titles_with_other_words_are_not_alike() -> None:
    assert group(item(1, "a", "राम मंदिर में पूजा", 0), item(2, "b", "रोम शहर की यात्रा", 1)) == [1, 2]


WORDS = ["volcano", "erupts", "ash", "cloud", "airport", "minister", "resigns", "bank", "rates", "vote", "storm", "12"]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.lists(st.sampled_from(WORDS), max_size=6), st.floats(0, 30))), st.data()
)
def test_a_saved_grouper_goes_on_as_if_it_had_not_stopped(
    rows: list[tuple[int, list[str], float]], data: st.DataObject
) -> None:
    hour, items = 0.0, []
    for number, (source, words, pause) in enumerate(rows):
        hour += pause
        items.append(item(number, f"s{source}", " ".join(words), hour, f"l{len(words)}" if number % 3 == 0 else None))
    cut = data.draw(st.integers(0, len(items)))
    whole, before = StoryGrouper(), StoryGrouper()
    wanted = [whole.place_item(each) for each in items]
    found = [before.place_item(each) for each in items[:cut]]
    after = StoryGrouper.load_state(before.save_state())
    found += [after.place_item(each) for each in items[cut:]]
    assert found == wanted


@given(st.lists(st.tuples(st.integers(0, 3), st.lists(st.sampled_from(WORDS), max_size=6), st.floats(0, 30))))
def test_a_story_is_named_after_its_first_item_and_joins_lead_back(rows: list[tuple[int, list[str], float]]) -> None:
    grouper, hour, story_of = StoryGrouper(), 0.0, {}
    for number, (source, words, pause) in enumerate(rows):
        hour += pause
        placement = grouper.place_item(item(number, f"s{source}", " ".join(words), hour))
        story_of[number] = placement.story
        assert placement.story == (number if placement.joined is None else story_of[placement.joined])


def test_only_the_latest_holders_of_a_word_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """This bounds the cost of an item, however many titles of the window share its words."""
    monkeypatch.setattr(story_grouper, "MAX_HOLDERS", 2)
    titles = ["Bank raises rates twice", "Storm hits coast, bank closes", "Bank vote storm", "Coast bank storm"]
    items = [item(number, f"s{number}", title, 0) for number, title in enumerate(titles)]
    assert group(*items, item(9, "s9", "Bank raises rates twice", 1))[-1] == 0
    repeated = [item(number, f"s{number}", "Bank raises rates twice, storm coast", 0) for number in range(2, 4)]
    grouper = StoryGrouper()
    for each in [items[0], *repeated]:
        grouper.place_item(each)
    assert grouper.place_item(item(9, "s9", "Bank raises rates twice", 1)).joined == 2


@pytest.mark.parametrize("saved", [b"", b"\xc1", b"\x80"])
def test_a_damaged_state_is_refused(saved: bytes) -> None:
    with pytest.raises(InputError, match="damaged"):
        StoryGrouper.load_state(saved)
