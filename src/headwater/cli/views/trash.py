"""Shows removed objects on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.cli.console.output import out


def print_undo_hint(numbers: Sequence[int]) -> None:
    """After a removal: print the command that restores it."""
    if numbers:
        out.print(f"To restore within a day: headwater removed undo {' '.join(map(str, numbers))}")
