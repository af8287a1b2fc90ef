"""Changes the tables of a database: the statements of migrations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Connection, Index, MetaData, Table
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable, SchemaItem

from headwater.store.schema.metadata import metadata


class TableChanges:
    """Executes changes at once, in the transaction of its connection.

    Options of another kind of database are left out, because SQLAlchemy would load its whole dialect to check them.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._kind = connection.dialect.name

    def create_table(self, name: str, *parts: SchemaItem, **options: Any) -> None:
        """Create a table from its columns and constraints; options are SQLAlchemy's, such as `sqlite_with_rowid`."""
        table = Table(name, _start_metadata(), *parts, **self._own(options))
        for constraint in table.foreign_key_constraints:
            for key in constraint.elements:
                target, _, column = key.target_fullname.rpartition(".")
                Table(target, table.metadata, Column(column), extend_existing=True)
        self.connection.execute(CreateTable(table))

    def create_index(
        self, name: str, table: str, columns: Sequence[str], *, unique: bool = False, **options: Any
    ) -> None:
        """Create an index; options are SQLAlchemy's, such as `sqlite_where`."""
        indexed = Table(table, _start_metadata(), *map(Column, columns))
        self.connection.execute(CreateIndex(Index(name, *indexed.columns, unique=unique, **self._own(options))))

    def add_column(self, table: str, column: Column[Any]) -> None:
        """Add a column to a table."""
        Table(table, _start_metadata(), column)
        dialect = self.connection.dialect
        definition = CreateColumn(column).compile(dialect=dialect)
        self.execute(f"ALTER TABLE {dialect.identifier_preparer.quote(table)} ADD COLUMN {definition}")

    def drop_table(self, name: str) -> None:
        """Drop a table with its indexes."""
        self.execute(f"DROP TABLE {self.connection.dialect.identifier_preparer.quote(name)}")

    def _own(self, options: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in options.items() if name.startswith(f"{self._kind}_")}

    def execute(self, statement: str) -> None:
        """Execute a statement as it is written."""
        self.connection.exec_driver_sql(statement)


def _start_metadata() -> MetaData:
    return MetaData(naming_convention=metadata.naming_convention)
