"""How a process that runs for months treats its memory."""

from __future__ import annotations

import gc

GC_THRESHOLD = 20_000  # objects between two looks at the youngest; a window of items is hundreds, and dies by itself


def freeze_startup_objects() -> None:
    """Call it once, when everything has been loaded: code, settings and standing queries stay, and no collection of
    garbage needs to look at them again. What refreshes make is freed as it goes; cycles in it are few."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 20)
