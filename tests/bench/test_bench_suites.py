"""`bench.support.suites` counts the expectations of a suite that each reader meets."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.support.suites import is_met, load_expectations, score

RIGHT = """<!-- Description: t
Expect: not bozo and feed['title'] == 'A & B' and entries[0].link == 'http://127.0.0.1:8097/1'
--><rss version="2.0"><channel><title>A &amp;amp; B</title><item><link>/1</link></item></channel></rss>"""
WRONG = """<!-- Expect: entries[0]['title_detail']['value'] == 'Something else' and entries[0]['where'] == {}
--><rss version="2.0"><channel><item><title>t</title></item></channel></rss>"""


def test_expectations_of_fields_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "right.xml").write_text(RIGHT)
    (tmp_path / "wrong.xml").write_text(WRONG)
    assert [one.key[-1] for one in load_expectations(tmp_path)] == ["title", "link", "title"]
    met = score(tmp_path, misses=True)
    assert (met["headwater"], met["feedparser"]) == (2, 2)
    assert "'t' instead of 'Something else'" in capsys.readouterr().out


def test_expected_results_of_gofeed_are_counted(tmp_path: Path) -> None:
    item = "<item><title>t</title><guid>tag:7</guid><category>c</category><pubDate>2004-01-01</pubDate></item>"
    (tmp_path / "a.xml").write_text(f"<rss version='2.0'><channel><title>A</title>{item}</channel></rss>")
    (tmp_path / "a.json").write_text(
        """{"title": "A", "feedType": "rss", "items": [{"title": "t", "guid": {"value": "tag:7"}, "categories": ["x"],
        "publishedParsed": "2004-01-01T00:00:00Z", "authors": [{"name": "Nobody"}]}]}"""
    )
    keys = [one.key for one in load_expectations(tmp_path)]
    assert keys[0] == ("feed", "title")
    assert [key[2] for key in keys[1:]] == ["title", "id", "tags", "published_parsed", "author_detail"]
    assert score(tmp_path) | {"fastfeedparser": 0} == {"headwater": 4, "feedparser": 4, "fastfeedparser": 0}


def test_expectations_about_embedded_pages_are_counted_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = "<description>a&lt;iframe src='http://b.example/'>&lt;/iframe></description>"
    (tmp_path / "right.xml").write_text(RIGHT)
    (tmp_path / "frame.xml").write_text(
        f"<!-- Expect: entries[0].summary == 'a'\n--><rss><channel><item>{frame}</item></channel></rss>"
    )
    assert score(tmp_path)["headwater"] == 2
    out = capsys.readouterr().out
    assert "2 of 3; without embedded pages 2 of 2" in out
    assert "3 of 3; without embedded pages 2 of 2" in out


def test_html_is_compared_by_text_and_links() -> None:
    key = ("entries", 0, "summary")
    assert is_met(key, "<p>a <b>b</b></p>", "<div>a b</div>")
    assert not is_met(key, '<a href="/x">a</a>', "a")
    assert not is_met(("feed", "id"), "a", "A")
