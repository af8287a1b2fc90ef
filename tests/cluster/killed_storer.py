"""A storer that kills itself at a given step."""

from __future__ import annotations

import asyncio
import os
import signal

from headwater.assembly import run_storer
from headwater.settings import load_settings


def main(given: dict[str, object], step: str) -> None:
    def die(name: str) -> None:
        if name == step:
            os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(run_storer(load_settings(**given), asyncio.Event(), die))
