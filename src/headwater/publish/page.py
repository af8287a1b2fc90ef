"""Document → a page for people who open the address of a feed in a browser."""

from __future__ import annotations

from headwater.formats.links import is_web_url
from headwater.formats.write.markup import escape_text, format_rfc3339, write_element
from headwater.model import Document, Entry

_PAGE_HEAD = (
    '<!doctype html>\n<html lang="{language}">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    '<link rel="icon" type="image/svg+xml" href="/static/mark.svg">\n'
    '<link rel="stylesheet" href="/static/headwater.css">'
)
_ALTERNATES = (("rss", "RSS", "rss+xml"), ("atom", "Atom", "atom+xml"), ("json", "JSON Feed", "feed+json"))


def write_page(document: Document) -> bytes:
    """Titles, times and texts of the items. Texts are safe since they were stored; everything else is escaped here."""
    here, _, query = (document.current or document.self or "").partition("?")
    here = here.removesuffix(".html")
    asked = f"?{query}" if query else ""
    title = document.title or "Untitled"
    lines = [_PAGE_HEAD.format(language=escape_text(document.language or "en")), write_element("title", title)]
    for suffix, name, kind in _ALTERNATES:
        address = escape_text(f"{here}.{suffix}{asked}")
        lines.append(f'<link rel="alternate" type="application/{kind}" title="{name}" href="{address}">')
    lines += ['</head>\n<body>\n<main class="items">', write_element("h1", title), "<p>"]
    lines += [write_element("a", name, href=f"{here}.{suffix}{asked}") for suffix, name, _ in _ALTERNATES]
    lines += ["</p>", *(line for entry in document.items for line in _write_article(entry))]
    if not document.items:
        lines.append("<p>Nothing has been published here yet.</p>")
    turns = (("next", "Older", document.next), ("prev", "Newer", document.previous))
    lines += [write_element("a", word, rel=relation, href=address) for relation, word, address in turns if address]
    return "\n".join([*lines, "</main>\n</body>\n</html>\n"]).encode()


def _write_article(entry: Entry) -> list[str]:
    name = entry.title or entry.link or "Untitled"
    link = entry.link if entry.link is not None and is_web_url(entry.link) else None
    heading = write_element("a", name, href=link, rel="noopener noreferrer") if link else escape_text(name)
    when = format_rfc3339(entry.published)
    lines = ["<article>", f"<h2>{heading}</h2>", '<p class="small">']
    lines += [f'<time datetime="{when}">{when.replace("T", " ").removesuffix("Z")[:16]} UTC</time>'] if when else []
    lines += [escape_text(", ".join(entry.authors))] if entry.authors else []
    lines += [f"· {escape_text(entry.source.title or entry.source.url)}"] if entry.source else []
    return [*lines, "</p>", f"<div>{entry.content or entry.summary or ''}</div>", "</article>"]
