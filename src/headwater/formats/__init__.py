"""Reads and writes feed documents and lists of feeds.

`read` understands a document (`read_to_keep` for who stores or rewrites it), `headwater.formats.write` writes one,
`headwater.formats.opml` handles lists of feeds.
"""

from headwater.formats.sniff import read, read_to_keep

__all__ = ["read", "read_to_keep"]
