"""`headwater backup` and `headwater restore`: everything in one file, and back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from headwater.cli.console.command import add_command, current_settings, err, out, print_json, wants_json
from headwater.cli.console.resources import run_async
from headwater.errors import InputError
from headwater.store.maintenance import backup
from headwater.store.maintenance.backup import Progress as Told
from headwater.store.maintenance.backup import verify_backup
from headwater.store.maintenance.backup_file import Manifest, open_backup_reader, open_backup_writer
from headwater.store.maintenance.backup_restore import restore_backup as restore_into
from headwater.store.opening import open_store


def register(app: typer.Typer) -> None:
    add_command(app, "backup", epilog="Example:  headwater backup /var/backups/headwater-$(date +%F).backup")(
        write_backup
    )
    add_command(
        app, "restore", epilog="Examples:  headwater restore FILE --data NEW  ·  headwater restore FILE --check"
    )(restore_backup)


def write_backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
) -> None:
    """Write the whole database as of this moment to one file, also while the server runs."""
    with _show_progress("backing up") as told:
        manifest = run_async(_write_backup_file(file, force, told))
    _report_backup("Backed up to {}", file, manifest)


async def _write_backup_file(file: Path, force: bool, told: Told) -> Manifest:
    async with await open_store(current_settings().database_url, create=False) as store:
        with open_backup_writer(file, replace=force) as writer:
            return await store.snapshot(backup.write_backup, writer, time.time(), told)


def restore_backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that headwater backup has written.")],
    check: Annotated[bool, typer.Option("--check", help="Only see whether the file is whole.")] = False,
) -> None:
    """Make a database of a backup: a new SQLite file in --data, or in the empty database --database."""
    given = current_settings()
    if not check and not {"data", "database"} & given.given_fields:
        raise InputError("Say where to restore to: --data DIR, or --database URL of an empty database.")
    with open_backup_reader(file) as reader, _show_progress("checking" if check else "restoring") as told:
        if check:
            verify_backup(reader, told)
        else:
            run_async(restore_into(reader, given.database_url, file, told))
    _report_backup("{} is whole" if check else "Restored from {}", file, reader.manifest)


@contextmanager
def _show_progress(doing: str) -> Iterator[Told]:
    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TextColumn("rows"), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=wants_json() or not err.is_terminal) as progress:
        bar = progress.add_task(doing, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)


def _report_backup(done: str, file: Path, manifest: Manifest) -> None:
    counts = manifest.counts
    size = file.stat().st_size
    taken = datetime.fromtimestamp(manifest.taken, UTC)
    if wants_json():
        facts = {"file": str(file), "bytes": size, "taken": manifest.taken, "version": manifest.version}
        return print_json(facts | {"tables": manifest.tables, "database": manifest.database, "counts": counts})
    rows = f"{counts['feed']:,} feeds, {counts['item']:,} items, {sum(counts.values()):,} rows in all"
    out.print(f"{done.format(file)}: {rows}, {size / 1e6:,.1f} MB, taken {taken:%Y-%m-%d %H:%M:%S} UTC.", markup=False)
    return None
