"""`headwater removed` lists, restores and deletes removed objects."""

from __future__ import annotations


def test_what_was_removed_is_listed_and_brought_back_by_the_command_that_was_named(headwater) -> None:
    headwater("users", "add", "ada", "--password-stdin", input="long enough\n")
    headwater("users", "add", "bo", "--password-stdin", input="long enough\n")
    headwater("feeds", "import", "-", input="http://127.0.0.1:9/feed\n")
    headwater("query", "create", "-", input="CREATE FEED News AS RETURN ALL")
    assert "headwater removed undo 1" in headwater("users", "remove", "bo").out
    assert headwater("feeds", "remove", "1", "--json").json[0]["undo"] == 2
    assert "headwater removed undo 3" in headwater("query", "drop", "News").out
    listed = headwater("removed", "list", "--json").json
    assert [(one["id"], one["kind"]) for one in listed] == [(3, "query feed"), (2, "feed"), (1, "account")]
    assert "1  account  bo" in headwater("removed", "list").out
    back = headwater("removed", "undo", "1", "2", "3", "--json").json
    assert [one["label"] for one in back] == ["News", "http://127.0.0.1:9/feed", "bo"]
    assert [one["name"] for one in headwater("users", "list", "--json").json] == ["ada", "bo"]
    assert headwater("query", "list", "--json").json[0]["name"] == "News"
    assert "Nothing was removed" in headwater("removed", "list").out


def test_what_is_forgotten_does_not_come_back_and_mistakes_get_a_sentence(headwater) -> None:
    headwater("feeds", "import", "-", input="http://127.0.0.1:9/feed\nhttp://127.0.0.1:9/other\n")
    headwater("feeds", "remove", "1", "2")
    assert headwater("removed", "forget", "1", "--json").json == {"forgotten": 1}
    again = headwater("removed", "undo", "1")
    assert (again.code, "kept for a day" in again.err) == (2, True)
    assert headwater("removed", "forget", "7").code == 2
    assert headwater("removed", "forget").code == 2
    assert headwater("removed", "forget", "--all", "--json").json == {"forgotten": 1}
    assert headwater("removed", "undo", "two").code == 2
