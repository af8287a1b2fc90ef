"""`headwater removed`: what was removed within a day, bringing it back, or not waiting for the day to be over."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.markup import escape

from headwater.cli.console.command import (
    MAX_INTEGER,
    add_command,
    current_settings,
    fail,
    make_group,
    out,
    print_json,
    wants_json,
)
from headwater.cli.console.resources import open_store, run_async
from headwater.errors import NotFound
from headwater.store.maintenance import trash_restore
from headwater.store.maintenance.trash_rows import RestoredObject, TrashEntry
from headwater.times import format_relative


def register(app: typer.Typer) -> None:
    removed = make_group("What was removed and can be brought back, for a day.")
    add_command(removed, "list", epilog="Example:  headwater removed list --json")(list_trash)
    add_command(removed, "undo", epilog="Example:  headwater removed undo 12")(restore_from_trash)
    add_command(
        removed, "forget", epilog="Examples:  headwater removed forget 12   ·   headwater removed forget --all"
    )(empty_trash)
    app.add_typer(removed, name="removed")


def print_undo_hint(numbers: Sequence[int]) -> None:
    """After a removal: how it is taken back."""
    if numbers:
        out.print(f"For a day, this brings it back: headwater removed undo {' '.join(map(str, numbers))}")


def list_trash() -> None:
    """Show what can be brought back, the latest first."""

    async def work() -> list[TrashEntry]:
        async with open_store(current_settings()) as store:
            return await store.read(trash_restore.list_trash, None, time.time())

    found = run_async(work())
    if wants_json():
        print_json(found)
        return
    for one in found:
        out.print(escape(f"{one.id}  {one.kind}  {one.label}  {format_relative(one.at, time.time())}"))
    if not found:
        out.print("Nothing was removed within a day.")


def restore_from_trash(
    numbers: Annotated[list[int], typer.Argument(max=MAX_INTEGER, metavar="NUMBER…", help="Which of the list.")],
) -> None:
    """Bring back what was removed, as it was; of several, the last removed first."""

    async def work() -> list[RestoredObject]:
        async with open_store(current_settings()) as store:
            now = time.time()
            return [
                await store.write(trash_restore.restore_from_trash, number, None, now)
                for number in sorted(set(numbers), reverse=True)
            ]

    back = run_async(work())
    if wants_json():
        print_json(back)
        return
    for one in back:
        out.print(escape(f"{one.label} ({one.kind}) is back."))


def empty_trash(
    numbers: Annotated[
        list[int] | None, typer.Argument(max=MAX_INTEGER, metavar="[NUMBER…]", help="Which of the list.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Everything that was removed.")] = False,
) -> None:
    """Remove for good what was removed, without waiting for the day to be over."""
    if bool(numbers) == all_:
        fail("Name the numbers to forget, or give --all for everything.", 2)

    async def work() -> int:
        async with open_store(current_settings()) as store:
            return await store.write(trash_restore.empty_trash, None if all_ else numbers)

    gone = run_async(work())
    if not gone and not all_:
        raise NotFound("Nothing of these numbers was removed, or no longer: “headwater removed list” shows all.")
    if wants_json():
        print_json({"forgotten": gone})
    else:
        out.print(f"{gone} forgotten.")
