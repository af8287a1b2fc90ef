"""Creates files and folders that only their owner may read, whatever the umask: they hold keys and passwords."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

FILE_MODE, FOLDER_MODE = 0o600, 0o700


def make_private_folder(folder: Path) -> None:
    """Create a folder with mode 0700, and its parents as usual; one that exists keeps its mode."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=FOLDER_MODE, exist_ok=True)


def touch_private_file(file: Path) -> None:
    """Create an empty file with mode 0600 unless there is one, which keeps its mode."""
    os.close(os.open(file, os.O_WRONLY | os.O_CREAT, FILE_MODE))


def open_private_file(file: Path) -> BinaryIO:
    """Open a file for writing, emptied; a new one has mode 0600."""
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE), "wb")
