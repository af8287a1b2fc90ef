"""Parses and formats item ids, stream names and the other parameters of the Google Reader API."""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl

from starlette.requests import Request

from headwater.errors import InputError
from headwater.store.readers.stream_positions import HIT_ID_OFFSET, Stream, StreamQuery
from headwater.web.request_body import read_body

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


MAX_FORM_BYTES = 4 << 20  # bytes of a form: 10,000 long ids are 700 kB
MAX_FIELDS = 50_000
MAX_IDS = 200_000  # in one response
MAX_ITEMS = 1000
DEFAULT_COUNT = 20
_INVALID_CONTINUATION = "Invalid `c`. Use the continuation of the previous page, or leave it out."


class FormFields:
    """The fields of a request in order: first those of the URL, then those of the form."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields

    @classmethod
    async def read_from(cls, request: Request, longest: int = MAX_FORM_BYTES) -> FormFields:
        """Read the fields of a request; `longest` limits the form in bytes, and 0 ignores the body.

        Raise InputError for malformed fields and RequestRefused (413) for a form that is too long.
        """
        fields = _parse_fields(request.url.query)
        if request.method == "POST" and longest:
            body = await read_body(request, longest)
            fields += _parse_fields(body.decode("utf-8", "replace"))
        return cls(fields)

    def list_values(self, name: str) -> list[str]:
        return [value for key, value in self._fields if key == name]

    def first_value(self, name: str) -> str | None:
        return next((value for key, value in self._fields if key == name), None)

    def parse_number(self, name: str, otherwise: int | None = None) -> int | None:
        """Return a field as a whole number, or `otherwise` if it is missing or not a number, as Google's server did."""
        value = (self.first_value(name) or "").strip()
        return int(value) if value.isascii() and value.isdecimal() and len(value) < 19 else otherwise


def _parse_fields(text: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise InputError(f"The form cannot be read, or has more than {MAX_FIELDS:,} fields.") from error


def read_stream_query(requested: StreamRequest, given: FormFields, limit: int) -> StreamQuery:
    """Return the part of a stream that the fields n, c, r, ot, nt, xt and it select, at most `limit` items."""
    wanted = given.parse_number("n", DEFAULT_COUNT)
    found = StreamQuery(
        unread=requested.unread,
        starred=requested.starred,
        since=_to_seconds(given.parse_number("ot")),
        until=_parse_position(given.parse_number("nt")),
        before=parse_continuation(given.first_value("c")),
        limit=max(1, min(DEFAULT_COUNT if wanted is None else wanted or limit, limit)),
        oldest_first=given.first_value("r") == "o",
        by_arrival=True,
        queries=True,
    )
    for excluded in given.list_values("xt"):
        if parse_state(excluded) == "read":
            found = replace(found, unread=True)
    for included in given.list_values("it"):
        if (state := parse_state(included)) == "read":
            found = replace(found, unread=False)
        elif state == "starred":
            found = replace(found, starred=True)
        elif state in ("kept-unread", "fresh"):
            found = replace(found, unread=True)
    return found


def _to_seconds(given: int | None) -> float | None:
    """Return a time in seconds; clients send seconds, milliseconds or microseconds.

    The size tells which: 10¹¹ seconds is the year 5138.
    """
    if not given:
        return None
    return float(given) if given < 10**11 else given / 1e3 if given < 10**14 else given / 1e6


def _parse_position(given: int | None) -> float | None:
    seconds = _to_seconds(given)
    return None if seconds is None else seconds + 1  # the given second is included


def parse_mark_time(given: int | None) -> float | None:
    """Return the time before which `ts` marks items as read; the given instant itself is included."""
    seconds = _to_seconds(given)
    if seconds is None or given is None:
        return None
    return seconds + (1 if given < 10**11 else 1e-3 if given < 10**14 else 1e-6)


def format_continuation(place: tuple[float, int]) -> str:
    """Return the cursor after a page's last item: its time, bit for bit so that no precision is lost, and its id."""
    return struct.pack(">dq", *place).hex()


def parse_continuation(given: str | None) -> tuple[float, int] | None:
    """Return the position that a continuation stands for, None for an empty one. Raise InputError if it is invalid.

    >>> parse_continuation(format_continuation((1.5, 7)))
    (1.5, 7)
    """
    if not given:
        return None
    try:
        at, id = struct.unpack(">dq", bytes.fromhex(given))
    except (ValueError, struct.error) as error:
        raise InputError(_INVALID_CONTINUATION) from error
    if not math.isfinite(at):
        raise InputError(_INVALID_CONTINUATION)
    return at, id
