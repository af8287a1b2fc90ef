"""The names that the Google Reader API gives to items and streams, read and written. No input and no output."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headwater.errors import InputError
from headwater.store.people import HIT, Stream

LONG = "tag:google.com,2005:reader/item/"
STATE = "user/-/state/com.google/"
LABEL = "user/-/label/"
READING_LIST, READ, STARRED, KEPT_UNREAD = (
    f"{STATE}{name}" for name in ("reading-list", "read", "starred", "kept-unread")
)
_HEX = re.compile("[0-9a-fA-F]{16}")
_DECIMAL = re.compile("-?[0-9]{1,19}")
ALL = Stream()
_USER = re.compile("^user/[^/]+/(state/com.google|label)/(.+)$", re.DOTALL)


def item_id(given: str) -> int:
    """The number of an item, from the long form, 16 hexadecimal digits, or a decimal number with a sign.

    Sixteen digits can be both. Google's short form has no fixed width, and a decimal of 16 digits would be a number
    that we never give, so they are read as hexadecimal.

    >>> item_id("tag:google.com,2005:reader/item/000000000000001f"), item_id("31"), item_id("000000000000001f")
    (31, 31, 31)
    """
    short = given.removeprefix(LONG)
    if (short is not given and re.fullmatch("[0-9a-fA-F]{1,16}", short)) or _HEX.fullmatch(short):
        number = int(short, 16)
        return number - (1 << 64) if number >= 1 << 63 else number
    if _DECIMAL.fullmatch(short) and -(1 << 63) <= int(short) < 1 << 63:
        return int(short)
    raise InputError(f"“{given[:100]}” is no id of an item.")


def long_id(number: int) -> str:
    """
    >>> long_id(31)
    'tag:google.com,2005:reader/item/000000000000001f'
    """
    return f"{LONG}{number & (1 << 64) - 1:016x}"


def feed_stream(feed_id: int | None, query_id: int | None) -> str:
    """A query feed is a feed with a number of its own."""
    return f"feed/{feed_id}" if feed_id is not None else f"feed/{HIT + (query_id or 0)}"


@dataclass(frozen=True, slots=True)
class Asked:
    """A stream as a client asks for it: what is listed, of which state. `url` is a feed by its address.

    `nothing` is a state that we know of and never have, such as what somebody shared.
    """

    which: Stream = ALL
    unread: bool | None = None
    starred: bool = False
    url: str | None = None
    nothing: bool = False


def stream(given: str) -> Asked:
    """
    >>> stream("user/-/label/news").which.tag, stream("feed/7").which.feed, stream("feed/https://a.example/").url
    ('news', 7, 'https://a.example/')
    """
    if given.startswith("feed/"):
        name = given.removeprefix("feed/")
        if name.isascii() and name.isdecimal() and len(name) < 20:
            number = int(name)
            return Asked(Stream(query=number - HIT) if number >= HIT else Stream(feed=number))
        if name.startswith(("http://", "https://")):
            return Asked(url=name)
    elif match := _USER.match(given):
        if match[1] == "label":
            return Asked(Stream(tag=match[2]))
        if match[2] in _STATES:
            return _STATES[match[2]]
    raise InputError(f"“{given[:200]}” is no stream: there are feed/…, user/-/label/… and user/-/state/com.google/….")


_STATES = {
    "reading-list": Asked(),
    "read": Asked(unread=False),
    "kept-unread": Asked(unread=True),
    "fresh": Asked(unread=True),
    "starred": Asked(starred=True),
    **{
        name: Asked(nothing=True)
        for name in ("broadcast", "broadcast-friends", "like", "created", "tracking-kept-unread")
    },
}


def label(given: str) -> str:
    """The tag of a label's name; InputError for other names."""
    match = _USER.match(given)
    if match is None or match[1] != "label":
        raise InputError(f"“{given[:200]}” is no label: it should be user/-/label/NAME.")
    return match[2]


def state(given: str) -> str | None:
    """The state of a state's name, None for others.

    >>> state("user/-/state/com.google/read"), state("user/12/state/com.google/starred"), state("user/-/label/x")
    ('read', 'starred', None)
    """
    match = _USER.match(given)
    return match[2] if match is not None and match[1] != "label" else None
