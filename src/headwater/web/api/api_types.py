"""Defines the types that many endpoints share: limited numbers and texts, list pages, cursors."""

from __future__ import annotations

import math
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta

from headwater.errors import InputError
from headwater.store.readers.stream_positions import HIT_ID_OFFSET
from headwater.web.api.endpoint import Parameters, ResponseBody

T = TypeVar("T")

_PLAIN = r"^[^\u0000-\u001f\u007f]*$"  # PostgreSQL rejects NUL, and names must not contain line breaks
Id = Annotated[int, Meta(ge=1, le=2**53 - 1, description="a numeric id")]
ShortText = Annotated[str, Meta(min_length=1, max_length=500, pattern=_PLAIN)]
Tag = Annotated[str, Meta(min_length=1, max_length=200, pattern=_PLAIN)]
Address = Annotated[str, Meta(min_length=1, max_length=4000, pattern=_PLAIN)]
Script = Annotated[str, Meta(max_length=1_000_000, pattern=r"^[^\u0000]*$", description="text in the query language")]
Limit = Annotated[int, Meta(ge=1, le=1000, description="the maximum number of rows")]
Cursor = Annotated[
    str,
    Meta(max_length=500, pattern=r"^[A-Za-z0-9_=-]*$", description="`next` of the previous page; by default the first"),
]
Time = Annotated[float, Meta(description="seconds since 1970, UTC")]
Moment = Annotated[float, Meta(ge=-1e11, le=1e11, description="seconds since 1970, UTC")]
# Text, since the ids of items in query feeds exceed the integers that JavaScript can represent.
ItemId = Annotated[
    str, Meta(pattern="^q?[1-9][0-9]{0,14}$", description="an item (12), or an item in a query feed (q34)")
]


class ListParameters(Parameters, frozen=True):
    """The page of a list."""

    limit: Limit = 100
    cursor: Cursor | None = None


class IdParameters(Parameters, frozen=True):
    """The id of one resource."""

    id: Id


class ListPage(ResponseBody, Generic[T], frozen=True):
    """A page of a list; `next` is the cursor of the next page, null on the last."""

    items: list[T]
    next: str | None


class RemovedView(ResponseBody, frozen=True):
    """The result of a removal, which can be undone for a day."""

    undo: Annotated[int, Meta(description="the id for POST /removals/undo")]


_INVALID_CURSOR = "Invalid cursor. Use the value of `next` from the previous page, or leave it out."


def encode_cursor(*parts: Any) -> str:
    """Return an opaque cursor for the row after which the next page begins.

    >>> decode_cursor(encode_cursor(12.5, 3), float, int)
    (12.5, 3)
    """
    return urlsafe_b64encode(msgspec.json.encode(parts)).decode()


def decode_cursor(given: str | None, *types: type) -> tuple[Any, ...] | None:
    """Return the parts of a cursor, None without one. Raise InputError if it is invalid."""
    if given is None:
        return None
    try:
        parts = msgspec.json.decode(urlsafe_b64decode(given.encode()), type=list[Any])
        found: tuple[Any, ...] = tuple(msgspec.convert(part, kind) for part, kind in zip(parts, types, strict=True))
    except (ValueError, msgspec.MsgspecError) as error:
        raise InputError(_INVALID_CURSOR, "cursor") from error
    if any(isinstance(part, int) and abs(part) >= 2**62 for part in found):
        raise InputError(_INVALID_CURSOR, "cursor")
    return found


def parse_item_id(id: str) -> int:
    """Return the store's number of an item id.

    >>> parse_item_id("12"), parse_item_id("q34") - parse_item_id("q33")
    (12, 1)
    """
    return HIT_ID_OFFSET + int(id[1:]) if id.startswith("q") else int(id)


def format_item_id(number: int) -> str:
    """Return the item id of a number of the store.

    >>> format_item_id(12), format_item_id(HIT_ID_OFFSET + 34)
    ('12', 'q34')
    """
    return f"q{number - HIT_ID_OFFSET}" if number > HIT_ID_OFFSET else str(number)


def paginate(rows: Sequence[Any], limit: int, view: Any, key: Any) -> ListPage[Any]:
    """Return a page of `limit` rows; one row more means that there is a next page. `key(row)` is the row's cursor."""
    shown = rows[:limit]
    return ListPage(
        items=[view(row) for row in shown], next=encode_cursor(*key(shown[-1])) if len(rows) > limit and shown else None
    )


def finite_or_none(number: float | None) -> float | None:
    """Return the number, None if it is infinite or not a number: JSON has no such values."""
    return number if number is not None and math.isfinite(number) else None
