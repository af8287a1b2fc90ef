"""Writes a Document as RSS 2.0, Atom 1.0, JSON Feed 1.1 or OPML.

`self_url`, `hub` and `next_url` say where the document is published, which hubs push it and where its next page is;
left out, the Document's own are written.
"""

from typing import TYPE_CHECKING

from headwater.lazy_exports import export_lazily

if TYPE_CHECKING:
    from headwater.formats.write.atom import write_atom
    from headwater.formats.write.json_feed import write_json
    from headwater.formats.write.opml import write_opml
    from headwater.formats.write.rss import write_rss

CONTENT_TYPES = {
    "rss": "application/rss+xml; charset=utf-8",
    "atom": "application/atom+xml; charset=utf-8",
    "json": "application/feed+json; charset=utf-8",
    "opml": "text/x-opml; charset=utf-8",
}

__all__ = ["CONTENT_TYPES", "write_atom", "write_json", "write_opml", "write_rss"]

__getattr__ = export_lazily(
    __name__, {"write_atom": "atom", "write_json": "json_feed", "write_opml": "opml", "write_rss": "rss"}
)
