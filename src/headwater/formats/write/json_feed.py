"""Writes a Document as JSON Feed 1.1."""

from __future__ import annotations

from collections.abc import Sequence
from mimetypes import guess_type
from typing import Any

import orjson

from headwater.formats.values.languages import to_valid_tag
from headwater.formats.values.text import decode_references, has_reference, html_to_text, replace_forbidden
from headwater.formats.write.markup import format_rfc3339, list_given_images, list_people, validate_media_type
from headwater.model import Chapter, Document, Enclosure, Entry, Episode, Person


def write_json(
    document: Document, *, self_url: str | None = None, hub: Sequence[str] | None = None, next_url: str | None = None
) -> bytes:
    """Write a document as JSON Feed 1.1."""
    hubs = document.hub if hub is None else hub
    self_url, further, feed_language = (
        self_url or document.self,
        next_url or document.next,
        to_valid_tag(document.language),
    )
    feed: dict[str, Any] = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": document.title or document.link or "Untitled",
        "home_page_url": document.link,
        "feed_url": self_url,
        "description": _to_plain_text(document.subtitle),
        "next_url": further if further != self_url else None,
        "icon": document.icon,
        "authors": [{"name": name} for name in document.authors],
        "language": feed_language,
        "hubs": [{"type": "WebSub", "url": address} for address in hubs],
        "items": [build_json_item(entry, feed_language) for entry in document.items],
    }
    if document.title and has_reference(document.title):  # readers decode references in titles, ours too
        feed["_headwater"] = {"title": document.title}
    return orjson.dumps(_replace_forbidden({key: value for key, value in feed.items() if value or key == "items"}))


def build_json_item(entry: Entry, feed_language: str | None = None) -> dict[str, Any]:
    """Return an item of JSON Feed; its language is left out if it is the feed's."""
    own = to_valid_tag(entry.language)
    item = {
        "id": entry.id or entry.link or entry.title or str(entry.published),
        "url": entry.link,
        "title": entry.title,
        "content_html": entry.content,
        "summary": _to_plain_text(entry.summary),
        "date_published": format_rfc3339(entry.published),
        "date_modified": format_rfc3339(entry.updated),
        "authors": [_build_person(one) for one in list_people(entry)],
        "tags": list(entry.categories),
        "language": own if own != feed_language else None,
        "image": next(iter(list_given_images(entry)), None),
        "attachments": [_build_attachment(one) for one in entry.enclosures],
    }
    written: dict[str, Any] = {key: value for key, value in item.items() if value}
    more: dict[str, Any] = {}  # an extension (JSON Feed 1.1), for fields that JSON Feed lacks
    if entry.source is not None:
        more["source"] = {"url": entry.source.url, "title": entry.source.title}
    if entry.title and has_reference(entry.title):  # readers decode references in titles, ours too
        more["title"] = entry.title
    if entry.episode is not None:
        more["episode"] = _build_episode(entry.episode)
    if "content_html" not in written:  # one of content_html and content_text is required
        written["content_html"] = entry.summary or ""
        more["summary_only"] = True
    elif entry.summary and written.get("summary") != entry.summary:  # JSON Feed's summaries are plain text
        more["summary_html"] = entry.summary
    return written | {"_headwater": more} if more else written


def _build_attachment(one: Enclosure) -> dict[str, Any]:
    """Return an attachment. A type is required; the extension marks one that is only guessed."""
    kind = validate_media_type(one.type)
    attachment: dict[str, Any] = {"url": one.url, "mime_type": kind or _guess_media_type(one)}
    if kind is None:
        attachment["_headwater"] = {"type": one.type}
    if one.length is not None:
        attachment["size_in_bytes"] = one.length
    if one.duration is not None:
        attachment["duration_in_seconds"] = one.duration
    if one.title is not None:
        attachment["title"] = one.title
    if sizes := {name: size for name, size in (("width", one.width), ("height", one.height)) if size}:
        attachment["_headwater"] = attachment.get("_headwater", {}) | sizes
    return attachment


def _build_person(one: Person) -> dict[str, Any]:
    """Return an author. A mail address is the page of somebody who has no other."""
    page = one.url or (f"mailto:{one.email}" if one.email else None)
    person: dict[str, Any] = {"name": one.name, "url": page}
    if one.url and one.email:
        person["_headwater"] = {"email": one.email}
    return {name: value for name, value in person.items() if value}


def _build_episode(episode: Episode) -> dict[str, Any]:
    """Return an episode as an extension, for JSON Feed has no such fields."""
    made = {
        "duration": episode.duration,
        "number": episode.number,
        "season": episode.season,
        "kind": episode.kind,
        "chapters": None if episode.chapters is None else _build_episode_file(episode.chapters),
        "transcripts": [_build_episode_file(one) for one in episode.transcripts],
        "inline_chapters": [_build_chapter(one) for one in episode.inline_chapters],
    }
    return {name: value for name, value in made.items() if value}


def _build_episode_file(one: Enclosure) -> dict[str, Any]:
    made = {"url": one.url, "type": one.type, "language": one.language}
    return {name: value for name, value in made.items() if value}


def _build_chapter(one: Chapter) -> dict[str, Any]:
    made = {"start": one.start, "title": one.title, "url": one.url, "image": one.image}
    return {name: value for name, value in made.items() if value is not None}


def _guess_media_type(one: Enclosure) -> str:
    guessed, _ = guess_type(one.url.partition("?")[0].partition("#")[0], strict=True)
    return guessed or "application/octet-stream"


def _to_plain_text(html: str | None) -> str | None:
    """Return HTML as the plain text of JSON Feed's summaries and descriptions."""
    if html is None:
        return None
    return html_to_text(html, 100_000) if "<" in html else decode_references(html)


def _replace_forbidden(value: Any) -> Any:
    """Replace characters that orjson or readers refuse, in all strings of a value."""
    if isinstance(value, str):
        return replace_forbidden(value)
    if isinstance(value, list):
        return [_replace_forbidden(one) for one in value]
    if isinstance(value, dict):
        return {key: _replace_forbidden(one) for key, one in value.items()}
    return value
