"""Names the source of an item, with the names and tags from REGISTER statements."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from headwater.formats.values.links import has_host, normalise_url
from headwater.language.ast import RegisterFeed


@dataclass(frozen=True, slots=True)
class Origin:
    """The source feed of an item: its name in queries (if any), address and tags.

    `registered` is False for a feed that exists only because a query contains its address, or that is private to a
    reader; ALL does not read it. `link` is the feed's site.
    """

    name: str | None
    url: str
    tags: tuple[str, ...] = ()
    registered: bool = True
    aliases: tuple[str, ...] = ()
    title: str | None = None
    link: str | None = None

    def has_name(self, name: str) -> bool:
        """Return whether this is a name or an alias of the feed."""
        key = name.casefold()
        return any(key == known.casefold() for known in (self.name, *self.aliases) if known is not None)

    def has_tag(self, tag: str) -> bool:
        key = tag.casefold()
        return any(key == known.casefold() for known in self.tags)

    @property
    def label(self) -> str:
        """The value of the placeholder {source}: never the address, which may contain a key.

        >>> Origin(None, "http://a.example/feed").label, Origin(None, "http://[::1").label
        ('a.example', 'http://[::1')
        """
        return self.name or self.title or (urlsplit(self.url).hostname if has_host(self.url) else None) or self.url


def apply_registrations(origin: Origin, registered: Iterable[RegisterFeed]) -> Origin:
    """Return the origin with the names and tags that are registered for its address."""
    address = normalise_url(origin.url)
    mine = [statement for statement in registered if normalise_url(statement.address.url) == address]
    if not mine:
        return origin
    names = tuple(statement.name.name for statement in mine)
    tags = tuple(tag for statement in mine for tag in statement.tags)
    first = origin.name or names[0]
    return replace(origin, name=first, aliases=origin.aliases + names, tags=origin.tags + tags, registered=True)
