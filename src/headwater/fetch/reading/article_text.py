"""Extracts the main text of a web page, inside a worker process with limits.

trafilatura (`headwater[articles]`) finds the text; its HTML is cleaned like that of feeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.errors import NotAFeed
from headwater.fetch.reading.worker_pool import WorkerPool
from headwater.formats.values.html import clean_html
from headwater.formats.values.people import drop_duplicates
from headwater.formats.values.text import to_one_line, truncate_utf8
from headwater.model import Document, Entry

READ_ARTICLE = "headwater.fetch.reading.article_text:read_article"
MAX_CATEGORIES = 20


def make_article_workers() -> WorkerPool:
    """Return the pool that extracts articles. A hostile page may take for ever, so its worker can be killed."""
    return WorkerPool(READ_ARTICLE, count=1, cpu_seconds=10, wall_seconds=30.0, memory=1 << 30)


def read_article(body: bytes, url: str, headers: Mapping[str, str]) -> Document:
    """Return the page as a document with one item. Raises NotAFeed if it has no text."""
    import trafilatura

    found: Any = trafilatura.bare_extraction(
        body, url=url, with_metadata=True, include_comments=False, include_links=True, output_format="python"
    )
    html = trafilatura.extract(
        body, url=url, include_comments=False, include_links=True, include_formatting=True, output_format="html"
    )
    content = clean_html(html, url) if html else None
    if found is None or not content:
        raise NotAFeed("The page has no main text.", "html")
    named = [*_split_names(found.categories), *_split_names(found.tags)]
    return Document(
        "article",
        title=to_one_line(found.title) if found.title else None,
        language=_read_page_language(body) or found.language,
        categories=drop_duplicates([truncate_utf8(name, 200) for name in named])[:MAX_CATEGORIES],
        items=(Entry(title=found.title, link=url, content=content),),
    )


def _split_names(values: object) -> list[str]:
    """Split names; trafilatura returns a list, or one text with all of them."""
    texts = values if isinstance(values, list) else [values] if isinstance(values, str) else []
    parts = (part for text in texts for part in str(text).replace(";", ",").split(","))
    return [line for part in parts if (line := to_one_line(part))]


def _read_page_language(body: bytes) -> str | None:
    """Return the language that the page declares: <html lang="de-AT">."""
    from lxml import etree

    try:
        tree = etree.fromstring(body[:100_000], etree.HTMLParser(no_network=True, huge_tree=False))
    except (etree.LxmlError, ValueError):
        return None
    given = tree.get("lang") if tree is not None else None
    return given.strip()[:35].lower() or None if given else None
