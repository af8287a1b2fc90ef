"""The main text of a web page, without what stands around it; runs in a worker process with limits.

trafilatura (`headwater[articles]`) finds it; what it gives is cleaned like everything that strangers write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.errors import NotAFeed
from headwater.fetch.workers import Workers
from headwater.formats.html import Cleaner
from headwater.formats.people import distinct
from headwater.formats.text import cut, one_line
from headwater.model import Document, Entry

FUNCTION = "headwater.fetch.article:read_article"
LONGEST = 1 << 20
MOST_CATEGORIES = 20


def extractors() -> Workers:
    """Where pages are read: extraction of a hostile page may take for ever, so it can be killed."""
    return Workers(FUNCTION, count=1, cpu_seconds=10, wall_seconds=30.0, memory=1 << 30)


def read_article(body: bytes, url: str, headers: Mapping[str, str]) -> Document:
    """The page as a document with one item: title, text, language, categories; NotAFeed where there is no text."""
    import trafilatura

    found: Any = trafilatura.bare_extraction(
        body, url=url, with_metadata=True, include_comments=False, include_links=True, output_format="python"
    )
    html = trafilatura.extract(
        body, url=url, include_comments=False, include_links=True, include_formatting=True, output_format="html"
    )
    content = Cleaner(True).html(html, url) if html else None
    if found is None or not content:
        raise NotAFeed("No main text was found in the page.", "html")
    named = [*_names(found.categories), *_names(found.tags)]
    return Document(
        "article",
        title=one_line(found.title) if found.title else None,
        language=_language(body) or found.language,
        categories=distinct([cut(name, 200) for name in named])[:MOST_CATEGORIES],
        items=(Entry(title=found.title, link=url, content=content[:LONGEST]),),
    )


def _names(values: object) -> list[str]:
    """trafilatura gives lists, and sometimes one text with everything in it."""
    texts = values if isinstance(values, list) else [values] if isinstance(values, str) else []
    parts = (part for text in texts for part in str(text).replace(";", ",").split(","))
    return [line for part in parts if (line := one_line(part))]


def _language(body: bytes) -> str | None:
    """What the page says of itself: <html lang="de-AT">."""
    from lxml import etree

    try:
        tree = etree.fromstring(body[:100_000], etree.HTMLParser(no_network=True, huge_tree=False))
    except (etree.LxmlError, ValueError):
        return None
    given = tree.get("lang") if tree is not None else None
    return given.strip()[:35].lower() or None if given else None
