"""Replaces characters that XML or a database refuses by U+FFFD, in whatever value they hide.

Documents are cleaned when they are read, so `save` only comes here after the database has refused something.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar

from headwater.formats.values.text import replace_forbidden

T = TypeVar("T")


def replace_unstorable_text(text: str) -> str:
    r"""The text as both databases can store it and every format can publish it.

    >>> replace_unstorable_text("a\x00b")
    'a�b'
    """
    return replace_forbidden(text)


def replace_unstorable(value: T) -> T:
    """A value of the model with every text in it clean."""
    return _replace_in(value)  # type: ignore[no-any-return]


def _replace_in(value: Any) -> Any:
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return replace_unstorable_text(value)
    if isinstance(value, tuple):
        return tuple(_replace_in(part) for part in value)
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{field.name: _replace_in(getattr(value, field.name)) for field in fields(value)})
    return value
