"""Fixtures of all tests, and their environment. Fixtures with a database or a server are in `support.server_fixtures`,
so that tests of pure code do not import them.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from support import ROOT, isolation

collect_ignore_glob = ["*conftest.py"]  # doctests are collected from modules; these have none and share one name

isolation.isolate_environment()
isolation.keep_files_in_memory()
isolation.fix_examples()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """Stop the collector: a plugin parses a module now, which CPython 3.11 may fail to do while finalisers run."""
    gc.disable()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real traces, documents and subscription lists, which may not be copied into the project."""
    folder = Path(os.environ.get("HEADWATER_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real data absent: {folder.name} is not beside the project (set HEADWATER_SHARED_DATA)")
    return folder


@pytest.fixture
def eventually() -> Callable[..., Awaitable[None]]:
    """Wait until a condition holds; the failure names it. The timeout is long, because machines may be busy."""

    async def wait(holds: Callable[[], Any], what: str, seconds: float = 150.0) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            result = holds()
            if asyncio.iscoroutine(result):
                result = await result
            if result:
                return
            await asyncio.sleep(0.02)
        pytest.fail(f"not within {seconds} s: {what}")

    return wait
