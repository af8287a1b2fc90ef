"""bytes ⇄ Document: rss, atom, rdf, json feed, cdf; opml; dates; html cleaning. Pure.

`read` understands a document, `headwater.formats.write` writes one, `headwater.formats.opml` handles lists of feeds.
"""

from headwater.formats.reader import read

__all__ = ["read"]
