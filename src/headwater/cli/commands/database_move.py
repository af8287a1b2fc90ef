"""`headwater db move`: from one file to a server as it grows, and back."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from headwater.cli.console.command import add_command, err, make_group, out, print_json, wants_json
from headwater.cli.console.resources import run_async
from headwater.store.maintenance.database_copy import CopiedRows
from headwater.store.maintenance.database_copy import copy_database as move_all


def register(app: typer.Typer) -> None:
    db = make_group("The database as a whole.")
    add_command(
        db,
        "move",
        epilog="Example:  headwater db move sqlite:///data/headwater.sqlite postgresql://headwater@db/headwater",
    )(move_database)
    app.add_typer(db, name="db")


def move_database(
    source: Annotated[str, typer.Argument(help="sqlite:///FILE or postgresql://…, with no server running on it.")],
    target: Annotated[str, typer.Argument(help="An empty database of either kind.")],
) -> None:
    """Move everything into another database: resumable, and compared row by row at the end."""
    moved = run_async(_move_with_progress(source, target))
    total = sum(moved.rows.values())
    if wants_json():
        print_json({"rows": moved.rows, "total": total, "resumed": moved.resumed, "verified": True})
    else:
        again = " (the move had been begun before)" if moved.resumed else ""
        out.print(f"{total:,} rows were moved and compared: both sides are equal{again}.")


async def _move_with_progress(source: str, target: str) -> CopiedRows:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        tasks = {"copying": bar.add_task("copying"), "comparing": bar.add_task("comparing")}

        def told(what: str, done: int, total: int) -> None:
            bar.update(tasks[what.partition(" ")[0]], description=what, completed=done, total=total)

        return await move_all(source, target, time.time(), told)
