"""The query builder always writes valid queries, whatever its fields contain; messages keep their places."""

from __future__ import annotations

import re
from html import escape as html_escape

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import InputError, QueryError
from headwater.language import parse
from headwater.language.ast import CreateFeed, FeedName
from headwater.web.pages.query_builder import build_query, read_form
from headwater.web.pages.query_editor_page import highlight_query

WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=30)
SOURCES = st.sampled_from(["https://a.example/rss", "The Guardian", "nature"])
FORM = st.fixed_dictionaries(
    {},
    optional={
        "name": WORDS,
        "field": st.sampled_from(["ITEM", "TITLE", "AUTHOR"]),
        "any": WORDS,
        "all": WORDS,
        "not": WORDS,
        "tags": WORDS,
        "sources": st.lists(WORDS | st.sampled_from(["https://a.example/rss", "The Guardian", "nature"])).map(
            "\n".join
        ),
        "languages": WORDS,
        "longer": st.sampled_from(["", "100", "x"]),
        "keep": st.sampled_from(["", "20", "-1"]),
        "importance": st.sampled_from(["", "3"]),
        "completeness": st.sampled_from(["", ".9", "2", "x"]),
        "delay": st.sampled_from(["", "10"]),
        "deliver": st.sampled_from(["", "EMAIL", "WEBHOOK"]),
        "address": st.sampled_from(["", "me@example.org", "https://hook.example/"]),
        "at": st.sampled_from(["", "07:30", "25:00"]),
        "days": st.sampled_from(["", "Monday", "friday, monday", "Someday"]),
        "deliver2": st.sampled_from(["", "NOTIFY"]),
        "address2": st.just("tgram://token/chat"),
        "days2": st.sampled_from(["", "Sunday"]),
        "distinct": st.just("1"),
    },
)


@given(FORM)
@settings(max_examples=150, deadline=None)
def test_whatever_is_filled_in_is_refused_with_a_sentence_or_written_as_one_query(form: dict[str, str]) -> None:
    try:
        statements = parse(build_query(form)).statements
    except (InputError, QueryError):
        return  # refused by the builder or the language: a search without a letter, a keyword as a name
    (statement,) = statements  # no field can end the query and begin another
    assert isinstance(statement, CreateFeed)


@given(FORM)
@settings(max_examples=150, deadline=None)
def test_the_form_reads_back_the_queries_that_it_writes(form: dict[str, str]) -> None:
    try:
        text = build_query(form)
        (create,) = parse(text).queries
    except (InputError, QueryError):
        return
    found = read_form(text)
    assert found is not None
    names = {one.source.key for one in create.query.branches if isinstance(one.source, FeedName)}
    assert parse(build_query(found, names)).queries[0].query == create.query
    assert set(found) <= {*form, "name", "field"} | ({"any"} if "all" in form else set())


def test_sources_are_addresses_names_and_titles() -> None:
    form = {"name": "a", "sources": "The Guardian\nhttps://a.example/rss\nnature\nAsh\n", "tags": "news"}
    text = build_query(form, names={"ash"})
    assert 'RETURN TAG "news" | FEED "The Guardian" | "https://a.example/rss" | FEED "nature" | Ash' in text


def test_two_deliveries_have_their_own_digests() -> None:
    form = {"deliver": "EMAIL", "address": "me@example.org", "at": "07:30", "days": "mon, Friday"}
    form |= {"deliver2": "WEBHOOK", "address2": "https://a.example/hook", "name": "a"}
    text = build_query(form)
    assert 'DELIVER TO EMAIL "me@example.org" EVERY MONDAY, FRIDAY AT "07:30"\n' in text
    assert text.endswith('DELIVER TO WEBHOOK "https://a.example/hook";')
    assert read_form(text) == form | {"days": "Monday, Friday"}


def test_a_query_that_says_more_than_the_form_is_not_read() -> None:
    for rest in (
        "WHERE TITLE MATCHES /ash/",
        "EACH STORY",
        "[HAS LINK] AS $v",
        'WHERE TITLE CONTAINS "a" ORDER BY TITLE',
    ):
        assert read_form(f"CREATE FEED a AS RETURN ALL {rest};") is None


def test_all_fields_together_say_what_was_meant() -> None:
    text = build_query(
        {
            "name": "My Alerts",
            "any": 'volcano, say "no"',
            "not": "film",
            "tags": "news",
            "languages": "en",
            "longer": "500",
            "distinct": "1",
            "keep": "20",
            "importance": "5",
            "completeness": "0.99",
            "delay": "10",
            "deliver": "EMAIL",
            "address": "me@example.org",
            "at": "07:30",
        }
    )
    (create,) = parse(text).queries
    query = create.query
    assert create.name.name == "MyAlerts"
    assert query.importance == 5
    assert query.target is not None
    assert query.target.delay is not None
    assert query.target.delay.seconds == 600
    assert len(query.deliveries) == 1
    assert query.deliveries[0].every is not None
    assert query.keep is not None
    assert query.keep.count == 20


@given(st.text(max_size=200))
def test_colours_never_change_the_text_nor_let_markup_through(text: str) -> None:
    without = str(highlight_query(text)).replace("</span>", "")
    assert "<script" not in without.lower().replace("&lt;script", "")
    assert re.sub(r'<span class="t-[a-z]+">', "", without) == html_escape(text)
