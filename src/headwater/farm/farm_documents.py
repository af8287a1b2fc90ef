"""Writes the farm's documents: RSS 2.0, Atom 1.0, RDF (RSS 1.0), JSON Feed 1.1, OPML and small HTML pages.

String templates write them, not `headwater.formats`: tests then compare our parser with an independent writer, and
writing a document costs little compared with reading it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import formatdate
from html import escape

import orjson

from headwater.farm.sample_text import SampleText
from headwater.farm.timeline import FarmProfile

TYPES = {
    "rss": "application/rss+xml; charset=utf-8",
    "atom": "application/atom+xml; charset=utf-8",
    "rdf": "application/rdf+xml; charset=utf-8",
    "json": "application/feed+json; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class FarmItem:
    """An item to be written; `date` is in wall-clock seconds."""

    number: int
    identity: str
    date: float
    text: SampleText


@dataclass(frozen=True, slots=True)
class FarmDocument:
    """The content of a feed document. `base` is the address of the server, `gap` the mean seconds of wall time between
    two items, `silent` the hours (UTC) listed in skipHours."""

    profile: FarmProfile
    base: str
    gap: float
    silent: tuple[int, ...]
    pieces: Sequence[FarmItem]

    @property
    def feed_url(self) -> str:
        return f"{self.base}/feeds/{self.profile.feed}"

    def item_url(self, piece: FarmItem) -> str:
        return f"{self.base}/items/{self.profile.feed}/{piece.number}"

    def newest_date(self) -> float:
        return self.pieces[0].date if self.pieces else 0.0


def item_identity(seed: int, feed: int, number: int) -> str:
    """Return the identity of an item in every format."""
    return f"urn:headwater-farm:{seed}:{feed}:{number}"


def write_document(page: FarmDocument) -> bytes:
    return _WRITERS[page.profile.format](page).encode()


def write_rss(page: FarmDocument) -> str:
    """Write RSS 2.0 with content:encoded, dc:creator, media:content, and the hints ttl, skipHours or sy:*."""
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"'
        ' xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:dc="http://purl.org/dc/elements/1.1/"'
        ' xmlns:media="http://search.yahoo.com/mrss/" xmlns:sy="http://purl.org/rss/1.0/modules/syndication/">'
        f"<channel>\n<title>{escape(page.profile.title)}</title><link>{page.feed_url}.html</link>"
        f"<description>{page.profile.topic.capitalize()} news from the feed farm</description><language>en</language>"
        f'<atom:link rel="self" type="application/rss+xml" href="{page.feed_url}"/>'
        f"<lastBuildDate>{_format_rfc822(page.newest_date())}</lastBuildDate>{_write_rss_hints(page)}\n"
        + "".join(_write_rss_item(page, piece) for piece in page.pieces)
        + "</channel></rss>\n"
    )


def _write_rss_item(page: FarmDocument, piece: FarmItem) -> str:
    text = piece.text
    content = f"<content:encoded><![CDATA[{text.content}]]></content:encoded>" if page.profile.full else ""
    return (
        f"<item><title>{escape(text.title)}</title><link>{page.item_url(piece)}</link>"
        f'<guid isPermaLink="false">{piece.identity}</guid><pubDate>{_format_rfc822(piece.date)}</pubDate>'
        f"<dc:creator>{text.author}</dc:creator>{''.join(f'<category>{tag}</category>' for tag in text.categories)}"
        f"<description>{escape(text.summary)}</description>{content}{_write_rss_files(page, piece)}</item>\n"
    )


def _write_rss_files(page: FarmDocument, piece: FarmItem) -> str:
    found = ""
    if piece.text.picture:
        found = f'<media:content medium="image" type="image/svg+xml" url="{page.item_url(piece)}.svg"/>'
    if piece.text.episode:
        found += f'<enclosure url="{page.item_url(piece)}.mp3" type="audio/mpeg" length="{piece.text.episode}"/>'
    return found


def _write_rss_hints(page: FarmDocument) -> str:
    if page.profile.hints == "ttl" and (minutes := int(page.gap / 4 / 60)) >= 1:
        return f"<ttl>{min(minutes, 1440)}</ttl>"
    if page.profile.hints == "skip" and page.silent:
        return f"<skipHours>{''.join(f'<hour>{hour}</hour>' for hour in page.silent)}</skipHours>"
    return _write_syndication(page)


def _write_syndication(page: FarmDocument) -> str:
    """Write sy:updatePeriod and sy:updateFrequency: about four refreshes per item."""
    if page.profile.hints != "sy" or not page.gap:
        return ""
    for period, seconds in (("daily", 86_400), ("hourly", 3_600)):
        if 1 <= (often := int(seconds / (page.gap / 4))) <= 24:
            return f"<sy:updatePeriod>{period}</sy:updatePeriod><sy:updateFrequency>{often}</sy:updateFrequency>"
    return ""


def write_rdf(page: FarmDocument) -> str:
    """Write RSS 1.0: items beside the channel, Dublin Core dates and creators."""
    order = "".join(f'<rdf:li rdf:resource="{piece.identity}"/>' for piece in page.pieces)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<rdf:RDF xmlns="http://purl.org/rss/1.0/"'
        ' xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:dc="http://purl.org/dc/elements/1.1/"'
        ' xmlns:content="http://purl.org/rss/1.0/modules/content/"'
        ' xmlns:sy="http://purl.org/rss/1.0/modules/syndication/">\n'
        f'<channel rdf:about="{page.feed_url}"><title>{escape(page.profile.title)}</title>'
        f"<link>{page.feed_url}.html</link>"
        f"<description>{page.profile.topic.capitalize()} news from the feed farm</description>"
        f"<dc:language>en</dc:language>{_write_syndication(page)}<items><rdf:Seq>{order}</rdf:Seq></items></channel>\n"
        + "".join(_write_rdf_item(page, piece) for piece in page.pieces)
        + "</rdf:RDF>\n"
    )


def _write_rdf_item(page: FarmDocument, piece: FarmItem) -> str:
    text = piece.text
    content = f"<content:encoded><![CDATA[{text.content}]]></content:encoded>" if page.profile.full else ""
    return (
        f'<item rdf:about="{piece.identity}"><title>{escape(text.title)}</title><link>{page.item_url(piece)}</link>'
        f"<description>{escape(text.summary)}</description><dc:date>{_format_iso(piece.date)}</dc:date>"
        f"<dc:creator>{text.author}</dc:creator>"
        f"{''.join(f'<dc:subject>{tag}</dc:subject>' for tag in text.categories)}{content}</item>\n"
    )


def write_atom(page: FarmDocument) -> str:
    """Write Atom 1.0 (RFC 4287)."""
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="en">\n'
        f"<id>urn:headwater-farm:{page.profile.feed}</id><title>{escape(page.profile.title)}</title>"
        f"<subtitle>{page.profile.topic.capitalize()} news from the feed farm</subtitle>"
        f'<link rel="self" type="application/atom+xml" href="{page.feed_url}"/><link href="{page.feed_url}.html"/>'
        f"<updated>{_format_iso(page.newest_date())}</updated>\n"
        + "".join(_write_atom_entry(page, piece) for piece in page.pieces)
        + "</feed>\n"
    )


def _write_atom_entry(page: FarmDocument, piece: FarmItem) -> str:
    text = piece.text
    content = f'<content type="html">{escape(text.content)}</content>' if page.profile.full else ""
    files = ""
    if text.picture:
        files = f'<link rel="enclosure" type="image/svg+xml" href="{page.item_url(piece)}.svg"/>'
    if text.episode:
        files += f'<link rel="enclosure" type="audio/mpeg" length="{text.episode}" href="{page.item_url(piece)}.mp3"/>'
    date = _format_iso(piece.date)
    tags = "".join(f'<category term="{tag}"/>' for tag in text.categories)
    return (
        f'<entry><id>{piece.identity}</id><title>{escape(text.title)}</title><link href="{page.item_url(piece)}"/>'
        f"<published>{date}</published><updated>{date}</updated><author><name>{text.author}</name></author>"
        f'{tags}<summary type="html">{escape(text.summary)}</summary>{content}{files}</entry>\n'
    )


def write_json_feed(page: FarmDocument) -> str:
    """Write JSON Feed 1.1."""
    items = []
    for piece in page.pieces:
        text, link = piece.text, page.item_url(piece)
        files = [{"url": f"{link}.mp3", "mime_type": "audio/mpeg", "size_in_bytes": text.episode}]
        items.append(
            {
                "id": piece.identity,
                "url": link,
                "title": text.title,
                "content_html": text.content if page.profile.full else text.summary,
                "date_published": _format_iso(piece.date),
                "authors": [{"name": text.author}],
                "tags": text.categories,
                **({"image": f"{link}.svg"} if text.picture else {}),
                **({"attachments": files} if text.episode else {}),
            }
        )
    feed = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": page.profile.title,
        "description": f"{page.profile.topic.capitalize()} news from the feed farm",
        "home_page_url": f"{page.feed_url}.html",
        "feed_url": page.feed_url,
        "language": "en",
        "items": items,
    }
    return orjson.dumps(feed, option=orjson.OPT_INDENT_2).decode()


_WRITERS: dict[str, Callable[[FarmDocument], str]] = {
    "rss": write_rss,
    "atom": write_atom,
    "rdf": write_rdf,
    "json": write_json_feed,
}


def write_opml(feeds: Iterable[tuple[str, FarmProfile]]) -> bytes:
    """Write the list of feeds, given as (address, profile) pairs, in one folder per topic."""
    folders: dict[str, list[str]] = {}
    for url, profile in feeds:
        folders.setdefault(profile.topic, []).append(
            f'<outline type="rss" text="{escape(profile.title)}" title="{escape(profile.title)}" xmlUrl="{url}"'
            f' htmlUrl="{url}.html"/>\n'
        )
    body = "".join(
        f'<outline text="{topic}">\n{"".join(lines)}</outline>\n' for topic, lines in sorted(folders.items())
    )
    head = "<head><title>Headwater feed farm</title></head>"
    return f'<?xml version="1.0" encoding="utf-8"?>\n<opml version="2.0">{head}<body>\n{body}</body></opml>\n'.encode()


def write_html(title: str, body: str, links: Iterable[tuple[str, str]] = ()) -> bytes:
    """Write a small page. `links` are (type, address) pairs for autodiscovery; `body` is HTML."""
    head = "".join(f'<link rel="alternate" type="{kind.partition(";")[0]}" href="{href}">' for kind, href in links)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>{head}</head>'
        f"<body><h1>{escape(title)}</h1>{body}</body></html>\n"
    ).encode()


def _format_rfc822(seconds: float) -> str:
    return formatdate(seconds, usegmt=True)


def _format_iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
