"""Defines the naming convention of constraints and the column types that all tables share.

Columns of text that people type (`StorableText`) replace every character that XML forbids by U+FFFD. Documents lose
those when they are parsed, so a verdict is changed only after the database has refused it, and then only as far as
needed: identities must stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar

import msgspec
from sqlalchemy import BigInteger, Dialect, ForeignKey, Index, Integer, MetaData, Text, text
from sqlalchemy.types import TypeDecorator, UserDefinedType

from headwater.formats.values.text import replace_forbidden

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pk",
        "ix": "%(table_name)s_%(column_0_N_name)s",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "fk": "%(table_name)s_%(column_0_N_name)s_fk",
    }
)


Id = BigInteger().with_variant(Integer, "sqlite")  # only an INTEGER key is SQLite's rowid


def unique_outside_trash(name: str, column: str) -> Index:
    """Make a column unique among rows outside the trash: a trashed object keeps its name, which others may take."""
    return partial_index(name, column, where="deleted_at IS NULL", unique=True)


def partial_index(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    """Make an index of the rows for which `where` holds.

    In PostgreSQL too, see `all_tables`: naming its option here would load its dialect in every command.
    """
    return Index(name, *columns, unique=unique, sqlite_where=text(where))


def feed_reference() -> ForeignKey:
    """Return a foreign key to a feed, with which the row is deleted."""
    return ForeignKey("feed.id", ondelete="CASCADE")


class TsVector(UserDefinedType[str]):
    """PostgreSQL's TSVECTOR, declared by name, so that SQLite users do not load PostgreSQL's dialect."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "TSVECTOR"


class TsQuery(UserDefinedType[str]):
    """PostgreSQL's type of a search in a TsVector."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "TSQUERY"


# The index of words: this table in PostgreSQL, with a GIN index that only `create_tables` names, because naming it here
# would load the dialect as well; an FTS5 table of the same name in SQLite.
postgres_metadata = MetaData(naming_convention=metadata.naming_convention)


T = TypeVar("T")

_REFUSED = re.compile("[\x00\ud800-\udfff]")  # by PostgreSQL; SQLite refuses surrogates alone


class StorableText(TypeDecorator[str]):
    """Text that people type; characters that XML forbids are replaced when it is stored or compared."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Return the text as it is stored."""
        return None if value is None else replace_forbidden(value)


def replace_unstorable(value: T) -> T:
    r"""Return the value with every character that XML forbids replaced.

    >>> replace_unstorable(("a\x00b", "c\ufffed"))
    ('a�b', 'c�d')
    """
    return _change_texts(value, replace_forbidden)  # type: ignore[no-any-return]


def replace_refused(value: T) -> T:
    r"""Return the value with every character that a database refuses replaced.

    >>> replace_refused("a\x00b\x01")
    'a�b\x01'
    """
    return _change_texts(value, lambda text: _REFUSED.sub("�", text))  # type: ignore[no-any-return]


def _change_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_change_texts(part, change) for part in value)
    if isinstance(value, msgspec.Struct):
        names: tuple[str, ...] = value.__struct_fields__
    elif is_dataclass(value) and not isinstance(value, type):
        names = tuple(field.name for field in fields(value))
    else:
        return value
    return type(value)(**{name: _change_texts(getattr(value, name), change) for name in names})
