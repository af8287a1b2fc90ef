"""Restores a database from a backup; the file appears under its name only when it is complete."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import make_url

from headwater.errors import StoreError
from headwater.store.database.sqlite import parse_file
from headwater.store.maintenance import backup
from headwater.store.maintenance.backup import Progress
from headwater.store.maintenance.backup_file import BackupReader, Manifest
from headwater.store.opening import open_store


async def restore_backup(file: BackupReader, url: str, name: Path, progress: Progress) -> Manifest:
    """Restore into the SQLite file, which must not be there, or the PostgreSQL database, which must be empty."""
    backup.require_known_version(file.manifest, name)
    tables = file.manifest.tables
    if not url.startswith("sqlite"):
        async with await open_store(url, tables=tables) as store:
            await store.write(backup.fill_from_backup, file, "The database", progress)
        return file.manifest
    target = parse_file(make_url(url))
    if target.exists():
        raise StoreError(
            f"There is a database at {target} already. Restore into another folder by --data, or move that one away."
        )
    part = target.with_name(f"{target.name}.restoring")
    try:
        _remove_file(part)
        async with await open_store(f"sqlite:///{part}", tables=tables) as store:
            await store.write(backup.fill_from_backup, file, str(part), progress)
            await store.write(backup.check_sqlite)
        part.rename(target)
    finally:
        _remove_file(part)
    return file.manifest


def _remove_file(file: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        file.with_name(file.name + ending).unlink(missing_ok=True)
