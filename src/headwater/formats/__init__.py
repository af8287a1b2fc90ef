"""Reads and writes feed documents and lists of feeds.

`read` returns a document with safe HTML, `read_to_keep` one for the server, which cleans only new items.
`headwater.formats.write` writes documents, `headwater.formats.opml` reads lists of feeds.
"""

from typing import TYPE_CHECKING

from headwater.lazy_exports import export_lazily

if TYPE_CHECKING:
    from headwater.formats.sniff import read, read_to_keep

__all__ = ["read", "read_to_keep"]

__getattr__ = export_lazily(__name__, {"read": "sniff", "read_to_keep": "sniff"})
