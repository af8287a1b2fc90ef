"""Logs errors of the database in full, and returns the sentence that anybody may read."""

from __future__ import annotations

import structlog

from headwater.errors import StoreError
from headwater.loops import RepeatFilter

log = structlog.get_logger()
_repeats = RepeatFilter()


def report_store_error(error: StoreError) -> str:
    """Log the error, once a minute while it lasts, and return its public sentence."""
    if _repeats.is_news(str(error)):
        log.error("database_failed", error=str(error))
    return error.public
