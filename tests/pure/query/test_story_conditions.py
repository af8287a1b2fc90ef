"""Conditions on stories count as a full scan of the history would."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.language import parse
from headwater.language.ast import Script
from headwater.model import Item
from headwater.query import Arrival, Engine, Hit
from headwater.query.dry_run import DryRun
from headwater.query.items.origin import Origin
from headwater.query.stories.story_items import ItemStory
from headwater.times import HOUR
from support.tables import item as make_item

ORIGINS = [Origin(name, f"https://{name}.example/rss", ("news",) if name != "c" else ()) for name in "abc"]


@dataclass(frozen=True)
class Told:
    """An item of a story: its feed, arrival in minutes, publisher and words, and whether it is late."""

    number: int
    feed: int
    at: float
    story: ItemStory
    title: str

    @property
    def item(self) -> Item:
        return make_item(self.number, self.title, feed_id=self.feed, published=self.at, first_seen=self.at)

    @property
    def origin(self) -> Origin:
        return ORIGINS[self.feed]


@st.composite
def histories(draw: st.DrawFn) -> list[Told]:
    found: list[Told] = []
    began: dict[int, float] = {}
    now = 0.0
    for number in range(1, draw(st.integers(1, 14)) + 1):
        now += draw(st.sampled_from([0.0, 600.0, 2 * HOUR, 20 * HOUR]))
        story = draw(st.sampled_from([1, 2]))
        if now - began.setdefault(story, now) >= 96 * HOUR:
            break  # nothing joins a story after that
        publisher, words = draw(st.sampled_from("pqr")), draw(st.sampled_from(["x y", "y z", "z"]))
        placed = ItemStory(story, publisher, words, draw(st.integers(0, 5)) == 0)
        title = draw(st.sampled_from(["lava", "ash"]))
        found.append(Told(number, draw(st.integers(0, 2)), now, placed, title))
    return found


def count_sources(told: list[Told], now: float, hours: float | None) -> int:
    """Count as the docs define it: publishers whose first title in their own words came within the time."""
    if hours is not None:
        told = [one for one in told if not one.story.late]
    first: dict[str, float] = {}
    for place, one in enumerate(told):
        if one.story.publisher not in first and all(other.story.words != one.story.words for other in told[:place]):
            first[one.story.publisher] = one.at
    return sum(hours is None or at >= now - hours * HOUR for at in first.values())


def count_new(told: list[Told], now: float, hours: float) -> tuple[int, int]:
    recent = count_sources(told, now, hours)
    return recent, count_sources(told, now, 2 * hours) - recent


CONDITIONS = {
    "STORY SOURCES >= 2": lambda told, now: count_sources(told, now, None) >= 2,
    "STORY SOURCES >= 2 WITHIN LAST 3 HOURS": lambda told, now: count_sources(told, now, 3) >= 2,
    "STORY SOURCES = 1 WITHIN LAST 1 DAY": lambda told, now: count_sources(told, now, 24) == 1,
    "STORY ITEMS >= 3": lambda told, now: len(told) >= 3,
    "STORY ITEMS < 3 WITHIN LAST 3 HOURS": lambda told, now: (
        sum(one.at >= now - 3 * HOUR and not one.story.late for one in told) < 3
    ),
    "FIRST OF STORY": lambda told, now: not told[-1].story.late and all(one.story.late for one in told[:-1]),
    "STORY GROWING BY 2 WITHIN LAST 3 HOURS": lambda told, now: (
        (counts := count_new(told, now, 3))[0] >= 2 and counts[0] > counts[1]
    ),
}
SOURCES = {
    "ALL": lambda one: True,
    'TAG "news"': lambda one: one.feed != 2,
    'a[TITLE CONTAINS "lava"] | c': lambda one: one.feed == 2 or (one.feed == 0 and one.title == "lava"),
}


def write_script(sources: str, condition: str, more: str = "") -> Script:
    return parse(f'CREATE FEED F AS RETURN {sources} WHERE {condition} AND TITLE CONTAINS "ash" OR {condition} {more}')


def run_live(script: Script, history: list[Told], restart: int | None = None) -> list[Hit]:
    engine, found = Engine(), []
    engine.add_query(script.queries[0])
    for place, one in enumerate(history):
        if place == restart:
            saved, engine = engine.save(), Engine()
            engine.add_query(script.queries[0])
            engine.load(saved)
        hits = engine.match(one.item, one.origin, one.at, story=one.story)
        assert not hits.failures
        found += hits
    return found


def run_past(script: Script, history: list[Told]) -> tuple[list[Hit], Engine]:
    """Match live without the query, then create and fill it, beside an equal query that was there from the start."""
    engine = Engine()
    engine.add_query(script.queries[0])
    for one in history:
        engine.match(one.item, one.origin, one.at, story=one.story)
    text = script.queries[0].text.replace("FEED F", "FEED Late")
    engine.add_query(parse(text).queries[0])
    past = [Arrival(one.item, one.at, one.origin, story=one.story) for one in history]
    return [hit for _, hit in engine.backfill("Late", past)], engine


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("sources", SOURCES)
@given(history=histories(), restart=st.integers(0, 14))
@settings(max_examples=10)
def test_live_and_restarted_and_filled_count_alike(
    condition: str, sources: str, history: list[Told], restart: int
) -> None:
    lets_through, holds = SOURCES[sources], CONDITIONS[condition]
    counted = [one for one in history if lets_through(one)]
    expected = []
    for place, one in enumerate(counted):
        told = [other for other in counted[: place + 1] if other.story.story == one.story.story]
        if holds(told, one.at):
            expected.append(one.number)
    script = write_script(sources, condition)
    assert [hit.item.id for hit in run_live(script, history)] == expected
    assert [hit.item.id for hit in run_live(script, history, restart)] == expected
    filled, _ = run_past(script, history)
    assert [hit.item.id for hit in filled] == expected


@given(history=histories(), restart=st.integers(0, 14))
@settings(max_examples=50)
def test_each_story_is_published_once_and_then_changed_by_every_item(history: list[Told], restart: int) -> None:
    script = write_script("ALL", "STORY ITEMS >= 2", 'EACH STORY SET TITLE = "{story.items} of {story.sources}"')
    expected = []
    for place, one in enumerate(history):
        told = [other for other in history[: place + 1] if other.story.story == one.story.story]
        if len(told) >= 2:
            title = f"{len(told)} of {count_sources(told, one.at, None)}"
            later = [other.number for other in told[1:]]
            expected.append((told[0].number, title, later, len(told) > 2, len(told) == 2))

    def show(hit: Hit, fresh: bool) -> tuple[object, ...]:
        related = [other.id for other in hit.related or ()]
        return hit.item.id, hit.item.title, related, hit.update, fresh

    assert [show(hit, hit.fresh) for hit in run_live(script, history)] == expected
    assert [show(hit, hit.fresh) for hit in run_live(script, history, restart)] == expected
    filled, _ = run_past(script, history)
    assert [show(hit, not hit.update) for hit in filled] == expected
    assert not any(hit.fresh for hit in filled)


def test_a_story_is_forgotten_four_days_after_its_first_item() -> None:
    script = write_script("ALL", "STORY ITEMS >= 1", "EACH STORY")
    engine = Engine()
    engine.add_query(script.queries[0])
    for number in range(1, 60):
        one = Told(number, 0, number * 10 * HOUR, ItemStory(number, "p", str(number)), "lava")
        engine.match(one.item, one.origin, one.at, story=one.story)
    (entry,) = engine._query_feeds.views.values()
    assert len(entry.view) == 10
    assert len(engine._query_feeds.find_derived(0).stories) == 10


def test_eval_groups_the_table_as_the_server_would() -> None:
    run = DryRun(parse("CREATE FEED F AS RETURN ALL WHERE STORY SOURCES >= 2"), 3)
    titles = ["Volcano erupts near the airport of Catania", "Airport of Catania: volcano erupts", "Banks raise rates"]
    for number, title in enumerate(titles, 1):
        link = f"https://{number}.example/"
        run.add_arrival(make_item(number, title, link=link, published=0.0), ORIGINS[number - 1], number * 60.0)
    assert [one.analysed.item.id for one in run.select_items("F")] == [2]
