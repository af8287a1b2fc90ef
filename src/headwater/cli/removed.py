"""`headwater removed`: what was removed within a day, bringing it back, or not waiting for the day to be over."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.markup import escape

from headwater.cli.common import MOST, as_json, command, fail, group, out, print_json, settings
from headwater.cli.work import opened, run
from headwater.errors import NotFound
from headwater.store.people import Back, Removal
from headwater.when import relative


def register(app: typer.Typer) -> None:
    removed = group("What was removed and can be brought back, for a day.")
    command(removed, "list", epilog="Example:  headwater removed list --json")(list_)
    command(removed, "undo", epilog="Example:  headwater removed undo 12")(undo)
    command(removed, "forget", epilog="Examples:  headwater removed forget 12   ·   headwater removed forget --all")(
        forget
    )
    app.add_typer(removed, name="removed")


def how_to_undo(numbers: Sequence[int]) -> None:
    """After a removal: how it is taken back."""
    if numbers:
        out.print(f"For a day, this brings it back: headwater removed undo {' '.join(map(str, numbers))}")


def list_() -> None:
    """Show what can be brought back, the latest first."""

    async def work() -> list[Removal]:
        async with opened(settings()) as store:
            return await store.removals.all(None, time.time())

    found = run(work())
    if as_json():
        print_json(found)
        return
    for one in found:
        out.print(escape(f"{one.id}  {one.kind}  {one.label}  {relative(one.at, time.time())}"))
    if not found:
        out.print("Nothing was removed within a day.")


def undo(numbers: Annotated[list[int], typer.Argument(max=MOST, metavar="NUMBER…", help="Which of the list.")]) -> None:
    """Bring back what was removed, as it was; of several, the last removed first."""

    async def work() -> list[Back]:
        async with opened(settings()) as store:
            now = time.time()
            return [await store.removals.undo(number, None, now) for number in sorted(set(numbers), reverse=True)]

    back = run(work())
    if as_json():
        print_json(back)
        return
    for one in back:
        out.print(escape(f"{one.label} ({one.kind}) is back."))


def forget(
    numbers: Annotated[
        list[int] | None, typer.Argument(max=MOST, metavar="[NUMBER…]", help="Which of the list.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Everything that was removed.")] = False,
) -> None:
    """Remove for good what was removed, without waiting for the day to be over."""
    if bool(numbers) == all_:
        fail("Name the numbers to forget, or give --all for everything.", 2)

    async def work() -> int:
        async with opened(settings()) as store:
            return await store.removals.forget(None if all_ else numbers)

    gone = run(work())
    if not gone and not all_:
        raise NotFound("Nothing of these numbers was removed, or no longer: “headwater removed list” shows all.")
    if as_json():
        print_json({"forgotten": gone})
    else:
        out.print(f"{gone} forgotten.")
