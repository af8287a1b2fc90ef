"""Brings the tables of a database up to date, once, even when several processes start together."""

from __future__ import annotations

from sqlalchemy import Connection, inspect, text

from headwater.errors import StoreError

HEAD = "v0012"  # the version of the tables in store/schema
# Versions before 0.3.0 migrated with Alembic; the table keeps its name, so that their databases are recognised.
_VERSION_TABLE = (
    "CREATE TABLE alembic_version "
    "(version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
_LOCK = 0x68656164  # "head": the advisory lock of migrations in PostgreSQL
_BEFORE_RELEASE = (
    "The database was written by a Headwater before 0.2.0, whose tables this version does not know (version "
    "{version}). "
    "Take your feeds along with the old version's “headwater feeds export” and import them here; a client of the "
    "Google Reader API can copy read and starred marks from the old server to the new one."
)


def read_schema_version(connection: Connection) -> str | None:
    """Return the version of the tables, None for an empty database."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def migrate(connection: Connection) -> None:
    """Create the tables of an empty database, or change those of an earlier version.

    Runs in the caller's writing transaction: on SQLite, that is the lock.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    version = read_schema_version(connection)
    if version == HEAD:
        return
    if version is None and (others := _list_foreign_tables(connection)):
        raise StoreError(
            f"The database belongs to another program: it has tables like “{others[0]}”. "
            "Give an empty database or another file."
        )
    if version is not None and not version.startswith("v"):
        raise StoreError(_BEFORE_RELEASE.format(version=version))
    if version is not None and version > HEAD:
        raise StoreError(
            f"The database was written by a newer Headwater (tables {version}, this one knows {HEAD}). "
            "Install that version, or open another database."
        )
    if version is None:
        _create(connection)
    else:
        _upgrade(connection, version)
    connection.execute(text("INSERT INTO alembic_version VALUES (:head)"), {"head": HEAD})


def _list_foreign_tables(connection: Connection) -> list[str]:
    return sorted(inspect(connection).get_table_names())


def _create(connection: Connection) -> None:
    from headwater.store.schema.all_tables import create_tables

    create_tables(connection)
    connection.execute(text(_VERSION_TABLE))


def _upgrade(connection: Connection, version: str) -> None:
    """Add the tables and columns of later versions, and run their steps."""
    from headwater.store.database.migrations import STEPS
    from headwater.store.schema.all_tables import complete_tables

    complete_tables(connection)
    for name, change_rows in STEPS.items():
        if name > version:
            change_rows(connection)
    connection.execute(text("DELETE FROM alembic_version"))
