"""Reads and writes feed documents and lists of feeds.

`read` returns a document with safe HTML, `read_to_keep` one for the server, which cleans only new items.
`headwater.formats.write` writes documents, `headwater.formats.opml` reads lists of feeds.
"""

from headwater.formats.sniff import read, read_to_keep

__all__ = ["read", "read_to_keep"]
