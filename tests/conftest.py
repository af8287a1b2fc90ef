"""What all tests share: where the real data lies, and the visible reason when it is absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real traces, documents and subscription lists, which are not ours to copy into the project."""
    folder = Path(os.environ.get("HEADWATER_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real data absent: {folder.name} is not beside the project (set HEADWATER_SHARED_DATA)")
    return folder
