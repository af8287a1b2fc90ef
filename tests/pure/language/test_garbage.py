"""Any input gets a message within a short time, never a traceback."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.errors import QueryError
from headwater.language import Catalogue, Message, parse
from headwater.language.ast import Script, Statement
from headwater.language.formatter import format_script
from headwater.language.parsing.lexer import KEYWORDS
from support.random_scripts import statements

pieces = st.sampled_from(
    [
        *sorted(KEYWORDS),
        *"()[]|,;=<>-.+/'\"$&!{}\\\n",
        "$g",
        '"x"',
        "/x/i",
        "3",
        "0.5",
        "name",
        "“x”",
        "--",
        "http://x/",
    ]
)


def parse_messages(text: str, catalogue: Catalogue | None) -> tuple[Message, ...] | None:
    """Return the messages about the text, or None if it is a script."""
    try:
        parse(text, catalogue)
    except QueryError as error:
        return error.messages  # type: ignore[return-value]
    return None


def survives(text: str) -> None:
    for catalogue in (None, Catalogue({"guardian": "http://g/"})):
        messages = parse_messages(text, catalogue)
        assert messages is None or (messages and all(message.render() for message in messages))


@settings(max_examples=120, deadline=None)
@given(st.text())
def test_any_characters_parse_or_get_messages(text: str) -> None:
    survives(text)


@settings(max_examples=120, deadline=None)
@given(st.lists(pieces, max_size=40), st.booleans())
def test_any_tokens_parse_or_get_messages(tokens: list[str], started: bool) -> None:
    survives(("CREATE FEED a AS RETURN guardian " if started else "") + " ".join(tokens))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(statements, st.data())
def test_a_mutated_query_parses_or_gets_messages(statement: Statement, data: st.DataObject) -> None:
    text = format_script(Script((statement,)))
    start, end = sorted((data.draw(st.integers(0, len(text))), data.draw(st.integers(0, len(text)))))
    survives(text[:start] + data.draw(pieces | st.just("")) + text[end if data.draw(st.booleans()) else start :])


@pytest.mark.parametrize(
    "text",
    [
        "(" * 1_000_000,
        "CREATE FEED a AS RETURN " + "(" * 1_000_000,
        "CREATE FEED a AS RETURN ALL WHERE " + "(" * 60_000,
        "CREATE FEED a AS RETURN ALL WHERE " + "NOT " * 15_000,
        "CREATE FEED a AS RETURN ALL[" + "$a[" * 15_000,
        "\x00" * 100_000,
        "é" * 1_000_000,
        '"' * 100_001,
        "\n" * 1_000_000 + "x",
        "a;" * 300_000,
        "CREATE FEED a AS RETURN ALL KEEP LAST " + "9" * 60_000 + " DAYS",
        "CREATE FEED a AS RETURN ALL WHERE SIZE > " + "9" * 60_000,
        "CREATE FEED " + "a" * 60_000 + " AS RETURN ALL",
    ],
    ids=lambda text: f"{text[-40:]!r}"[:30],
)
def test_huge_nonsense_gets_a_short_message(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    assert 1 <= len(caught.value.messages) <= 50
    assert len(str(caught.value)) < 50_000


def messages(text: str) -> list[str]:
    with pytest.raises(QueryError) as caught:
        parse(text)
    return [str(message) for message in caught.value.messages]


def test_a_statement_over_64_kib_is_refused_and_the_next_one_read() -> None:
    long = 'CREATE FEED a AS RETURN ALL WHERE TITLE = "' + "é" * 33_000 + '"'
    assert messages(f"{long};\nDROP FEED b c") == [
        "1:1: this statement is longer than 64 KiB",
        "2:13: expected “;”, found “c”",
    ]


def test_text_before_a_statement_does_not_count_to_its_length() -> None:
    text = "\n" * 100_000 + f"-- {'long ' * 20_000}\n-- and more\n  DROP FEED a"
    (statement,) = parse(text).statements
    assert statement.text == "DROP FEED a"
    assert len(statement.comments) == 2


def test_a_script_may_be_longer_than_one_statement() -> None:
    text = "".join(f"CREATE FEED f{n} AS RETURN ALL;\n" for n in range(4_000))
    assert len(parse(text).statements) == 4_000


def test_a_condition_has_at_most_512_parts_and_values_of_lists_count() -> None:
    query = "CREATE FEED a AS RETURN ALL WHERE {}"
    assert parse(query.format(" OR ".join(["HAS LINK"] * 512)))
    assert messages(query.format(" OR ".join(["HAS LINK"] * 513))) == [
        "1:35: the condition has 513 parts; at most 512 are allowed"
    ]
    listed = ", ".join(["'x'"] * 513)
    assert messages(query.format(f"TITLE IN ({listed})")) == [
        "1:35: the condition has 513 parts; at most 512 are allowed"
    ]


def test_a_query_has_at_most_twenty_patterns_of_a_thousand_characters() -> None:
    query = "CREATE FEED a AS RETURN ALL WHERE {}"
    assert parse(query.format(" OR ".join(["TITLE MATCHES /x/"] * 20)))
    assert messages(query.format(" OR ".join(["TITLE MATCHES /x/"] * 21))) == [
        "1:18: the query has 21 regular expressions; at most 20 are allowed"
    ]
    assert parse(query.format(f"TITLE MATCHES /{'x' * 1000}/"))
    assert messages(query.format(f"TITLE MATCHES /{'x' * 1001}/")) == [
        "1:49: the regular expression has 1,001 characters"
    ]


def test_a_union_has_at_most_ten_thousand_sources() -> None:
    assert parse(f"CREATE FEED a AS RETURN {' | '.join(['ab'] * 10_000)}")
    assert messages(f"CREATE FEED a AS RETURN {' | '.join(['ab'] * 10_001)}") == [
        "1:18: the query has 10,001 sources; at most 10,000 are allowed"
    ]


def test_conditions_and_feeds_nest_sixteen_deep() -> None:
    query = "CREATE FEED a AS RETURN ALL WHERE {}HAS LINK{}"
    assert parse(query.format("(" * 16, ")" * 16))
    assert messages(query.format("(" * 17, ")" * 17)) == ["1:52: nested deeper than 16 levels"]
    tower = "CREATE FEED f0 AS RETURN ALL;" + "".join(f"CREATE FEED f{n} AS RETURN f{n - 1};" for n in range(1, 17))
    assert parse(tower)
    assert messages(f"{tower}\nCREATE FEED top AS RETURN f16") == ["2:13: feeds are layered deeper than 16 levels"]
