"""Keeps the address of a feed out of its items before others read them."""

from __future__ import annotations

import msgspec

from headwater.formats.write.addresses import find_secret_addresses, public_address
from headwater.model import Item


def hide_fetch_address(item: Item, url: str, link: str | None) -> Item:
    """Return the item without the address of its feed and addresses with its key, if it may hold a secret: links lead
    to the feed's site, and files and pictures there are left out. `build_published_identity` hides the identity."""
    secret = find_secret_addresses(url)
    if secret is None:
        return item
    written = msgspec.json.encode(item).decode()
    if not secret.are_told_in(written):
        return item
    hidden = msgspec.json.decode(secret.replace(written, public_address(url, link)), type=Item)
    files = tuple(one for one, before in zip(hidden.enclosures, item.enclosures, strict=True) if one == before)
    image = hidden.image if hidden.image == item.image else None
    return msgspec.structs.replace(hidden, identity=item.identity, enclosures=files, image=image)
