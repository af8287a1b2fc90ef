"""Where items come from, with the names and tags that REGISTER statements give."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headwater.formats.values.links import normalise_url
from headwater.language.ast import RegisterFeed
from headwater.query.items.analysed_item import Origin


def apply_registrations(origin: Origin, registered: Iterable[RegisterFeed]) -> Origin:
    """The origin with the names and tags that have been registered for its address."""
    address = normalise_url(origin.url)
    mine = [statement for statement in registered if normalise_url(statement.address.url) == address]
    if not mine:
        return origin
    names = tuple(statement.name.name for statement in mine)
    tags = tuple(tag for statement in mine for tag in statement.tags)
    first = origin.name or names[0]
    return replace(origin, name=first, aliases=origin.aliases + names, tags=origin.tags + tags, registered=True)
