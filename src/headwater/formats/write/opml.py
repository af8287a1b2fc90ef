"""Writes a list of feeds as OPML 2.0."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.formats.opml import Outline
from headwater.formats.write.addresses import to_uri
from headwater.formats.write.markup import DECLARATION, escape_text, write_element


def write_opml(feeds: Iterable[Outline], title: str = "Subscriptions") -> bytes:
    """Write an OPML list. A feed is in the folder of its first tag; its other tags are in `category`.

    A feed without an address, which others may not know, is a link to its site.
    """
    folders: dict[str | None, list[str]] = {}
    for feed in feeds:
        name = feed.title or feed.url or feed.link or "Untitled"
        site = to_uri(feed.link) if feed.link else None
        address = {"type": "rss", "xmlUrl": feed.url, "htmlUrl": site} if feed.url else {"type": "link", "url": site}
        line = write_element(
            "outline",
            text=name,
            title=name,
            **address,
            category=",".join(tag.replace(",", " ") for tag in feed.tags[1:]) or None,
        )
        folders.setdefault(feed.tags[0] if feed.tags else None, []).append(line)
    lines = [f'<opml version="2.0">\n<head>{write_element("title", title)}</head>\n<body>']
    for folder, inside in folders.items():
        if folder is None:
            lines += inside
        else:
            lines += [f'<outline text="{escape_text(folder)}">', *inside, "</outline>"]
    if not folders:  # OPML 2.0 requires an outline
        lines.append(write_element("outline", text="No feeds", isComment="true"))
    return (DECLARATION + "\n".join([*lines, "</body>\n</opml>\n"])).encode()
