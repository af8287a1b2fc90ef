"""Lists of feeds → OPML 2.0."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.formats.opml import Outline
from headwater.formats.write.addresses import uri
from headwater.formats.write.markup import DECLARATION, element, escaped


def write_opml(feeds: Iterable[Outline], title: str = "Subscriptions") -> bytes:
    """An OPML list; each feed stands in the folder of its first tag, its further tags are in `category`."""
    folders: dict[str | None, list[str]] = {}
    for feed in feeds:
        name = feed.title or feed.url
        line = element(
            "outline",
            text=name,
            title=name,
            type="rss",
            xmlUrl=feed.url,
            htmlUrl=uri(feed.link) if feed.link else None,
            category=",".join(tag.replace(",", " ") for tag in feed.tags[1:]) or None,
        )
        folders.setdefault(feed.tags[0] if feed.tags else None, []).append(line)
    lines = [f'<opml version="2.0">\n<head>{element("title", title)}</head>\n<body>']
    for folder, inside in folders.items():
        if folder is None:
            lines += inside
        else:
            lines += [f'<outline text="{escaped(folder)}">', *inside, "</outline>"]
    if not folders:  # OPML 2.0: a body holds at least one outline
        lines.append(element("outline", text="No feeds", isComment="true"))
    return (DECLARATION + "\n".join([*lines, "</body>\n</opml>\n"])).encode()
