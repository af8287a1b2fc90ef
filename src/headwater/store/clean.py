"""Replaces characters that XML or a database refuses by U+FFFD, in whatever value they hide.

Documents are cleaned when they are read, so `save` only comes here after the database has refused something.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar

from headwater.formats.text import fit

T = TypeVar("T")


def clean_text(text: str) -> str:
    r"""The text as both databases can store it and every format can publish it.

    >>> clean_text("a\x00b")
    'a�b'
    """
    return fit(text)


def clean(value: T) -> T:
    """A value of the model with every text in it clean."""
    return _clean(value)  # type: ignore[no-any-return]


def _clean(value: Any) -> Any:
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, tuple):
        return tuple(_clean(part) for part in value)
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{field.name: _clean(getattr(value, field.name)) for field in fields(value)})
    return value
