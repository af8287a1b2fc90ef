"""Places where a test lets a process die as by kill −9: `HEADWATER_FAIL_AT=name:n` ends it the nth time it is there."""

from __future__ import annotations

import os
import signal

VARIABLE = "HEADWATER_FAIL_AT"
_passed: dict[str, int] = {}


def here(name: str) -> None:
    """Die here if that was asked for; in production one look at the environment."""
    wanted, _, number = os.environ.get(VARIABLE, "").partition(":")
    if wanted == name:
        _passed[name] = _passed.get(name, 0) + 1
        if _passed[name] >= int(number or 1):
            os.kill(os.getpid(), signal.SIGKILL)
