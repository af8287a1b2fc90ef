"""A running node against a real farm and a real SQLite file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.settings import Settings


@pytest.fixture
def given(tmp_path: Path) -> Callable[..., Settings]:
    """Settings for a test network: local addresses, no pause, a budget that does not matter unless it is the point."""

    def make(**more: Any) -> Settings:
        usual: dict[str, Any] = {
            "data": tmp_path,
            "allow_private": True,
            "least_interval": 0.05,
            "per_host": 64,
            "budget": 100_000.0,
            "strategy": "uniform",
        }
        return Settings(**usual | more)

    return make
