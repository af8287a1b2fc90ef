"""Recognises a document by its first bytes and reads it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, overload

from msgspec.structs import replace

from headwater.errors import NotAFeed
from headwater.formats.parse.context import ReadOptions
from headwater.formats.parse.document import explain_not_a_feed, find_base_url, read_xml
from headwater.formats.parse.json_feed import read_json
from headwater.formats.values.encodings import EBCDIC, find_header_encoding
from headwater.formats.values.html import CleanHtmlReader, MarkupReader, PublishedHtmlReader
from headwater.model import Document, Markup

# The start of a document behind warnings that the server wrote.
_DOCUMENT_START = re.compile(rb"<\?xml\s|<(?:rss|feed|rdf:RDF)[\s>]")
_BLANK = b" \t\r\n\0"
# First bytes of files that are not feeds, even if they contain `<`.
_FILE_TYPES = {
    b"%PDF": "a PDF file",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"GIF8": "a picture",
    b"RIFF": "a picture or a recording",
    b"PK\x03\x04": "a ZIP archive",
    b"\x1f\x8b": "gzip-compressed data",
    b"BZh": "bzip2-compressed data",
    b"\xfd7zXZ": "xz-compressed data",
    b"(\xb5/\xfd": "zstd-compressed data",
    b"SQLite format 3\0": "a SQLite database",
    b"BEGIN:VCALENDAR": "a calendar",
}
_FILE_SIGNATURES = tuple(_FILE_TYPES)


@overload
def read(
    body: bytes,
    url: str | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    clean: Literal[True] = True,
    summaries: bool = True,
) -> Document: ...


@overload
def read(
    body: bytes,
    url: str | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    clean: bool,
    summaries: bool = True,
) -> Document[str]: ...


def read(
    body: bytes,
    url: str | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    clean: bool = True,
    summaries: bool = True,
) -> Document[str] | Document:
    """Read a feed document.

    `url` is the document's address, against which relative links are resolved; `headers` are those of its response
    (Content-Type, Content-Location, Content-Language and Link are used). With `clean` off, HTML is returned as
    published, which is not safe to show; the type checker tells it from safe HTML. With `summaries` off, the content
    does not stand in for a missing summary.
    Raises NotAFeed, whose `what` names the kind of document it is instead.
    """
    reader = CleanHtmlReader() if clean else PublishedHtmlReader()
    return _read(body, url, headers, ReadOptions(reader, summaries))


def read_to_keep(body: bytes, url: str | None = None, headers: Mapping[str, str] | None = None) -> Document[Markup]:
    """Read a feed document for a caller who stores it: with HTML as published, to be cleaned where an item is new.

    Content does not stand in for a missing summary, or it would be stored twice.
    """
    return _read(body, url, headers, ReadOptions(MarkupReader(), summaries=False))


def _read(body: bytes, url: str | None, headers: Mapping[str, str] | None, options: ReadOptions) -> Document[Any]:
    if not isinstance(body, bytes):
        if not isinstance(body, bytearray | memoryview):
            raise TypeError(f"read takes the bytes of a document, not {type(body).__name__}: open files with “rb”.")
        body = bytes(body)
    lowered = {str(name).lower(): str(value) for name, value in headers.items()} if headers else {}
    start = body[:64].lstrip(b"\xef\xbb\xbf \t\r\n\0\xff\xfe")
    if not start:
        if not body.strip(_BLANK):
            raise NotAFeed("The document is empty.", "empty")
        start = body.lstrip(_BLANK)[:64]
    charset = find_header_encoding(lowered.get("content-type"))
    base = find_base_url(url, lowered)
    if start[:1] in b"{[":
        return read_json(body, charset, base, options)
    if body.startswith(_FILE_SIGNATURES) or (b"<" not in body and not body.startswith(EBCDIC)):
        raise NotAFeed(f"This is {_describe_file_type(body)}, not a feed.", "unknown")
    if start[:14].lower().startswith((b"<!doctype html", b"<html")) and not _has_feed_element(body):
        raise explain_not_a_feed("html", body)
    try:
        return read_xml(body, charset, base, lowered, options)
    except NotAFeed as error:
        later = _DOCUMENT_START.search(body, 1)
        if later is None or error.what not in ("html", "xml", "unknown"):
            raise
        try:
            found = read_xml(body[later.start() :], charset, base, lowered, options)
        except (NotAFeed, UnicodeDecodeError):
            raise error from None
        return replace(found, problems=(*found.problems, "text before the document was ignored"))
    except UnicodeDecodeError as error:  # recovering, libxml2 lets invalid bytes through
        raise NotAFeed("The document is damaged beyond recovery.", "unknown") from error


def _has_feed_element(body: bytes) -> bool:
    head = body[:20_000].lower()
    return b"<rss" in head or b"<feed" in head or b"<rdf:rdf" in head


def _describe_file_type(body: bytes) -> str:
    for mark, name in _FILE_TYPES.items():
        if body.startswith(mark):
            return name
    return "binary data" if b"\0" in body[:1000] else "plain text"
