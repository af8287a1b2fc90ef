"""Formatting keeps the meaning of a script, and formatting twice changes nothing."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from headwater.language import parse
from headwater.language.ast import Condition, CreateFeed, FeedName, Query, Script, Statement
from headwater.language.diagnostics import Diagnostics
from headwater.language.formatter import format_condition, format_script
from headwater.language.parsing.statements import parse_statements
from support.random_scripts import predicates, statements


def reread(text: str) -> tuple[Statement, ...]:
    """Parse by grammar alone, because random scripts need not be meaningful."""
    report = Diagnostics(text)
    found = parse_statements(text, report)
    report.raise_errors()
    return tuple(statement for statement, _ in found.statements)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=120, deadline=None)
@given(statements)
def test_formatting_keeps_the_meaning_and_is_idempotent(statement: Statement) -> None:
    text = format_script(Script((statement,)))
    again = reread(text)
    assert again == (statement,)
    assert format_script(Script(again)) == text


@settings(max_examples=120, deadline=None)
@given(predicates)
def test_a_condition_survives_on_its_own(pred: Condition) -> None:
    (statement,) = reread(f"CREATE FEED a AS RETURN ALL WHERE {format_condition(pred)}")
    assert isinstance(statement, CreateFeed)
    assert statement.query == Query(statement.query.branches, where=pred)


def formatted(text: str) -> str:
    return format_script(parse(text))


def test_keywords_become_capitals_and_names_stay_as_they_are() -> None:
    assert formatted("create feed MyFeed as from Guardian where not has link") == (
        "CREATE FEED MyFeed AS RETURN Guardian WHERE NOT HAS LINK;\n"
    )


def test_a_long_query_has_one_part_per_line() -> None:
    sources = '"http://feeds.example/one" | "http://feeds.example/two"'
    text = f"CREATE FEED a AS RETURN {sources} WHERE HAS LINK KEEP LAST 4 ITEMS"
    assert formatted(text) == (
        "CREATE FEED a AS\n"
        'RETURN "http://feeds.example/one" | "http://feeds.example/two"\n'
        "WHERE HAS LINK\n"
        "KEEP LAST 4 ITEMS;\n"
    )


def test_a_long_condition_has_one_conjunct_per_line() -> None:
    parts = [f'ITEM CONTAINS "{letter * 30}"' for letter in "abc"]
    assert formatted(f"CREATE FEED a AS RETURN ALL WHERE {' AND '.join(parts)}").endswith(
        f"\nWHERE {parts[0]}\n  AND {parts[1]}\n  AND {parts[2]};\n"
    )


def test_comments_are_kept() -> None:
    text = """-- about a
        CREATE FEED a AS -- inside
        RETURN ALL; -- behind
        -- about b
        DROP FEED a;
        -- the end"""
    assert formatted(text) == (
        "-- about a\n-- inside\n-- behind\nCREATE FEED a AS RETURN ALL;\n\n-- about b\nDROP FEED a;\n-- the end\n"
    )
    assert formatted(formatted(text)) == formatted(text)


def test_only_the_parentheses_that_matter_stay() -> None:
    text = "CREATE FEED a AS RETURN ALL WHERE ((HAS LINK) AND ((HAS TITLE OR HAS AUTHOR))) OR (SIZE > 3 AND HAS LINK)"
    assert "WHERE HAS LINK AND (HAS TITLE OR HAS AUTHOR) OR SIZE > 3 AND HAS LINK;" in formatted(text)


def test_a_statement_keeps_its_text() -> None:
    (statement,) = parse("  CREATE FEED a AS RETURN ALL ; ").statements
    assert statement.text == "CREATE FEED a AS RETURN ALL"
    assert statement.name == FeedName("a")


def test_a_title_is_formatted_as_written() -> None:
    text = 'CREATE FEED a AS RETURN FEED "The Guardian" | b WHERE SOURCE = FEED "The Guardian";\n'
    assert 'FEED "The Guardian" | b' in format_script(parse(text))
    assert parse(format_script(parse(text))) == parse(text)
