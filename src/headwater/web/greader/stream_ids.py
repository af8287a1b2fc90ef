"""Parses and formats the item ids and stream names of the Google Reader API."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headwater.errors import InputError
from headwater.store.readers.streams import HIT_ID_OFFSET, Stream

LONG_PREFIX = "tag:google.com,2005:reader/item/"
STATE_PREFIX = "user/-/state/com.google/"
LABEL_PREFIX = "user/-/label/"
READING_LIST, READ, STARRED = (f"{STATE_PREFIX}{name}" for name in ("reading-list", "read", "starred"))
_HEX = re.compile("[0-9a-fA-F]{16}")
_DECIMAL = re.compile("-?[0-9]{1,19}")
ALL = Stream()
_USER = re.compile("^user/[^/]+/(state/com.google|label)/(.+)$", re.DOTALL)


def parse_item_id(given: str) -> int:
    """Return the number of an item id in long form, as 16 hexadecimal digits, or as a signed decimal.

    Sixteen decimal digits are read as hexadecimal: Headwater never assigns decimal ids of that length.

    >>> [parse_item_id(id) for id in ("tag:google.com,2005:reader/item/000000000000001f", "31", "000000000000001f")]
    [31, 31, 31]
    """
    short = given.removeprefix(LONG_PREFIX)
    if (short is not given and re.fullmatch("[0-9a-fA-F]{1,16}", short)) or _HEX.fullmatch(short):
        number = int(short, 16)
        return number - (1 << 64) if number >= 1 << 63 else number
    if _DECIMAL.fullmatch(short) and -(1 << 63) <= int(short) < 1 << 63:
        return int(short)
    raise InputError(f"“{given[:100]}” is not an item id. Use a decimal id, 16 hexadecimal digits or {LONG_PREFIX}….")


def format_item_id(number: int) -> str:
    """Return the long form of an item id.

    >>> format_item_id(31)
    'tag:google.com,2005:reader/item/000000000000001f'
    """
    return f"{LONG_PREFIX}{number & (1 << 64) - 1:016x}"


def feed_stream_id(feed_id: int | None, query_id: int | None) -> str:
    """Return the stream name of a feed or a query feed; query feeds have numbers from HIT_ID_OFFSET on."""
    return f"feed/{feed_id}" if feed_id is not None else f"feed/{HIT_ID_OFFSET + (query_id or 0)}"


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """A stream as a client names it: which items, in which state.

    `url` is set if the client names a feed by its address. `nothing` marks states of Google's API that have no
    equivalent here, such as shared items; their streams are empty.
    """

    which: Stream = ALL
    unread: bool | None = None
    starred: bool = False
    url: str | None = None
    nothing: bool = False


def parse_stream(given: str) -> StreamRequest:
    """Return the stream that a name stands for. Raise InputError for an unknown name.

    >>> parse_stream("user/-/label/news").which.tag, parse_stream("feed/7").which.feed, parse_stream("feed/https://a.example/").url
    ('news', 7, 'https://a.example/')
    """
    if given.startswith("feed/"):
        name = given.removeprefix("feed/")
        if name.isascii() and name.isdecimal() and len(name) < 20:
            number = int(name)
            return StreamRequest(
                Stream(query=number - HIT_ID_OFFSET) if number >= HIT_ID_OFFSET else Stream(feed=number)
            )
        if name.startswith(("http://", "https://")):
            return StreamRequest(url=name)
    elif match := _USER.match(given):
        if match[1] == "label":
            return StreamRequest(Stream(tag=match[2]))
        if match[2] in _STATES:
            return _STATES[match[2]]
    raise InputError(f"“{given[:200]}” is not a stream. Use feed/…, user/-/label/… or user/-/state/com.google/….")


_STATES = {
    "reading-list": StreamRequest(),
    "read": StreamRequest(unread=False),
    "kept-unread": StreamRequest(unread=True),
    "fresh": StreamRequest(unread=True),
    "starred": StreamRequest(starred=True),
    **{
        name: StreamRequest(nothing=True)
        for name in ("broadcast", "broadcast-friends", "like", "created", "tracking-kept-unread")
    },
}


def find_label(given: str) -> str | None:
    """Return the tag of a label's stream name, None for other names."""
    match = _USER.match(given)
    return match[2] if match is not None and match[1] == "label" else None


def parse_label(given: str) -> str:
    """Return the tag of a label's stream name. Raise InputError for other names."""
    label = find_label(given)
    if label is None:
        raise InputError(f"“{given[:200]}” is not a label. Use user/-/label/NAME.")
    return label


def parse_state(given: str) -> str | None:
    """Return the state of a state's stream name, None for other names.

    >>> [parse_state(f"user/-/{name}") for name in ("state/com.google/read", "state/com.google/starred", "label/x")]
    ['read', 'starred', None]
    """
    match = _USER.match(given)
    return match[2] if match is not None and match[1] != "label" else None
