"""`headwater read` works as people call it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

FEED = b"""<rss version="2.0"><channel><title>A [bold] feed</title><link>https://example.org/</link>
<item><title>First</title><link>/1</link><description>&lt;p&gt;Hello&lt;/p&gt;</description></item></channel></rss>"""


def run(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "headwater", *arguments]
    return subprocess.run(command, input=given, capture_output=True, check=False, timeout=120)


def test_a_document_is_shown_as_text() -> None:
    done = run("read", "-", "--url", "https://example.org/feed", given=FEED)
    shown = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    assert "A [bold] feed" in shown
    assert "1 item" in shown
    assert "https://example.org/1" in shown


def test_a_document_is_shown_as_json_with_the_names_of_the_model(tmp_path: Path) -> None:
    file = tmp_path / "feed.xml"
    file.write_bytes(FEED)
    done = run("read", str(file), "--json")
    document = orjson.loads(done.stdout)
    assert document["format"] == "rss 2.0"
    assert document["items"][0]["title"] == "First"
    assert document["items"][0]["summary"] == "<p>Hello</p>"
    assert document["hints"]["ttl"] is None


def test_the_missing_items_of_a_damaged_document_are_reported() -> None:
    damaged = FEED.replace(b"</channel></rss>", b"<item></item><item><title>Third</channel>")
    shown = " ".join(run("read", "-", given=damaged).stdout.decode().split())
    assert "2 of about 3 items could be read" in shown
    document = orjson.loads(run("read", "-", "--json", given=damaged).stdout)
    assert document["missing"] == 1
    assert "2 of about 3 items could be read" in document["problems"]


def test_differences_from_other_readers_are_shown_item_by_item() -> None:
    odd = FEED.replace(b"First</title>", b"Using &lt;vector&gt;</title><pubDate>le 2 janvier 2006 15h04</pubDate>")
    done = run("read", "-", "--url", "https://example.org/feed", "--compare", "--json", given=odd)
    assert done.returncode == 0, done.stderr
    compared = orjson.loads(done.stdout)
    (found,) = [one for one in compared["readers"] if one["name"] == "feedparser"]
    assert (compared["items"], found["items"], found["problem"]) == (1, 1, None)
    published = [one for one in found["differences"] if one["field"] == "published"]
    assert [(one["item"], one["ours"], one["theirs"]) for one in published] == [(1, 1136214240, None)]
    shown = run("read", "-", "--url", "https://example.org/feed", "--compare", given=odd).stdout.decode()
    assert "feedparser reads 1 item; 1 difference (1 in published)" in shown
    assert "Headwater: 2006-01-02T15:04:00Z" in shown


def test_long_texts_are_shown_where_they_differ() -> None:
    long = FEED.replace(b"Hello", b"word " * 200 + b"the &lt;path&gt; element")
    shown = " ".join(run("read", "-", "--compare", given=long).stdout.decode().split())
    assert "Headwater: … word" in shown
    assert "the <path> element" in shown


@pytest.mark.parametrize(
    ("given", "said"),
    [(b"", "empty"), (b"<!DOCTYPE html><html><body>Hi</body></html>", "HTML page"), (b'{"a": 1}', "JSON")],
)
def test_what_is_no_feed_ends_with_one_sentence(given: bytes, said: str) -> None:
    done = run("read", "-", given=given)
    assert done.returncode != 0
    assert said in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_a_file_that_is_not_there_ends_with_one_sentence(tmp_path: Path) -> None:
    done = run("read", str(tmp_path / "none.xml"))
    assert done.returncode != 0
    assert "cannot be read" in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_an_address_is_no_file_and_the_sentence_says_what_to_do() -> None:
    done = run("read", "https://example.org/feed")
    assert done.returncode == 1
    assert b"is an address, but read takes a file: use curl -sL ADDRESS | headwater read -" in done.stderr
