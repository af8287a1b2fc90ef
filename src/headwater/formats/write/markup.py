"""Writes escaped XML elements and dates. CDATA is never written, so `]]>` cannot end it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import escape

from headwater.formats.values.text import replace_forbidden
from headwater.formats.write.addresses import to_uri
from headwater.model import Document, Enclosure, Entry, Episode, Person

DECLARATION = '<?xml version="1.0" encoding="utf-8"?>\n'
_MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]{1,127}/[\w!#$&^.+-]{1,127}(?:\s*;[^<>\"]{0,200})?", re.ASCII)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

ARCHIVE = '<fh:archive xmlns:fh="http://purl.org/syndication/history/1.0"/>'


def list_page_links(document: Document, next_url: str | None) -> list[tuple[str, str]]:
    """Return relation and address of the other pages of a document (RFC 5005 §3 and §4)."""
    found = (
        ("next", next_url or document.next),
        ("previous", document.previous),
        ("prev-archive", document.next if document.archived else None),
        ("next-archive", document.previous if document.archived else None),
        ("current", document.current),
    )
    return [(relation, address) for relation, address in found if address]


def write_element(name: str, text: str | None = None, /, **attributes: str | None) -> str:
    """Write one element. Attributes that are None are left out; `xml_lang` becomes `xml:lang`."""
    written = "".join(
        f' {key.rstrip("_").replace("_", ":")}="{escape_text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}/>" if text is None else f"<{name}{written}>{escape_text(text)}</{name}>"


def write_plain_element(name: str, text: str, /, **attributes: str | None) -> str:
    """Write plain text in RSS, with `&` and `<` in hexadecimal: some readers take it for HTML (RSS profile)."""
    written = write_element(name, text, **attributes)
    return written.replace("&amp;", "&#x26;").replace("&lt;", "&#x3C;")


def escape_text(text: str) -> str:
    """Escape text for content and attributes. An unescaped carriage return would become a line feed."""
    return escape(replace_forbidden(text)).replace("\r", "&#13;")


def format_rfc822(when: float | None) -> str | None:
    """Format as `Thu, 01 Jan 2004 19:48:21 +0000`, in any locale; None if there is no such date."""
    moment = _to_datetime(when)
    if moment is None:
        return None
    day, month = _DAYS[moment.weekday()], _MONTHS[moment.month - 1]
    return f"{day}, {moment.day:02} {month} {moment.year:04} {moment:%H:%M:%S} +0000"


def format_rfc3339(when: float | None) -> str | None:
    """Format as `2004-01-01T19:48:21Z`; None if there is no such date."""
    moment = _to_datetime(when)
    if moment is None:
        return None
    fraction = f"{moment.microsecond / 1e6:.6f}"[1:].rstrip("0").rstrip(".")
    return f"{moment.year:04}-{moment:%m-%dT%H:%M:%S}{fraction}Z"


def _to_datetime(when: float | None) -> datetime | None:
    if when is None:
        return None
    try:
        return datetime.fromtimestamp(when, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def describe_sizes(one: Enclosure) -> dict[str, str | None]:
    """Return width, height and duration of a file as attributes of Media RSS."""
    return {
        "width": None if one.width is None else str(one.width),
        "height": None if one.height is None else str(one.height),
        "duration": format_seconds(one.duration),
    }


def name_title_element(entry: Entry, one: Enclosure) -> str | None:
    """Return the element for the title of a file that readers do not take for the item's own title or summary."""
    if not one.title or entry.title:
        return "media:title" if one.title else None
    return "media:description" if entry.summary and (one.type or "").startswith("image/") else None


def write_media_content(one: Enclosure, title_element: str | None, **attributes: str | None) -> str:
    """Write a file in Media RSS, with its title."""
    written = write_element("media:content", url=to_uri(one.url), **attributes)
    return f"{written[:-2]}>{write_element(title_element, one.title)}</media:content>" if title_element else written


def format_seconds(value: float | None) -> str | None:
    """Format a duration or another number, without a fraction if it is whole.

    >>> format_seconds(3723.0), format_seconds(12.5)
    ('3723', '12.5')
    """
    return None if value is None else f"{value:.3f}".rstrip("0").rstrip(".")


def format_clock(seconds: float) -> str:
    """Write a time within a recording.

    >>> format_clock(3723.5), format_clock(0)
    ('01:02:03.500', '00:00:00.000')
    """
    minutes, milliseconds = divmod(round(seconds * 1000), 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{milliseconds // 1000:02}.{milliseconds % 1000:03}"


def write_episode(episode: Episode | None) -> list[str]:
    """Write what a podcast says about an episode, in the namespaces of iTunes and Podcasting 2.0."""
    if episode is None:
        return []
    values = (
        ("itunes:duration", format_seconds(episode.duration)),
        ("itunes:episode", format_seconds(episode.number)),
        ("itunes:season", format_seconds(episode.season)),
        ("itunes:episodeType", episode.kind),
    )
    lines = [write_element(name, value) for name, value in values if value]
    if (chapters := episode.chapters) is not None:
        kind = validate_media_type(chapters.type) or "application/json+chapters"
        lines.append(write_element("podcast:chapters", url=to_uri(chapters.url), type=kind))
    if episode.inline_chapters:
        lines.append('<psc:chapters version="1.2">')
        lines += [
            write_element(
                "psc:chapter",
                start=format_clock(one.start),
                title=one.title,
                href=None if one.url is None else to_uri(one.url),
                image=None if one.image is None else to_uri(one.image),
            )
            for one in episode.inline_chapters
        ]
        lines.append("</psc:chapters>")
    for one in episode.transcripts:
        kind = validate_media_type(one.type) or "text/html"
        lines.append(write_element("podcast:transcript", url=to_uri(one.url), type=kind, language=one.language))
    return lines


def list_given_images(entry: Entry) -> list[str]:
    """Return the lead picture if it is one of the files; one inside the text is found there again."""
    return [to_uri(one.url) for one in entry.enclosures if one.url == entry.image][:1]


def list_people(entry: Entry) -> tuple[Person, ...]:
    """Return the authors with their addresses."""
    return entry.people or tuple(Person(name) for name in entry.authors)


def validate_media_type(kind: str | None) -> str | None:
    """Return a valid media type, None for anything else.

    >>> validate_media_type("audio/mpeg"), validate_media_type("image/*"), validate_media_type("mp3")
    ('audio/mpeg', None, None)
    """
    return kind if kind and _MEDIA_TYPE.fullmatch(kind) else None


def find_medium(kind: str | None) -> str | None:
    """Return image, audio or video for a type without a subtype.

    >>> find_medium("image/*"), find_medium("image/png")
    ('image', None)
    """
    name, _, rest = (kind or "").partition("/")
    return name if rest == "*" and name in ("image", "audio", "video") else None
