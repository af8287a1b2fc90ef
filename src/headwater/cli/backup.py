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

from headwater.cli.common import as_json, command, err, out, print_json, settings
from headwater.cli.work import run
from headwater.errors import InputError
from headwater.store.backup import Progress as Told
from headwater.store.backup import verify
from headwater.store.backup_file import Manifest, reading, writing
from headwater.store.restoring import restore as restore_into
from headwater.store.store import Store


def register(app: typer.Typer) -> None:
    command(app, "backup", epilog="Example:  headwater backup /var/backups/headwater-$(date +%F).backup")(backup)
    command(app, "restore", epilog="Examples:  headwater restore FILE --data NEW  ·  headwater restore FILE --check")(
        restore
    )


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
) -> None:
    """Write the whole database as of this moment to one file, also while the server runs."""
    with _bar("backing up") as told:
        manifest = run(_backup(file, force, told))
    _say("Backed up to {}", file, manifest)


async def _backup(file: Path, force: bool, told: Told) -> Manifest:
    async with await Store.open(settings().database_url, create=False) as store:
        with writing(file, replace=force) as writer:
            return await store.backup(writer, time.time(), told)


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that headwater backup has written.")],
    check: Annotated[bool, typer.Option("--check", help="Only see whether the file is whole.")] = False,
) -> None:
    """Make a database of a backup: a new SQLite file in --data, or in the empty database --database."""
    given = settings()
    if not check and not {"data", "database"} & given.model_fields_set:
        raise InputError("Say where to restore to: --data DIR, or --database URL of an empty database.")
    with reading(file) as reader, _bar("checking" if check else "restoring") as told:
        if check:
            verify(reader, told)
        else:
            run(restore_into(reader, given.database_url, file, told))
    _say("{} is whole" if check else "Restored from {}", file, reader.manifest)


@contextmanager
def _bar(doing: str) -> Iterator[Told]:
    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TextColumn("rows"), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=as_json() or not err.is_terminal) as progress:
        bar = progress.add_task(doing, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)


def _say(done: str, file: Path, manifest: Manifest) -> None:
    counts = manifest.counts
    size = file.stat().st_size
    taken = datetime.fromtimestamp(manifest.taken, UTC)
    if as_json():
        facts = {"file": str(file), "bytes": size, "taken": manifest.taken, "version": manifest.version}
        return print_json(facts | {"tables": manifest.tables, "database": manifest.database, "counts": counts})
    rows = f"{counts['feed']:,} feeds, {counts['item']:,} items, {sum(counts.values()):,} rows in all"
    out.print(f"{done.format(file)}: {rows}, {size / 1e6:,.1f} MB, taken {taken:%Y-%m-%d %H:%M:%S} UTC.", markup=False)
    return None
