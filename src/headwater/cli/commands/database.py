"""`headwater backup`, `restore` and `db move`: the whole database in one file, back, or elsewhere."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.console.command import command, make_group
from headwater.cli.console.output import format_local_time, out, show_progress, show_progress_by_step
from headwater.errors import InputError
from headwater.store.maintenance import backup
from headwater.store.maintenance.backup import Backup
from headwater.store.maintenance.database_copy import CopiedRows, copy_database

if TYPE_CHECKING:
    from headwater.settings import Settings

BackupResult = tuple[str, Path, Backup]

top = typer.Typer()
db = make_group("Move the whole database.")
top.add_typer(db, name="db")


def _backup_as_json(result: BackupResult) -> dict[str, object]:
    _, file, found = result
    return {
        "file": str(file),
        "bytes": file.stat().st_size,
        "taken": found.note.taken,
        "version": found.note.version,
        "tables": found.tables,
        "database": found.note.database,
        "counts": found.counts,
    }


def _render_backup(result: BackupResult) -> None:
    text, file, found = result
    counts = found.counts
    rows = f"{counts['feed']:,} feeds, {counts['item']:,} items, {sum(counts.values()):,} rows in all"
    size = file.stat().st_size / 1e6
    out.print(f"{text}: {rows}, {size:,.1f} MB, taken {format_local_time(found.note.taken)}.", markup=False)


@command(
    top,
    "backup",
    view=_render_backup,
    as_json=_backup_as_json,
    example="headwater backup /var/backups/headwater-$(date +%F).backup",
)
async def write_backup(
    settings: Settings,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> BackupResult:
    """Write the whole database to one file, also while the server runs. The file is a compressed SQLite database."""
    with show_progress("backing up") as progress:
        made = await backup.write_backup(settings.database_url, file, time.time(), progress, replace=force)
    return f"Backed up to {file}", file, made


@command(
    top,
    "restore",
    view=_render_backup,
    as_json=_backup_as_json,
    example="headwater restore FILE --data NEW  ·  headwater restore FILE --check",
)
async def restore_backup(
    settings: Settings,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that headwater backup has written.")],
    check: Annotated[bool, typer.Option("--check", help="Only check that the file is complete.")] = False,
) -> BackupResult:
    """Restore a backup into a new SQLite file in --data, or into the empty database --database."""
    if not check and not {"data", "database"} & settings.given_fields:
        raise InputError("Say where to restore to: --data DIR, or --database URL of an empty database.")
    with show_progress("checking" if check else "restoring") as progress:
        if check:
            return f"{file} is complete", file, await backup.check_backup(file, progress)
        return f"Restored from {file}", file, await backup.restore_backup(file, settings.database_url, progress)


def _render_copy(copied: CopiedRows) -> None:
    out.print(f"{sum(copied.rows.values()):,} rows were moved and compared: both sides are equal.")


@command(
    db,
    "move",
    view=_render_copy,
    as_json=lambda copied: {
        "rows": copied.rows,
        "total": sum(copied.rows.values()),
        "resumed": False,
        "verified": True,
    },
    example="headwater db move sqlite:///data/headwater.sqlite postgresql://headwater@db/headwater",
)
async def move_database(
    source: Annotated[
        str,
        typer.Argument(help="sqlite:///FILE or postgresql://…, with no server running on it."),
    ],
    target: Annotated[str, typer.Argument(help="An empty database of either kind.")],
) -> CopiedRows:
    """Copy everything into another database, all or nothing, and compare both row by row."""
    with show_progress_by_step() as progress:

        def show(label: str, done: int, total: int) -> None:  # “copying item”: one bar copies, one compares
            progress(label.partition(" ")[0], done, total, label)

        return await copy_database(source, target, show)
