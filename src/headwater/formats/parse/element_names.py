"""Maps every spelling of an element to one short name, whatever its prefix, case or namespace.

`{http://purl.org/dc/elements/1.1/}Creator` and an undeclared `DC:creator` are both `dc:creator`; elements of RSS and
Atom, in their namespaces or in none, have no prefix at all.
"""

from __future__ import annotations

from headwater.formats.memo import Memo

# Namespace (lower case, without a final slash or hash) → prefix. The empty prefix is the core of RSS and Atom.
NAMESPACES: dict[str, str] = {
    "": "",
    "http://www.w3.org/2005/atom": "",
    "https://www.w3.org/2005/atom": "",
    "http://purl.org/atom/ns": "",
    "http://purl.org/net/rss1.1": "",
    "http://purl.org/pie": "",
    "uri/of/echo/namespace": "",
    "http://example.com/necho": "",
    "http://purl.org/echo": "",
    "http://backend.userland.com/rss": "",
    "http://backend.userland.com/rss2": "",
    "http://backend.userland.com/rss091": "",
    "http://backend.userland.com/rss092": "",
    "http://blogs.law.harvard.edu/tech/rss": "",
    "http://cyber.law.harvard.edu/rss/rss.html": "",
    "http://purl.org/rss/1.0": "",
    "http://my.netscape.com/rdf/simple/0.9": "",
    "http://channel.netscape.com/rdf/simple/0.9": "",
    "http://my.netscape.com/publish/formats/rss-0.91.dtd": "",
    "http://purl.org/rss/1.0/modules/rss091": "",
    "http://example.com/newformat": "",
    "http://webns.net/mvcb": "admin",
    "http://purl.org/rss/1.0/modules/content": "content",
    "http://purl.org/dc/elements/1.0": "dc",
    "http://purl.org/dc/elements/1.1": "dc",
    "http://dublincore.org/documents/dcmi-namespace": "dc",
    "http://purl.org/dc/terms": "dcterms",
    "http://rssnamespace.org/feedburner/ext/1.0": "feedburner",
    "http://www.itunes.com/dtds/podcast-1.0.dtd": "itunes",
    "https://www.itunes.com/dtds/podcast-1.0.dtd": "itunes",
    "http://example.com/dtds/podcast-1.0.dtd": "itunes",
    "http://www.google.com/schemas/play-podcasts/1.0": "googleplay",
    "https://podcastindex.org/namespace/1.0": "podcast",
    "http://podlove.org/simple-chapters": "psc",
    "https://podlove.org/simple-chapters": "psc",
    "http://search.yahoo.com/mrss": "media",
    "https://search.yahoo.com/mrss": "media",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns": "rdf",
    "http://purl.org/rss/1.0/modules/syndication": "sy",
    "http://purl.org/rss/1.0/modules/slash": "slash",
    "http://wellformedweb.org/commentapi": "wfw",
    "http://www.w3.org/1999/xhtml": "xhtml",
    "http://purl.org/rss/1.0/modules/prism": "prism",
    "http://prismstandard.org/namespaces/1.2/basic": "prism",
    "http://prismstandard.org/namespaces/basic/2.0": "prism",
    "http://purl.org/syndication/history/1.0": "fh",
    "http://xmlns.com/foaf/0.1": "foaf",
    "http://purl.org/rss/1.0/modules/link": "l",
    "http://www.w3.org/2007/app": "app",
}
PREFIXES = frozenset(NAMESPACES.values()) | {"atom", "atom10", "a10", "rss"}
MAX_TAGS = 2_048  # remembered
_CORE_PREFIXES = frozenset({"atom", "atom10", "a10", "rss", "rss1"})


class ElementNames(Memo[object, str]):
    """Maps raw tags to short names.

    `core` is a namespace to treat as that of RSS and Atom: a root element called `rss` or `feed` is one, whatever its
    namespace.
    """

    def __init__(self, core: str | None = None) -> None:
        super().__init__(self._shorten, max_size=MAX_TAGS)
        self._core = core

    def _shorten(self, tag: object) -> str:
        if not isinstance(tag, str):  # a comment, or an entity that was not resolved
            return "?"
        core = self._core
        return tag[len(core) + 2 :].lower() if core and tag.startswith(f"{{{core}}}") else shorten_tag(tag)


STANDARD_NAMES = ElementNames()  # shared by all documents, because feeds use the same few dozen


def shorten_tag(tag: str) -> str:
    """Return the short name of a raw tag."""
    if tag[0] == "{":
        namespace, _, local = tag[1:].rpartition("}")
        prefix = find_prefix(namespace)
    else:
        prefix, colon, local = tag.rpartition(":")  # the prefix was not declared
        prefix = prefix.lower()
        if prefix in _CORE_PREFIXES:
            prefix = ""
        elif colon and prefix not in PREFIXES:
            prefix = "?"
    return f"{prefix}:{local.lower()}" if prefix else local.lower()


def find_prefix(namespace: str) -> str:
    """Return the short prefix of a namespace, `?` for an unknown one."""
    namespace = "".join(namespace.split()).lower()  # some are broken by line ends
    found = NAMESPACES.get(namespace.rstrip("/#"))
    if found is None:
        found = NAMESPACES.get(namespace.replace("https://", "http://", 1).rstrip("/#"), "?")
    return found


def get_local_name(tag: object) -> str:
    """Return the name without namespace and prefix, in lower case."""
    return tag.rpartition("}")[2].rpartition(":")[2].lower() if isinstance(tag, str) else ""
