"""Makes every run of the tests the same: one environment, and one set of examples for property tests."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

TESTS_OWN = {"HEADWATER_SHARED_DATA", "HEADWATER_TEST_AWAY", "HEADWATER_COMPILED"}
"""Variables that configure the tests and not the program."""

FOREIGN = (
    *("LANG", "LANGUAGE", "LC_CTYPE", "LC_TIME", "LC_NUMERIC", "LC_COLLATE", "LC_MESSAGES"),
    *("FORCE_COLOR", "NO_COLOR", "PY_COLORS", "CLICOLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE"),
    *("GITHUB_ACTIONS", "COLUMNS", "LINES", "TERMINAL_WIDTH"),  # Typer prints in colour where GITHUB_ACTIONS is set
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE", "PGSERVICE", "PGPASSFILE", "PGOPTIONS"),
    "PYTHONDONTWRITEBYTECODE",  # each of some hundred processes would compile the program anew, for half a second
)
"""Variables of the machine that change what the program, its libraries or its servers do."""

MEMORY = Path("/dev/shm")
MEMORY_NEEDED = 4 << 30  # a run of the whole suite holds about 2 GB


def isolate_environment() -> None:
    """Clear what the machine sets, in this process and so in all that the tests start: time zone, locale, settings."""
    for name in [*os.environ]:
        if name in FOREIGN or (name.startswith("HEADWATER_") and name not in TESTS_OWN):
            del os.environ[name]
    os.environ |= {"TZ": "UTC", "LC_ALL": "C.UTF-8"}
    time.tzset()


def keep_files_in_memory() -> None:
    """Put temporary files into memory, unless TMPDIR names a folder or the memory is small or forbids programs.

    A test's PostgreSQL database has 350 files: on a busy disk they take a second to create, in memory a tenth of that.
    """
    if "TMPDIR" in os.environ or not MEMORY.is_dir() or not os.access(MEMORY, os.W_OK):
        return
    if os.statvfs(MEMORY).f_flag & os.ST_NOEXEC or shutil.disk_usage(MEMORY).free < MEMORY_NEEDED:
        return
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


def fix_examples() -> None:
    """Draw the same examples in every run; `--hypothesis-profile explore` draws new ones and prints how to repeat them.

    `make soak` explores. Neither profile keeps a database of failures: what one run found must not change the next.
    """
    patient = settings(database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("fixed", patient, derandomize=True)
    settings.register_profile("explore", patient, derandomize=False, print_blob=True)
    settings.load_profile("fixed")
    if find := getattr(providers, "_get_local_constants", None):  # private, and younger than our oldest Hypothesis
        providers._get_local_constants = _without_local_constants(find)


def _without_local_constants(find: Callable[[], providers.Constants]) -> Callable[[], providers.Constants]:
    """Hypothesis also tries constants that it finds in imported modules of the project. The examples of a test would
    then depend on the tests that ran before it in the same process."""
    none = providers.Constants()
    return lambda: none if settings.default.derandomize else find()
