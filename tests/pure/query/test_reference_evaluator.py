"""Queries mean what the specification decides; one test per decision."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from headwater.errors import NotFound, QueryError
from headwater.language import parse
from headwater.query.items.origin import Origin
from support.tables import BLOG, DAY, FEEDS, LAB, NEWS, NOON, arrive, ids, item, meaning, result

# unions, filters, variables


def test_an_inline_filter_and_a_scoped_condition_are_the_same_and_both_apply() -> None:
    stream = [(item(1, "ash"), NEWS), (item(2, "ash cloud"), NEWS), (item(3, "cloud"), NEWS)]
    inline = 'RETURN news[TITLE CONTAINS "ash"] AS $n'
    assert result(inline, *stream) == [2, 1]
    assert result('RETURN news AS $n WHERE $n[TITLE CONTAINS "ash"]', *stream) == [2, 1]
    assert result(f'{inline} WHERE $n[TITLE CONTAINS "cloud"]', *stream) == [2]


def test_a_scoped_condition_leaves_other_sources_alone_and_a_global_one_applies_to_all() -> None:
    stream = [(item(1, "ash"), NEWS), (item(2, "ash"), BLOG), (item(3, "cloud"), BLOG), (item(4, "cloud"), NEWS)]
    assert result('RETURN news AS $n | blog WHERE $n[TITLE CONTAINS "ash"]', *stream) == [3, 2, 1]
    assert result('RETURN news AS $n | blog WHERE $n[TITLE CONTAINS "ash"] AND SIZE = 0', *stream) == [3, 2, 1]
    assert result('RETURN news AS $n | blog WHERE TITLE CONTAINS "ash"', *stream) == [2, 1]


def test_filters_and_variables_of_a_group_reach_its_sources() -> None:
    stream = [(item(1, "ash"), NEWS), (item(2, "ash"), BLOG), (item(3, "cloud"), BLOG), (item(4, "ash"), LAB)]
    assert result('RETURN (news | blog)[TITLE CONTAINS "ash"]', *stream) == [2, 1]
    assert result('RETURN (news | blog AS $b) AS $g | lab WHERE $b[TITLE CONTAINS "ash"]', *stream) == [4, 2, 1]
    assert result('RETURN (news | blog) AS $g | lab WHERE $g[TITLE CONTAINS "cloud"]', *stream) == [4, 3]


def test_an_address_a_name_a_tag_and_all_are_sources() -> None:
    stream = [(item(1), NEWS), (item(2), BLOG), (item(3), LAB)]
    assert result('RETURN "HTTP://NEWS.example:80/rss"', *stream) == [1]
    assert result("RETURN NEWS", *stream) == [1]
    assert result('RETURN TAG "personal"', *stream) == [2]
    assert result('RETURN TAG "Science"', *stream) == [3, 2]
    assert result("RETURN ALL", *stream) == [3, 2, 1]


def test_register_gives_an_address_a_name_and_tags() -> None:
    made = meaning(
        'REGISTER FEED "http://new.example/rss" AS fresh TAGS ("press");'
        'CREATE FEED a AS RETURN fresh WHERE SOURCE = fresh; CREATE FEED b AS RETURN TAG "press"'
    )
    arrive(made, [(item(1), Origin(None, "http://new.example/rss", registered=False)), (item(2), NEWS)])
    assert ids(made.select_items("a")) == [1]
    assert ids(made.select_items("b")) == [2, 1]


# 1 identity


def test_decision_1_the_same_item_through_several_sources_comes_once_and_remembers_them() -> None:
    made = meaning('CREATE FEED q AS RETURN news | ALL | TAG "press" | blog')
    made.add_arrival(item(1, "ash"), NEWS)
    (emission,) = made.select_items("q")
    assert emission.branches == {0, 1, 2}


def test_decision_1_the_same_story_from_two_sources_is_two_items() -> None:
    assert result("RETURN ALL", (item(1, identity="same"), NEWS), (item(2, identity="same"), BLOG)) == [2, 1]


def test_decision_1_the_same_item_through_nested_feeds_comes_once() -> None:
    before = "CREATE FEED a AS RETURN news; CREATE FEED b AS RETURN ALL;"
    assert result("RETURN a | b | news", (item(1), NEWS), before=before) == [1]


# 2 empty selection


def test_decision_2_an_empty_selection_is_a_valid_document() -> None:
    assert result('RETURN news WHERE TITLE CONTAINS "tsunami"', (item(1, "ash"), NEWS)) == []
    assert result("RETURN news") == []


def test_decision_2_a_condition_that_no_item_can_meet_runs() -> None:
    assert result("RETURN news WHERE HAS TITLE AND NOT HAS TITLE", (item(1, "ash"), NEWS)) == []


# 3 order


def test_decision_3_the_document_is_ordered_by_date_then_arrival_then_id() -> None:
    same = {"published": NOON, "arrived": NOON + 60}
    stream = [
        (item(1, published=NOON), NEWS),
        (item(5, **same), NEWS),
        (item(4, published=NOON, arrived=NOON + 30), NEWS),
        (item(3, **same), NEWS),
        (item(2, published=NOON + 1), NEWS),
    ]
    assert result("RETURN news", *stream) == [2, 1, 3, 5, 4]


def test_decision_3_the_stream_is_in_the_order_of_arrival() -> None:
    made = meaning("CREATE FEED q AS RETURN news")
    arrive(made, [(item(1, published=NOON), NEWS), (item(2, published=NOON - DAY), NEWS), (item(3), NEWS)])
    assert ids(made.list_emissions("q")) == [1, 2, 3]


def test_order_by_a_text_folds_it_and_keeps_the_newest_of_equals_first_both_ways() -> None:
    stream = [(item(1, "Éa"), NEWS), (item(2, "eb"), NEWS), (item(3, "EA"), NEWS), (item(4), NEWS)]
    assert result("RETURN news ORDER BY TITLE", *stream) == [3, 1, 2, 4]
    assert result("RETURN news ORDER BY TITLE DESC", *stream) == [2, 3, 1, 4]


def test_order_by_size_source_and_updated() -> None:
    stream = [
        (item(1, content="aa", updated=NOON), NEWS),
        (item(2, content="aaa"), BLOG),
        (item(3, content="a", updated=NOON + 1), LAB),
    ]
    assert result("RETURN ALL ORDER BY SIZE", *stream) == [2, 1, 3]
    assert result("RETURN ALL ORDER BY SIZE ASC", *stream) == [3, 1, 2]
    assert result("RETURN ALL ORDER BY SOURCE", *stream) == [2, 3, 1]
    assert result("RETURN ALL ORDER BY UPDATED", *stream) == [3, 1, 2]


# 4 late items


LATE = [(item(1), NEWS), (item(2), NEWS), (item(3, published=NOON - 30 * DAY), NEWS)]


def test_decision_4_a_late_item_is_placed_by_its_date_if_it_fits() -> None:
    assert result("RETURN news", *LATE) == [2, 1, 3]
    assert result("RETURN news KEEP LAST 2 ITEMS", *LATE) == [2, 1]


def test_decision_4_a_late_item_is_delivered_even_if_the_document_never_shows_it() -> None:
    made = meaning("CREATE FEED q AS RETURN news KEEP LAST 2 ITEMS")
    arrive(made, LATE)
    assert [emission.fresh for emission in made.list_emissions("q")] == [True, True, True]


def test_decision_4_ordered_by_arrival_nothing_is_inserted_and_the_window_is_the_last_arrivals() -> None:
    assert result("RETURN news KEEP LAST 2 ITEMS ORDER BY ARRIVAL", *LATE) == [3, 2]
    assert result("RETURN news KEEP LAST 2 ITEMS ORDER BY ARRIVAL ASC", *LATE) == [2, 3]
    assert result("RETURN news KEEP LAST 90 SECONDS ORDER BY ARRIVAL", *LATE) == [3, 2]


# 5 updates


def test_decision_5_an_update_that_now_matches_is_emitted_as_new() -> None:
    made = meaning('CREATE FEED q AS RETURN news WHERE TITLE CONTAINS "ash"')
    assert made.add_arrival(item(1, "cloud"), NEWS) == {}
    emitted = made.add_arrival(item(1, "ash"), NEWS, NOON + 600)
    assert emitted["q"].fresh
    assert not emitted["q"].update
    assert ids(made.select_items("q")) == [1]


def test_decision_5_an_update_that_still_matches_changes_the_item_in_place_without_notice() -> None:
    made = meaning('CREATE FEED q AS RETURN news WHERE TITLE CONTAINS "ash"')
    arrive(made, [(item(1, "ash"), NEWS), (item(2, "ash"), NEWS)])
    emitted = made.add_arrival(item(1, "ash cloud"), NEWS, NOON + 600)
    assert emitted["q"].update
    assert not emitted["q"].fresh
    assert [emission.analysed.item.title for emission in made.select_items("q")] == ["ash", "ash cloud"]


def test_decision_5_an_update_is_the_next_version_and_sets_updated() -> None:
    changed = 'CREATE FEED changed AS RETURN news WHERE UPDATED > "2024-03-01T12:05Z"'
    made = meaning(f"CREATE FEED q AS RETURN news; {changed}")
    made.add_arrival(item(1, "ash"), NEWS)
    assert made.select_items("changed") == []
    made.add_arrival(item(1, "ash cloud"), NEWS, NOON + 600)
    made.add_arrival(item(1, "ash clouds"), NEWS, NOON + 1200)
    (emission,) = made.select_items("q")
    assert emission.analysed.item.version == 3
    assert ids(made.select_items("changed")) == [1]


def test_decision_5_an_update_that_no_longer_matches_leaves_what_was_published() -> None:
    made = meaning('CREATE FEED q AS RETURN news WHERE TITLE CONTAINS "ash"')
    made.add_arrival(item(1, "ash"), NEWS)
    assert made.add_arrival(item(1, "cloud"), NEWS, NOON + 600) == {}
    assert [emission.analysed.item.title for emission in made.select_items("q")] == ["ash"]


def test_decision_5_an_update_does_not_join_again_nor_meet_distinct() -> None:
    made = meaning(
        "CREATE FEED q AS RETURN news JOIN blog AS $b WITHIN LAST HOUR ON TITLE = $b.TITLE DISTINCT ON TITLE"
    )
    arrive(made, [(item(1, "ash"), BLOG), (item(2, "ash"), NEWS)])
    later = made.add_arrival(item(2, "lava"), NEWS, NOON + DAY)
    assert later["q"].update
    (emission,) = made.select_items("q")
    assert [related.item.id for related in emission.related or ()] == [1]
    assert emission.analysed.item.title == "lava"


def test_a_repeated_version_changes_nothing() -> None:
    made = meaning("CREATE FEED q AS RETURN news")
    made.add_arrival(item(1, "ash"), NEWS)
    assert made.add_arrival(item(1, "ash"), NEWS, NOON + DAY) == {}
    assert len(made.list_emissions("q")) == 1


# 6 deletion: queries do not learn that an item disappears at its source


def test_decision_6_an_item_stays_when_its_source_shows_it_no_longer() -> None:
    made = meaning("CREATE FEED q AS RETURN news")
    arrive(made, [(item(1), NEWS), (item(2), NEWS)])
    made.add_arrival(item(3), NEWS, NOON + 300 * DAY)
    assert ids(made.select_items("q")) == [3, 2, 1]


# 7 cycles, 8 drop: see tests/language/test_messages.py for the messages


def test_decision_7_a_cycle_is_refused() -> None:
    script = "CREATE FEED a AS RETURN news; CREATE FEED b AS RETURN a; CREATE OR REPLACE FEED a AS RETURN b"
    with pytest.raises(QueryError, match="would read itself: a → b → a"):
        parse(script, FEEDS)


def test_decision_8_drop_with_cascade_drops_the_users() -> None:
    made = meaning("CREATE FEED a AS RETURN news; CREATE FEED b AS RETURN a; CREATE FEED c AS RETURN b")
    made.run_script(parse("DROP FEED a CASCADE"))
    assert made.query_names() == []
    with pytest.raises(NotFound, match="no query feed a"):
        made.select_items("a")


def test_decision_8_drop_leaves_other_feeds() -> None:
    made = meaning("CREATE FEED a AS RETURN news; CREATE FEED b AS RETURN news; DROP FEED a")
    made.add_arrival(item(1), NEWS)
    assert ids(made.select_items("b")) == [1]


# 9 or replace, 10 create on history


def test_decision_9_a_new_definition_rebuilds_the_window_and_does_not_deliver_again() -> None:
    made = meaning('CREATE FEED q AS RETURN news WHERE TITLE CONTAINS "ash"')
    arrive(made, [(item(1, "ash"), NEWS), (item(2, "cloud"), NEWS)])
    made.run_script(parse('CREATE OR REPLACE FEED q AS RETURN news WHERE TITLE CONTAINS "cloud" OR "lava"'))
    assert ids(made.select_items("q")) == [2]
    assert [emission.fresh for emission in made.list_emissions("q")] == [False]
    assert not made.add_arrival(item(1, "ash lava"), NEWS, NOON + 600)[
        "q"
    ].fresh  # delivered before by the old definition
    assert made.add_arrival(item(3, "lava"), NEWS)["q"].fresh


def test_decision_10_a_new_feed_is_filled_from_history_and_delivers_from_then_on() -> None:
    made = meaning("")
    arrive(made, [(item(1), NEWS), (item(2), NEWS)])
    made.run_script(parse("CREATE FEED q AS RETURN news KEEP LAST 2 ITEMS"))
    assert ids(made.select_items("q")) == [2, 1]
    assert made.add_arrival(item(3), NEWS)["q"].fresh
    assert [emission.fresh for emission in made.list_emissions("q")] == [False, False, True]
    assert ids(made.select_items("q")) == [3, 2]


def test_decision_10_dates_are_seen_from_the_arrival_of_old_items_too() -> None:
    made = meaning("")
    arrive(made, [(item(1), NEWS), (item(2, arrived=NOON + 90 * DAY), NEWS)])
    made.run_script(parse("CREATE FEED q AS RETURN news WHERE PUBLISHED IN LAST DAY"))
    assert ids(made.select_items("q")) == [2, 1]


# 11 live sets


def test_decision_11_a_feed_that_gets_a_tag_takes_part_from_then_on() -> None:
    made = meaning('CREATE FEED q AS RETURN TAG "press"')
    made.add_arrival(item(1), BLOG)
    made.add_arrival(item(2), replace(BLOG, tags=("press",)))
    assert ids(made.select_items("q")) == [2]


def test_decision_11_all_is_every_registered_source_and_no_query_feed() -> None:
    made = meaning('CREATE FEED a AS RETURN "http://only.example/rss"; CREATE FEED q AS RETURN ALL')
    arrive(made, [(item(1), Origin(None, "http://only.example/rss", registered=False)), (item(2), NEWS)])
    assert ids(made.select_items("a")) == [1]
    assert ids(made.select_items("q")) == [2]


# 12 distinct


def test_decision_12_the_first_arrival_wins_within_the_horizon() -> None:
    stream = [
        (item(1, "ash"), NEWS),
        (item(2, "ASH "), BLOG),
        (item(3, "ash", arrived=NOON + 60 + 2 * DAY), NEWS),
        (item(4, "ash", arrived=NOON + 61 + 2 * DAY), NEWS),
    ]
    assert result("RETURN ALL DISTINCT ON TITLE", *stream[:3]) == [1]
    assert result("RETURN ALL DISTINCT ON TITLE", *stream) == [4, 1]
    assert result("RETURN ALL DISTINCT ON TITLE WITHIN LAST 30 SECONDS", *stream[:2]) == [2, 1]


def test_decision_12_a_dropped_duplicate_does_not_prolong_the_horizon() -> None:
    stream = [(item(n, "ash", arrived=NOON + n * DAY), NEWS) for n in (0, 1, 3)]
    assert result("RETURN news DISTINCT ON TITLE", *stream) == [3, 0]


def test_decision_12_distinct_comes_after_where_and_before_keep() -> None:
    stream = [
        (item(1, "ash", content="x"), NEWS),
        (item(2, "ash"), NEWS),
        (item(3, "lava"), NEWS),
        (item(4, "ash"), NEWS),
    ]
    assert result("RETURN news WHERE NOT HAS CONTENT DISTINCT ON TITLE KEEP LAST 1 ITEMS", *stream) == [3]
    assert result("RETURN news WHERE NOT HAS CONTENT DISTINCT ON TITLE", *stream) == [3, 2]


def test_decision_12_items_without_the_field_are_never_duplicates() -> None:
    assert result("RETURN news DISTINCT ON AUTHOR", (item(1), NEWS), (item(2), NEWS)) == [2, 1]


def test_distinct_by_number_of_items_looks_at_the_last_that_came_out() -> None:
    stream = [(item(n, title), NEWS) for n, title in enumerate(["a", "b", "a", "c", "a"])]
    assert result("RETURN news DISTINCT ON TITLE WITHIN LAST 2 ITEMS", *stream) == [4, 3, 1, 0]


def test_distinct_on_several_values_compares_each_and_on_item_the_whole() -> None:
    one, other = item(1, "a", categories=("x", "y")), item(2, "b", categories=("y", "z"))
    assert result("RETURN news DISTINCT ON CATEGORY", (one, NEWS), (other, NEWS)) == [1]
    assert result("RETURN news DISTINCT ON ITEM", (one, NEWS), (other, NEWS)) == [2, 1]
    assert result(
        "RETURN news DISTINCT ON ITEM", (one, NEWS), (msgspec.structs.replace(one, id=3, identity="3"), NEWS)
    ) == [1]


def test_near_duplicates_share_most_of_their_weight() -> None:
    stream = [
        (item(1, "Iceland volcano erupts again"), NEWS),
        (item(2, "Again: Iceland volcano erupts"), BLOG),
        (item(3, "Iceland votes again"), BLOG),
    ]
    assert result("RETURN ALL DISTINCT ON TITLE AT 0.7", *stream) == [3, 1]
    assert result("RETURN ALL DISTINCT ON TITLE AT 0.3", *stream) == [1]


# 13 layers


def test_decision_13_keep_of_a_feed_does_not_limit_those_that_read_it() -> None:
    before = "CREATE FEED one AS RETURN news KEEP LAST 1 ITEMS;"
    assert result("RETURN one", (item(1), NEWS), (item(2), NEWS), before=before) == [2, 1]


def test_decision_13_distinct_join_and_set_of_a_feed_are_seen_by_those_that_read_it() -> None:
    before = 'CREATE FEED one AS RETURN ALL DISTINCT ON TITLE SET TITLE = "<{title}>";'
    stream = [(item(1, "ash"), NEWS), (item(2, "ash"), BLOG)]
    assert result("RETURN one WHERE TITLE MATCHES /^<ash>$/ ", *stream, before=before) == []  # “<ash>” reads as markup
    before = before.replace("<{title}>", "[{title}]")
    assert result(r"RETURN one WHERE TITLE MATCHES /^\[ash\]$/", *stream, before=before) == [1]


def test_an_item_from_several_sources_is_taken_from_the_first_that_matches() -> None:
    made = meaning('CREATE FEED loud AS RETURN news SET TITLE = "{title}!"; CREATE FEED q AS RETURN loud | news')
    made.add_arrival(item(1, "ash"), NEWS)
    (emission,) = made.select_items("q")
    assert emission.analysed.item.title == "ash!"
    assert emission.is_retitled


# windows


def test_keep_a_span_drops_old_items_from_the_document_as_time_passes() -> None:
    stream = [(item(1), NEWS), (item(2), NEWS)]
    assert result("RETURN news KEEP LAST 3 DAYS", *stream, now=NOON + 2 * DAY) == [2, 1]
    assert result("RETURN news KEEP LAST 3 DAYS", *stream, now=NOON + 3 * DAY - 230) == [2]
    assert result("RETURN news KEEP LAST 3 DAYS", *stream, now=NOON + 9 * DAY) == []


def test_in_last_is_decided_at_arrival_and_never_again() -> None:
    stream = [(item(1), NEWS), (item(2, published=NOON - 2 * DAY), NEWS)]
    assert result("RETURN news WHERE PUBLISHED IN LAST DAY", *stream, now=NOON + 90 * DAY) == [1]


def test_fifty_items_are_kept_by_default() -> None:
    assert len(result("RETURN news", *((item(n), NEWS) for n in range(60)))) == 50


# joins


def related(query: str, *stream: tuple[object, Origin]) -> dict[int | None, list[int | None]]:
    made = meaning(f"CREATE FEED q AS {query}")
    arrive(made, stream)  # type: ignore[arg-type]
    return {
        emission.analysed.item.id: [other.item.id for other in emission.related or ()]
        for emission in made.select_items("q")
    }


ECHO = [(item(1, "ash"), BLOG), (item(2, "ash"), BLOG), (item(3, "ash"), NEWS), (item(4, "lava"), NEWS)]
ON_TITLE = "blog AS $b WITHIN LAST HOUR ON TITLE = $b.TITLE"


def test_a_join_annotates_and_never_multiplies() -> None:
    assert related(f"RETURN news JOIN {ON_TITLE}", *ECHO) == {3: [1, 2]}


def test_a_left_join_keeps_all_and_an_anti_join_those_without() -> None:
    assert related(f"RETURN news LEFT JOIN {ON_TITLE}", *ECHO) == {4: [], 3: [1, 2]}
    assert related(f"RETURN news ANTI JOIN {ON_TITLE}", *ECHO) == {4: []}


def test_a_later_secondary_does_not_trigger_again() -> None:
    late = [(item(1, "ash"), NEWS), (item(2, "ash"), BLOG)]
    assert related(f"RETURN news JOIN {ON_TITLE}", *late) == {}
    assert related(f"RETURN news ANTI JOIN {ON_TITLE}", *late) == {1: []}


def test_a_join_looks_back_as_far_as_its_window() -> None:
    stream = [(item(1, "ash"), BLOG), (item(2, "ash"), BLOG), (item(62, "ash"), NEWS)]
    assert related(f"RETURN news JOIN {ON_TITLE}", *stream) == {62: [2]}
    by_count = "RETURN news JOIN blog AS $b WITHIN LAST 1 ITEMS ON TITLE = $b.TITLE"
    assert related(by_count, *stream) == {62: [2]}


def test_only_matching_secondaries_are_in_the_window() -> None:
    stream = [(item(1, "ash", categories=("x",)), BLOG), (item(2, "ash"), BLOG), (item(3, "ash"), NEWS)]
    inline = 'RETURN news JOIN blog[CATEGORY = "x"] AS $b WITHIN LAST 1 ITEMS ON TITLE = $b.TITLE'
    scoped = 'RETURN news JOIN blog AS $b WITHIN LAST 1 ITEMS ON TITLE = $b.TITLE WHERE $b[CATEGORY = "x"]'
    assert related(inline, *stream) == related(scoped, *stream) == {3: [1]}


def test_an_item_is_not_joined_with_itself() -> None:
    stream = [(item(1, "ash"), NEWS), (item(2, "ash"), NEWS)]
    assert related("RETURN news JOIN news AS $o WITHIN LAST HOUR ON TITLE = $o.TITLE", *stream) == {2: [1]}


def test_an_item_is_not_joined_with_an_earlier_version_of_itself() -> None:
    made = meaning("CREATE FEED q AS RETURN news JOIN news AS $o WITHIN LAST HOUR ON CATEGORY = $o.CATEGORY")
    made.add_arrival(item(1, "ash", categories=("x",)), NEWS)
    made.add_arrival(item(1, "ash cloud", categories=("x",)), NEWS, NOON + 600)
    assert made.select_items("q") == []


def test_where_of_the_query_does_not_filter_the_joined_side() -> None:
    stream = [(item(1, "ash"), BLOG), (item(2, "ash", content="x"), NEWS)]
    assert related(f"RETURN news JOIN {ON_TITLE} WHERE HAS CONTENT", *stream) == {2: [1]}


def test_joins_compare_links_normalised_and_any_of_several_values() -> None:
    stream = [
        (item(1, link="http://X.example/a?utm_source=1", categories=("x", "y")), BLOG),
        (item(2, link="http://x.example/a#top", categories=("y",)), NEWS),
    ]
    assert related("RETURN news JOIN blog AS $b WITHIN LAST HOUR ON LINK = $b.LINK", *stream) == {2: [1]}
    assert related("RETURN news JOIN blog AS $b WITHIN LAST HOUR ON CATEGORY = $b.CATEGORY", *stream) == {2: [1]}
    assert related("RETURN news JOIN blog AS $b WITHIN LAST HOUR ON TITLE = $b.TITLE", *stream) == {}


def test_all_joins_must_match_and_their_related_items_are_merged() -> None:
    stream = [(item(1, "ash"), BLOG), (item(2, link="http://x.example/9"), LAB), (item(9, "ash"), NEWS)]
    both = f"RETURN news JOIN {ON_TITLE} JOIN lab AS $l WITHIN LAST DAY ON LINK = $l.LINK"
    assert related(both, *stream) == {9: [1, 2]}
    assert related(both, *stream[1:]) == {}


def test_an_updated_secondary_is_compared_in_its_new_version_and_keeps_its_age() -> None:
    made = meaning(f"CREATE FEED q AS RETURN news JOIN {ON_TITLE}")
    made.add_arrival(item(1, "cloud"), BLOG)
    made.add_arrival(item(1, "ash"), BLOG, NOON + 50 * 60)
    made.add_arrival(item(60, "ash"), NEWS)
    made.add_arrival(item(70, "ash"), NEWS)
    assert ids(made.select_items("q")) == [60]


# set


def test_set_fills_templates_and_adds_values() -> None:
    made = meaning(
        'CREATE FEED q AS RETURN news SET TITLE = "[{source}] {title} {{x}}", CATEGORY += "seen", CATEGORY += "seen",'
        ' AUTHOR = "{author} ({published})", CONTENT += "<p>{title}</p>", LANGUAGE = ""'
    )
    made.add_arrival(
        item(1, "a < b", authors=("Ann", "Bob"), categories=("x",), content="<i>c</i>", published=NOON), NEWS
    )
    (emission,) = made.select_items("q")
    found = emission.analysed.item
    assert found.title == "[news] a < b {x}"
    assert found.categories == ("x", "seen")
    assert found.authors == ("Ann, Bob (2024-03-01T12:00:00Z)",)
    assert found.content == "<i>c</i><p>a &lt; b</p>"
    assert found.language is None
    assert emission.original is not None
    assert emission.original.item.title == "a < b"


def test_set_does_not_change_what_the_query_itself_looks_at() -> None:
    query = 'RETURN news WHERE TITLE = "ash" DISTINCT ON TITLE SET TITLE = "same"'
    assert result(query, (item(1, "ash"), NEWS), (item(2, "same"), NEWS)) == [1]


# 14 quotas: see tests/language/test_garbage.py
