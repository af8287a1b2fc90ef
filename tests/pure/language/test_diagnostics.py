"""Messages have the literal text and the layout of the specification."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headwater.errors import QueryError
from headwater.language import Catalogue, Message, parse

KNOWN = Catalogue({"guardian": "http://g.example/rss", "picture": "http://p.example/rss"})


def written(name: str) -> list[tuple[str, str]]:
    """Read the numbered cases of a file beside this one."""
    parts = re.split(r"^B(\d+)\n", (Path(__file__).parent / name).read_text(), flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


SPECIFIED = written("malformed.txt")
MORE = written("mistakes.txt")


def wanted(case: str) -> tuple[str, str | None]:
    message, *hint = case.split("\n  -> ")[1].strip("\n").split("\n")
    return message, hint[0].removeprefix("  hint: ") if hint else None


def mistakes(text: str, catalogue: Catalogue | None = KNOWN) -> tuple[Message, ...]:
    with pytest.raises(QueryError) as caught:
        parse(text, catalogue)
    return caught.value.messages  # type: ignore[return-value]


@pytest.mark.parametrize(("number", "case"), SPECIFIED)
def test_a_malformed_query_gets_the_message_of_the_specification_and_no_other(number: str, case: str) -> None:
    (found,) = mistakes(case.split("\n  -> ")[0])
    assert (str(found), found.hint) == wanted(case)


def test_all_malformed_queries_are_there() -> None:
    assert [number for number, _ in SPECIFIED] == [str(number) for number in range(1, 25)]


SCRIPTS = (Path(__file__).parent / "malformed_scripts.txt").read_text().splitlines()
WITHOUT_HINT = ("KEEP is given twice",)  # the message says what to do


def test_every_malformed_script_gets_a_position_and_a_hint() -> None:
    known = Catalogue(KNOWN.sources, tags=frozenset({"science"}), titles=(("The Guardian", "http://g.example/rss"),))
    assert len(SCRIPTS) > 170
    for script in SCRIPTS:
        first = mistakes(script, known)[0]
        assert re.match(r"1:\d+: ", str(first)), script
        assert first.hint or str(first).split(": ", 1)[1] in WITHOUT_HINT, script


def test_a_message_shows_its_line_and_a_caret_under_the_position() -> None:
    (found,) = mistakes('CREATE FEED a AS RETURN guardian\nWHERE TITLE CONTAIN "iceland";')
    assert found.render().split("\n") == [
        "2:13: expected an operator after TITLE (CONTAINS, =, !=, IN, MATCHES), found “CONTAIN”",
        '  WHERE TITLE CONTAIN "iceland";',
        "              ^",
        "  hint: did you mean CONTAINS?",
    ]


def test_the_caret_is_right_after_tabs_and_wide_characters() -> None:
    (found,) = mistakes('CREATE FEED a AS RETURN guardian WHERE\n\tTITLE CONTAINS "火山" && HAS LINK')
    source, caret = found.render().split("\n")[1:3]
    assert source == '  \tTITLE CONTAINS "火山" && HAS LINK'
    assert caret == "  \t" + " " * len('TITLE CONTAINS "0000" ') + "^"


def test_a_long_line_is_shown_around_the_position() -> None:
    (found,) = mistakes("CREATE FEED a AS RETURN guardian WHERE " + "HAS LINK AND " * 40 + "HAS LINC")
    source, caret = found.render().split("\n")[1:3]
    assert len(source) < 110
    assert source[caret.index("^") :].startswith("LINC")


def test_a_placeholder_without_quotes_is_told_from_a_condition_on_a_source() -> None:
    first = mistakes("CREATE FEED a AS RETURN guardian SET TITLE = {title}")[0]
    assert first.hint == 'placeholders stand in quotes (SET TITLE = "{title}"), conditions on a source in [ ]'


def test_control_characters_are_not_shown() -> None:
    (found,) = mistakes("CREATE FEED \x1b[31mred AS RETURN guardian")[:1]
    assert "\x1b" not in found.render()


def test_an_unknown_variable_lists_the_declared_ones() -> None:
    (found,) = mistakes("CREATE FEED a AS RETURN guardian AS $g | picture AS $p WHERE $q[HAS LINK]")
    assert found.note == "declared variables: $g, $p"
    assert found.render().endswith("note: declared variables: $g, $p")


def test_several_mistakes_of_a_script_are_reported_at_once_in_the_order_of_the_text() -> None:
    text = """
        CREAT FEED a AS RETURN guardian;
        CREATE FEED b AS RETURN gardian WHERE HAS LINK;
        CREATE FEED c AS RETURN guardian WHERE TITEL CONTAINS "x" AND LINK > "y" KEEP LAST 3 FORTNIGHTS IMPORTANCE 101;
        CREATE FEED d AS RETURN c;
    """
    found = mistakes(text)
    assert [(message.line, message.column) for message in found] == [
        (2, 9),
        (3, 33),
        (4, 48),
        (4, 76),
        (4, 94),
        (4, 116),
    ]


def test_a_broken_definition_does_not_make_its_name_unknown() -> None:
    assert len(mistakes("CREATE FEED a AS RETURN guardian WHERE TITEL = 'x'; CREATE FEED b AS RETURN a")) == 1


@pytest.mark.parametrize(("number", "case"), MORE)
def test_a_mistake_is_reported_at_its_position_and_nothing_else(number: str, case: str) -> None:
    (found,) = mistakes(case.split("\n  -> ")[0])
    assert (str(found), found.hint) == wanted(case)


def test_a_cycle_is_reported_with_its_path_at_the_closing_reference() -> None:
    text = "CREATE FEED A AS RETURN guardian; CREATE FEED B AS RETURN A;\nCREATE OR REPLACE FEED A AS\nRETURN B"
    (found,) = mistakes(text)
    assert str(found) == "3:8: feed A would read itself: A → B → A"


def test_a_feed_cannot_read_itself_directly() -> None:
    (found,) = mistakes("CREATE FEED a AS RETURN a")
    assert str(found) == "1:25: feed a would read itself: a → a"


def test_a_join_closes_a_cycle_too() -> None:
    text = (
        "CREATE FEED a AS RETURN guardian; CREATE FEED b AS RETURN a;"
        "CREATE OR REPLACE FEED a AS RETURN guardian JOIN b AS $b WITHIN LAST DAY ON LINK = $b.LINK"
    )
    (found,) = mistakes(text)
    assert found.text == "feed a would read itself: a → b → a"


def test_after_a_cycle_the_rest_of_the_script_is_checked_against_the_definitions_in_force() -> None:
    text = (
        "CREATE FEED a AS RETURN guardian; CREATE FEED b AS RETURN a; CREATE OR REPLACE FEED a AS RETURN b;"
        "CREATE FEED c AS RETURN a | b; CREATE OR REPLACE FEED b AS RETURN c; CREATE FEED d AS RETURN nobody"
    )
    assert [message.text for message in mistakes(text)] == [
        "feed a would read itself: a → b → a",
        "feed b would read itself: b → c → b",
        "unknown feed nobody",
    ]


def test_a_cycle_in_the_catalogue_does_not_hang_the_checker() -> None:
    (one,) = parse("CREATE FEED one AS RETURN other").queries
    (other,) = parse("CREATE FEED other AS RETURN one").queries
    broken = Catalogue({}, {"one": one.query, "other": other.query})
    assert parse("CREATE FEED a AS RETURN one", broken).queries[0].name.name == "a"


def test_a_catalogue_serves_many_scripts() -> None:
    known = Catalogue({"guardian": "http://g.example/rss"})
    parse("CREATE FEED a AS RETURN Guardian; DROP FEED guardian CASCADE", known)
    parse("CREATE FEED a AS RETURN Guardian", known)


def test_without_a_catalogue_names_are_taken_on_trust() -> None:
    assert len(parse("CREATE FEED a AS RETURN whatever").statements) == 1


def test_readers_are_found_regardless_of_creation_order() -> None:
    text = (
        "CREATE FEED a AS RETURN guardian; CREATE FEED c AS RETURN guardian; CREATE FEED b AS RETURN c;"
        "CREATE OR REPLACE FEED a AS RETURN b; DROP FEED c"
    )
    (found,) = mistakes(text)
    assert found.text == "feed c is used by b, a"


def test_dropping_with_cascade_drops_the_users_too() -> None:
    text = "CREATE FEED a AS RETURN guardian; CREATE FEED b AS RETURN a; DROP FEED a CASCADE; CREATE FEED c AS RETURN b"
    (found,) = mistakes(text)
    assert found.text == "unknown feed b"


@pytest.mark.parametrize(
    "condition",
    [
        'TITLE CONTAINS "x" AND NOT TITLE CONTAINS "x"',
        'CATEGORY = "x" AND CATEGORY != "x"',
        'TITLE = "a" AND TITLE = "b"',
        'PUBLISHED > "2024-03-02" AND PUBLISHED < "2024-03-01"',
        "SIZE > 5 AND SIZE <= 5",
        "SIZE < 0",
        "NOT (HAS LINK OR NOT HAS LINK)",
        'HAS TITLE AND (SIZE < 0 OR TITLE = "a" AND TITLE != "a")',
    ],
)
def test_a_condition_that_no_item_can_meet_is_a_warning(condition: str) -> None:
    (warning,) = parse(f"CREATE FEED a AS RETURN guardian WHERE {condition}", KNOWN).warnings
    assert isinstance(warning, Message)
    assert str(warning) == "1:40: warning: no item can meet this condition"


@pytest.mark.parametrize(
    "condition",
    [
        'CATEGORY = "a" AND CATEGORY = "b"',
        'TITLE = "a" AND TITLE = "A "',
        "SIZE >= 5 AND SIZE <= 5",
        'TITLE CONTAINS "x" OR NOT TITLE CONTAINS "x"',
        'PUBLISHED >= "2024-03-01" AND PUBLISHED < "2024-03-02"',
    ],
)
def test_a_condition_that_can_be_met_gets_no_warning(condition: str) -> None:
    assert parse(f"CREATE FEED a AS RETURN guardian WHERE {condition}", KNOWN).warnings == ()


def test_a_tag_without_feeds_is_a_warning() -> None:
    (warning,) = parse('CREATE FEED a AS RETURN TAG "news"', KNOWN).warnings
    assert str(warning) == "1:25: warning: no feed has the tag “news” yet"
