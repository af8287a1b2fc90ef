"""Defines the naming convention of constraints and the column types that all tables share."""

from __future__ import annotations

from sqlalchemy import BigInteger, ForeignKey, Index, Integer, MetaData, text
from sqlalchemy.types import UserDefinedType

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

    In PostgreSQL too, by the migration: naming its option here would load its dialect in every command.
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


# The index of words: this table in PostgreSQL, with a GIN index that only the migration names, because naming it here
# would load the dialect as well; an FTS5 table of the same name in SQLite.
postgres_metadata = MetaData(naming_convention=metadata.naming_convention)
