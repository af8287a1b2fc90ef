"""`headwater backup`, `restore` and `db move`: the whole database in one file, back, or elsewhere."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.console.command import command, make_group
from headwater.cli.console.output import err, out, show_progress
from headwater.errors import InputError
from headwater.store.maintenance import backup
from headwater.store.maintenance.backup import verify_backup
from headwater.store.maintenance.backup_file import Manifest, open_backup_reader, open_backup_writer
from headwater.store.maintenance.backup_restore import restore_backup as restore_into
from headwater.store.maintenance.database_copy import CopiedRows, copy_database
from headwater.store.opening import open_store

if TYPE_CHECKING:
    from headwater.settings import Settings

BackupResult = tuple[str, Path, Manifest]

top = typer.Typer()
db = make_group("Move the whole database.")
top.add_typer(db, name="db")


def _backup_as_json(result: BackupResult) -> dict[str, object]:
    _, file, manifest = result
    return {
        "file": str(file),
        "bytes": file.stat().st_size,
        "taken": manifest.taken,
        "version": manifest.version,
        "tables": manifest.tables,
        "database": manifest.database,
        "counts": manifest.counts,
    }


def _render_backup(result: BackupResult) -> None:
    text, file, manifest = result
    counts = manifest.counts
    rows = f"{counts['feed']:,} feeds, {counts['item']:,} items, {sum(counts.values()):,} rows in all"
    taken = datetime.fromtimestamp(manifest.taken, UTC)
    size = file.stat().st_size / 1e6
    out.print(f"{text}: {rows}, {size:,.1f} MB, taken {taken:%Y-%m-%d %H:%M:%S} UTC.", markup=False)


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
    """Write the whole database to one file, also while the server runs."""
    async with await open_store(settings.database_url, create=False) as store:
        with show_progress("backing up", unit="rows") as progress, open_backup_writer(file, replace=force) as writer:
            manifest = await store.snapshot(backup.write_backup, writer, time.time(), progress)
    return f"Backed up to {file}", file, manifest


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
    with (
        open_backup_reader(file) as reader,
        show_progress("checking" if check else "restoring", unit="rows") as progress,
    ):
        if check:
            verify_backup(reader, progress)
        else:
            await restore_into(reader, settings.database_url, file, progress)
    return f"{file} is complete" if check else f"Restored from {file}", file, reader.manifest


def _render_copy(copied: CopiedRows) -> None:
    resumed = " (an earlier move was continued)" if copied.resumed else ""
    out.print(f"{sum(copied.rows.values()):,} rows were moved and compared: both sides are equal{resumed}.")


@command(
    db,
    "move",
    view=_render_copy,
    as_json=lambda copied: {
        "rows": copied.rows,
        "total": sum(copied.rows.values()),
        "resumed": copied.resumed,
        "verified": True,
    },
    example="headwater db move sqlite:///data/headwater.sqlite postgresql://headwater@db/headwater",
)
async def move_database(
    source: Annotated[str, typer.Argument(help="sqlite:///FILE or postgresql://…, with no server running on it.")],
    target: Annotated[str, typer.Argument(help="An empty database of either kind.")],
) -> CopiedRows:
    """Move everything into another database: resumable, and compared row by row at the end."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        tasks = {"copying": bar.add_task("copying"), "comparing": bar.add_task("comparing")}

        def show(step: str, done: int, total: int) -> None:
            bar.update(tasks[step.partition(" ")[0]], description=step, completed=done, total=total)

        return await copy_database(source, target, time.time(), show)
