"""SET publishes nothing that runs in a reader."""

from __future__ import annotations

import pytest

from headwater.language import parse
from headwater.model import Item
from headwater.query.feeds.templates import rewrite_item
from headwater.query.items.analysed_item import AnalysedItem
from support.tables import NEWS, item


def rewrite(clause: str, title: str = "Lava") -> Item:
    (create,) = parse(f"CREATE FEED a AS RETURN ALL SET {clause}").queries
    return rewrite_item(AnalysedItem(item(1, title), NEWS), create.query.settings).item


@pytest.mark.parametrize("field", ["CONTENT", "DESCRIPTION"])
@pytest.mark.parametrize("operator", ["=", "+="])
def test_scripts_and_handlers_are_removed_from_markup(field: str, operator: str) -> None:
    clause = f"""{field} {operator} '<script>alert(1)</script><img src="x" onerror="alert(1)"><b>{{title}}</b>'"""
    changed = rewrite(clause, "<script>alert(2)</script>")
    text = (changed.content if field == "CONTENT" else changed.summary) or ""
    assert "<b>&lt;script&gt;alert(2)" in text
    assert "<script" not in text
    assert "onerror" not in text


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        " JavaScript:alert(1)",
        "data:text/html,x",
        "java\\nscript:x",
        "feed:javascript:alert(1)",
        "feed: javascript:alert(1)",
        "feed:feed:javascript:alert(1)",
    ],
)
def test_a_link_that_runs_something_is_left_out(address: str) -> None:
    assert rewrite(f'LINK = "{address}"').link is None
    assert rewrite('LINK = "{title}"', address.replace("\\n", "\n")).link is None
    assert "javascript" not in (rewrite("""CONTENT = '<a href="{title}">x</a>'""", address).content or "").lower()


@pytest.mark.parametrize("address", ["feed:https://a.example/feed", "feed://a.example:8080/", "webcal:a.ics"])
def test_an_address_behind_feed_stays(address: str) -> None:
    assert rewrite(f'LINK = "{address}"').link == address


def test_a_harmless_text_stays_as_it_is() -> None:
    assert rewrite('CONTENT = "<p>{title} &amp; ash</p>"').content == "<p>Lava &amp; ash</p>"
    assert rewrite('LINK = "https://example.org/a?b=1"').link == "https://example.org/a?b=1"
    assert rewrite('TITLE = "a < b"').title == "a < b"


@pytest.mark.parametrize("field", ["TITLE", "AUTHOR", "CATEGORY"])
def test_tags_of_a_template_do_not_get_into_plain_text(field: str) -> None:
    changed = rewrite(f"{field} = '<script>alert(1)</script><img src=x onerror=alert(2)> 1 < 2: {{title}}'", "On <b>")
    (text,) = (changed.title,) if field == "TITLE" else changed.authors if field == "AUTHOR" else changed.categories
    assert text is not None
    assert text.split() == ["1", "<", "2:", "On", "<b>"]  # the title of the item is as its publisher wrote it


@pytest.mark.parametrize(
    ("clause", "title", "published"),
    [
        ('TITLE = "<{title}>alert(1)"', "script", "< script>alert(1)"),
        ('TITLE = "<img src=x onerror=alert(1) {title}"', "x>", "< img src=x onerror=alert(1) x>"),
        ('TITLE = "{title}script>alert(1)"', "<", "< script>alert(1)"),
        ('TITLE += "script>alert(1)"', "<", "< script>alert(1)"),
        ('TITLE = "a < {title}"', "b", "a < b"),
    ],
)
def test_a_template_and_a_value_make_no_tag_together(clause: str, title: str, published: str) -> None:
    assert rewrite(clause, title).title == published


@pytest.mark.parametrize(
    ("content", "published"),
    [("&lt;script&gt;alert(1)", "< script>alert(1)"), ("1 &lt;", "1 < script>"), ("a < b", "a < b")],
)
def test_a_content_makes_no_tag_in_plain_text(content: str, published: str) -> None:
    (create,) = parse('CREATE FEED a AS RETURN ALL SET TITLE = "{content}", AUTHOR = "{content}script>"').queries
    changed = rewrite_item(AnalysedItem(item(1, "Lava", content=content), NEWS), create.query.settings).item
    assert published in (changed.title, *changed.authors)


def test_nothing_is_published_where_only_tags_and_white_space_are_left() -> None:
    changed = rewrite('TITLE = " <b></b> ", AUTHOR = "<i> </i>", CATEGORY = " {author} "')
    assert (changed.title, changed.authors, changed.categories) == (None, (), ())
    assert rewrite('TITLE += " (<b>new</b>)"').title == "Lava (new)"
    assert rewrite('TITLE = "<script>x</script>{title}"').title == "Lava"
