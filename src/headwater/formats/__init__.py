"""Reads and writes feed documents and lists of feeds.

`read` returns a document with safe HTML, `read_to_keep` one for the server, which cleans only new items.
`headwater.formats.write` writes documents, `headwater.formats.opml` reads lists of feeds.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.formats.sniff import read, read_to_keep

__all__ = ["read", "read_to_keep"]


def __getattr__(name: str) -> object:
    """Import the parsers when they are first used: modules that only need addresses or texts do not wait for them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from headwater.formats import sniff

    return getattr(sniff, name)
