"""Every field of the farm's documents is read back, and feedparser finds no error in them."""

from __future__ import annotations

from datetime import UTC, datetime

import feedparser
import pytest

from headwater.farm.farm import Farm
from headwater.formats import read

NOON = 1_800_014_400.0


@pytest.mark.parametrize("format", ["rss", "atom", "rdf", "json"])
def test_every_field_is_read_back(format: str) -> None:
    fields = Farm(feeds=12, rates=(2, 9), window=15, format=format, clock=lambda: NOON)
    for feed in range(12):
        document = read(fields.get_feed(feed).make_document(), url=fields.url(feed))
        assert document.problems == ()
        assert (document.title, document.language) == (fields.feed_profile(feed).title, "en")
        assert document.link == f"{fields.url(feed)}.html"
        for entry, piece in zip(document.items, fields.shown_items(feed), strict=True):
            text = piece.text
            assert (entry.id, entry.title) == (piece.identity, text.title)
            assert entry.link == f"{fields.base_url(feed)}/items/{feed}/{piece.number}"
            assert entry.published == pytest.approx(piece.date, abs=1.0)
            assert entry.authors == (text.author,)
            assert entry.categories == text.categories
            if format in ("rss", "atom"):
                lengths = [file.length for file in entry.enclosures if file.type == "audio/mpeg"]
                assert lengths == ([text.episode] if text.episode else [])


@pytest.mark.parametrize("format", ["rss", "atom", "rdf"])
def test_feedparser_agrees(format: str) -> None:
    fields = Farm(feeds=5, rates=(2, 9), format=format, clock=lambda: NOON)
    for feed in range(5):
        parsed = feedparser.parse(fields.get_feed(feed).make_document())
        assert not parsed.bozo
        assert [entry.title for entry in parsed.entries] == [piece.text.title for piece in fields.shown_items(feed)]
        assert [entry.id for entry in parsed.entries] == [piece.identity for piece in fields.shown_items(feed)]


def test_hints_are_sent_and_true() -> None:
    fields = Farm(feeds=300, format="rss", clock=lambda: NOON)
    seen = set()
    for feed in range(300):
        profile = fields.feed_profile(feed)
        hints = read(fields.get_feed(feed).make_document()).hints
        gap = 1 / profile.rate
        if hints.ttl is not None:
            seen.add("ttl")
            assert 60 <= hints.ttl <= gap / 4 + 1e-6
        if hints.skip_hours:
            seen.add("skip")
            assert hints.skip_hours == profile.silent_hours()
        if hints.update_period is not None:
            seen.add("sy")
            period = {"hourly": 3600.0, "daily": 86_400.0}[hints.update_period]
            assert hints.update_frequency is not None
            assert gap / 4 <= period / hints.update_frequency * 1.0001
            assert period / hints.update_frequency < gap
    assert seen == {"ttl", "skip", "sy"}
    silent = Farm(feeds=300, format="rss", clock=lambda: NOON, hints=False)
    for feed in range(50):
        hints = read(silent.get_feed(feed).make_document()).hints
        assert (hints.ttl, hints.skip_hours, hints.update_period) == (None, (), None)


def test_skip_hours_are_hours_of_utc_at_real_speed_and_never_sent_at_another() -> None:
    fast = Farm(feeds=60, speed=100, format="rss", clock=lambda: NOON)
    assert not any(read(fast.get_feed(feed).make_document()).hints.skip_hours for feed in range(60))
    real = Farm(feeds=60, format="rss", rates=(9, 9), window=200, clock=lambda: NOON)
    for feed in range(60):
        document = read(real.get_feed(feed).make_document())
        hours = {datetime.fromtimestamp(item.published or 0, UTC).hour for item in document.items}
        assert not hours & set(document.hints.skip_hours)
