"""`headwater publish` manages private feeds and their tokens."""

from __future__ import annotations


def test_a_feed_is_closed_gets_a_token_and_loses_it(headwater) -> None:
    headwater("feeds", "import", "-", "--tag", "news", input="http://127.0.0.1:9/feed\n")
    assert headwater("publish", "private", "tags/news", "--json").json == {"path": "/tags/news", "private": True}
    made = headwater("publish", "token", "tags/news", "--label", "phone", "--json").json
    assert made["private"]
    assert made["url"].endswith(f"/tags/news.rss?token={made['token']}")
    listed = headwater("publish", "list", "--json").json
    assert listed["private"] == ["/tags/news"]
    assert [one["label"] for one in listed["tokens"]] == ["phone"]
    assert made["token"] not in headwater("publish", "list", "--json").out
    revoked = headwater("publish", "revoke", "tags/news", "--label", "phone", "--json").json
    assert revoked == {"revoked": 1, "undo": 1}
    again = headwater("publish", "revoke", "tags/news")
    assert again.code != 0
    assert "no token" in again.err
    headwater("publish", "public", "tags/news")
    assert headwater("publish", "list", "--json").json["private"] == []


def test_what_is_not_published_is_refused_with_a_sentence(headwater) -> None:
    wrong = (("tags/none", "tag"), ("feeds/none", "query feed"), ("../etc", "feeds/NAME"), ("x", "tags/TAG"))
    for where, word in wrong:
        answer = headwater("publish", "private", where)
        assert answer.code != 0
        assert word in answer.err


def test_articles_are_switched_for_feeds_and_query_feeds(headwater) -> None:
    headwater("feeds", "import", "-", input="http://127.0.0.1:9/feed\n")
    assert "are fetched" in headwater("feeds", "articles", "1", "on").out
    assert headwater("feeds", "articles", "1", "off", "--json").json["articles"] is False
    assert headwater("feeds", "articles", "1", "perhaps").code != 0
    assert headwater("feeds", "articles", "99", "on").code != 0
    assert headwater("query", "articles", "Nowhere", "on").code != 0


def test_templates_are_set_shown_refused_and_forgotten(headwater, tmp_path) -> None:
    text = tmp_path / "mail.txt"
    text.write_text("{{ items[0].title }}")
    set_ = headwater("deliveries", "template", "--subject", "{{ query }}", "--body", str(text), "--json")
    assert set_.json == {"*": {"subject": "{{ query }}", "body": "{{ items[0].title }}"}}
    wrong = headwater("deliveries", "template", "--subject", "{{ nothing }}")
    assert wrong.code != 0
    assert "'nothing' is undefined" in wrong.err
    assert headwater("deliveries", "template", "nowhere", "--subject", "x").code != 0
    assert headwater("deliveries", "template", "--body", str(tmp_path / "none")).code != 0
    assert "{{ query }}" in headwater("deliveries", "template").out
    assert headwater("deliveries", "template", "--off", "--json").json == {}
