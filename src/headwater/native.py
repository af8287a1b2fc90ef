"""Modules that were compiled when Headwater was installed: found before their sources, as long as these are the same.

They stand in a folder of their own beside the sources. Whoever changes one of these runs what was written, not what
was compiled before.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import blake2b
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

FOLDER = "compiled"
SOURCES = f"sources{EXTENSION_SUFFIXES[0]}.digest"  # of what was compiled, and the Python it was compiled for
VARIABLE = "HEADWATER_COMPILED"  # `no`: Python alone


def before(path: Iterable[str]) -> list[str]:
    """Where a package finds its modules, given where it finds their sources."""
    return [place for folder in path for place in (*_compiled(Path(folder)), folder)]


def in_use(package: str) -> bool:
    """Whether a package of Headwater's is run as compiled."""
    return bool(_compiled(Path(__file__).parent / package))


def _compiled(folder: Path) -> tuple[str, ...]:
    return (str(folder / FOLDER),) if os.environ.get(VARIABLE) != "no" and is_at_hand(folder) else ()


def is_at_hand(folder: Path) -> bool:
    """Whether the sources in a folder have been compiled as they are now, for this Python."""
    try:
        return (folder / FOLDER / SOURCES).read_text() == digest(folder)
    except OSError:
        return False


def digest(folder: Path) -> str:
    """Of all sources of a package and their names."""
    found = blake2b(digest_size=16)
    for source in sorted(folder.glob("*.py")):
        found.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return found.hexdigest()
