"""A storer that dies at a place it is told."""

from __future__ import annotations

import asyncio
import os

from headwater.cluster import fail_points
from headwater.cluster.roles import run_storer
from headwater.settings import load_settings


def main(given: dict[str, object], place: str) -> None:
    os.environ[fail_points.VARIABLE] = place
    asyncio.run(run_storer(load_settings(**given), asyncio.Event()))  # type: ignore[arg-type]
