"""`headwater removed`: list, restore or delete objects that were removed in the last day."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from headwater.cli.console.command import command, make_group
from headwater.cli.console.output import MAX_INTEGER, fail, out
from headwater.errors import NotFound
from headwater.store.maintenance import trash
from headwater.times import format_relative

if TYPE_CHECKING:
    from headwater.store.maintenance.trash_entries import RestoredObject, TrashEntry
    from headwater.store.store import Store

top = typer.Typer()
removed = make_group("List, restore or delete objects that were removed in the last day.")
top.add_typer(removed, name="removed")


def _render_trash(found: list[TrashEntry]) -> None:
    for one in found:
        out.print(escape(f"{one.id}  {one.kind}  {one.label}  {format_relative(one.at, time.time())}"))
    if not found:
        out.print("Nothing was removed in the last day.")


@command(removed, "list", view=_render_trash, example="headwater removed list --json")
async def list_trash(store: Store) -> list[TrashEntry]:
    """List the removed objects that can be restored, the latest first."""
    return await store.read(trash.list_trash, None, time.time())


def _render_restored(restored: list[RestoredObject]) -> None:
    for one in restored:
        out.print(escape(f"{one.label} ({one.kind}) is restored."))


@command(removed, "undo", view=_render_restored, example="headwater removed undo 12")
async def restore_from_trash(
    store: Store,
    numbers: Annotated[list[int], typer.Argument(max=MAX_INTEGER, metavar="NUMBER…", help="Numbers of the list.")],
) -> list[RestoredObject]:
    """Restore removed objects; of several, the last removed first."""
    now = time.time()
    return [
        await store.write(trash.restore_from_trash, number, None, now) for number in sorted(set(numbers), reverse=True)
    ]


@command(
    removed,
    "forget",
    view=lambda deleted: out.print(f"{deleted} deleted."),
    as_json=lambda deleted: {"forgotten": deleted},
    example="headwater removed forget 12   ·   headwater removed forget --all",
)
async def empty_trash(
    store: Store,
    numbers: Annotated[
        list[int] | None, typer.Argument(max=MAX_INTEGER, metavar="[NUMBER…]", help="Numbers of the list.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Everything that was removed.")] = False,
) -> int:
    """Delete removed objects now, without waiting for the day to end."""
    if bool(numbers) == all_:
        fail("Give the numbers to delete, or --all.", 2)
    deleted = 0
    while part := await store.write(trash.empty_trash, None if all_ else numbers):
        deleted += part
    if not deleted and not all_:
        raise NotFound("None of these numbers is in the trash. “headwater removed list” shows all.")
    return deleted
