"""Writes a whole database to a backup file and restores it, from either kind of database into either kind.

A backup is one reading transaction, so it holds one moment while others go on writing: SQLite's log and PostgreSQL's
snapshots both keep that moment. Rows are written table by table; the search index is left out, because restoring builds
it anew. Restoring creates the tables of the backup's version, fills and counts them, and only then migrates them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Connection, MetaData, Table, func, insert, inspect, select, text

from headwater import __version__
from headwater.errors import StoreError
from headwater.store.content import search
from headwater.store.database.migrate import HEAD, migrate
from headwater.store.maintenance.backup_file import FORMAT, BackupReader, BackupWriter, Manifest, Rows
from headwater.store.schema.all_tables import metadata
from headwater.store.schema.item_tables import index_queue
from headwater.store.schema.reader_tables import user

Progress = Callable[[int, int], None]  # rows done, rows in all
_SKIPPED_TABLES = {index_queue.name}  # what is to be indexed: after restoring, everything
_IGNORED_TABLES = {"alembic_version", "saved_state", "user"}  # may have rows in a database that has just been made
CHUNK = 1000


def write_backup(connection: Connection, file: BackupWriter, now: float, progress: Progress) -> Manifest:
    """Everything, as of one moment, in the caller's reading transaction, which must not have read anything yet."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
    tables = [table for table in metadata.sorted_tables if table.name not in _SKIPPED_TABLES]
    manifest = Manifest(
        format=FORMAT,
        version=__version__,
        tables=HEAD,
        taken=now,
        database=connection.dialect.name,
        columns={str(table.name): [str(column.name) for column in table.columns] for table in tables},
        counts={str(table.name): count_all_rows(connection, table) for table in tables},
        numbers=read_sequences(connection),
    )
    file.write_manifest(manifest)
    done, total = 0, sum(manifest.counts.values())
    for table in tables:
        name = str(table.name)
        rows = connection.execution_options(yield_per=CHUNK).execute(select(table))
        for row in rows:
            file.write_row(name, tuple(row))
            done += 1
            if not done % CHUNK:
                progress(done, total)
    file.write_seal()
    progress(total, total)
    return manifest


def fill_from_backup(connection: Connection, file: BackupReader, where: str, progress: Progress) -> None:
    """Fill this database, which must be empty and have the tables of the backup's version, or leave it empty."""
    require_empty(connection, where)
    load_backup(connection, file, progress)


def load_backup(connection: Connection, file: BackupReader, progress: Progress) -> None:
    """Fill the empty tables of the manifest's version and bring them up to date, in the caller's transaction."""
    manifest = file.manifest
    done, total = 0, sum(manifest.counts.values())
    found = MetaData()
    tables = {name: Table(name, found, autoload_with=connection) for name in manifest.columns}
    for name in {"saved_state", "user"} & set(tables):
        connection.execute(tables[name].delete())  # what making the tables has noted, and the owner it made
    for block in file.read_blocks():
        _insert_rows(connection, tables[block.table], manifest.columns[block.table], block)
        done += len(block.rows)
        progress(done, total)
    for name, table in tables.items():
        if (there := count_all_rows(connection, table)) != manifest.counts[name]:
            raise StoreError(f"Of {name}, {there} rows were restored and not {manifest.counts[name]}; nothing is kept.")
    set_sequences(connection, manifest.numbers)
    migrate(connection)
    search.rebuild_index(connection)


def require_empty(connection: Connection, where: str) -> None:
    """A database that has anything in it is not restored into."""
    for name in inspect(connection).get_table_names():
        if name in _IGNORED_TABLES or name.startswith("item_search"):
            continue
        if connection.execute(text(f'SELECT 1 FROM "{name}" LIMIT 1')).first():
            raise StoreError(f"{where} is not empty: it has rows in {name}. An empty database is needed.")
    if inspect(connection).has_table(user.name):
        claimed = select(user.c.id).where(user.c.password.is_not(None)).limit(1)
        if connection.execute(claimed).first():
            raise StoreError(f"{where} has an owner with a password already. An empty database is needed.")


def check_sqlite(connection: Connection) -> None:
    """SQLite's own word that the file is whole."""
    said = connection.execute(text("PRAGMA integrity_check")).scalar()
    if said != "ok" or connection.execute(text("PRAGMA foreign_key_check")).first():
        raise StoreError(f"The restored database is not whole ({said}); nothing is kept.")


def verify_backup(file: BackupReader, progress: Progress) -> None:
    """Read all of it and keep nothing; InputError where it is damaged."""
    done, total = 0, sum(file.manifest.counts.values())
    for block in file.read_blocks():
        done += len(block.rows)
        progress(done, total)


def require_known_version(manifest: Manifest, file: Path) -> None:
    if not manifest.tables.startswith("v"):
        raise StoreError(
            f"{file} was written by a Headwater before 0.2.0 ({manifest.version}): restore it with that version."
        )
    if manifest.tables > HEAD:
        raise StoreError(
            f"{file} was written by a newer Headwater ({manifest.version}, tables {manifest.tables}; this one knows "
            f"{HEAD}). Install that version to restore it."
        )


def count_all_rows(connection: Connection, table: Table) -> int:
    return connection.execute(select(func.count()).select_from(table)).scalar_one()


def _insert_rows(connection: Connection, table: Table, columns: list[str], block: Rows) -> None:
    connection.execute(insert(table), [dict(zip(columns, row, strict=True)) for row in block.rows])


def read_sequences(connection: Connection) -> dict[str, int]:
    """The last id given out in each table that numbers its rows."""
    if connection.dialect.name == "sqlite":
        found = connection.execute(text("SELECT name, seq FROM sqlite_sequence"))
        return {name: number for name, number in found if name in metadata.tables}
    numbers = {}
    for name, sequence in _find_sequences(connection, set(metadata.tables)):
        last, called = connection.execute(text(f"SELECT last_value, is_called FROM {sequence}")).one()
        if called:
            numbers[name] = last
    return numbers


def set_sequences(connection: Connection, numbers: dict[str, int]) -> None:
    """Go on numbering where another database stopped."""
    if connection.dialect.name == "sqlite":
        for name, number in numbers.items():
            connection.execute(text("DELETE FROM sqlite_sequence WHERE name = :name"), {"name": name})
            values = {"name": name, "number": number}
            connection.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :number)"), values)
        return
    for name, sequence in _find_sequences(connection, set(numbers)):
        connection.execute(text("SELECT setval(CAST(:of AS regclass), :to)"), {"of": sequence, "to": numbers[name]})


def _find_sequences(connection: Connection, names: set[str]) -> list[tuple[str, str]]:
    """(table, its sequence) in PostgreSQL, for those of these tables that number their rows."""
    query = text("SELECT pg_get_serial_sequence(:table, :column)")
    found = []
    for name in names & set(metadata.tables):
        columns = list(metadata.tables[name].primary_key.columns)
        asked = {"table": name, "column": columns[0].name}
        if len(columns) == 1 and (sequence := connection.execute(query, asked).scalar()):
            found.append((name, sequence))
    return found
