"""CHANGED compares a version of an item with the one before it."""

from __future__ import annotations

import pytest

from headwater.language import parse
from headwater.query.dry_run import DryRun
from support.tables import NEWS, item


def find_changed(condition: str, *versions: dict[str, object]) -> list[int]:
    """Return the numbers of the versions of one item that meet the condition."""
    script = parse(f"CREATE FEED F AS RETURN ALL WHERE {condition}")
    run, found = DryRun(script, 10), []
    for number, facts in enumerate(versions):
        before = run.select_items("F")
        made = item(1, **({"title": "A", "content": "one two three four"} | facts))
        run.add_arrival(made, NEWS, float(number))
        found += [number] if run.select_items("F") != before else []
    return found


def test_the_first_version_has_not_changed() -> None:
    assert find_changed("CHANGED(TITLE)", {}, {"title": "B"}, {"title": "B", "link": "http://x.example/2"}) == [1]
    assert find_changed("NOT CHANGED(TITLE)", {}, {"title": "B"}) == [0]


def test_markup_and_white_space_are_no_change() -> None:
    assert find_changed("CHANGED(CONTENT)", {}, {"content": "<p>one  two <b>three</b> four</p>"}) == []


@pytest.mark.parametrize(
    ("text", "percent"),
    [
        ("one two three five", 25),
        ("four three two one", 0),
        ("completely different words here", 100),
        ("one two three four five six seven eight", 33.4),
    ],
)
def test_the_share_counts_words_added_and_removed(text: str, percent: float) -> None:
    changed = [{}, {"content": text}]
    assert find_changed(f"CHANGED(CONTENT) BY >= {percent - 1 if percent else 0:g} %", *changed) == [1]
    assert find_changed(f"CHANGED(CONTENT) BY > {percent:g} %", *changed) == []


def test_several_fields_may_be_watched() -> None:
    condition = "CHANGED(AUTHOR) OR CHANGED(CATEGORY) OR CHANGED(LINK)"
    versions: list[dict[str, object]] = [{}, {"authors": ("Ann",)}, {"authors": ("Ann",), "title": "B"}]
    assert find_changed(condition, *versions) == [1]
