"""Logs: one event a line on standard error, coloured for a person, JSON where nobody watches or it is asked for."""

from __future__ import annotations

import logging
import sys
from typing import TextIO, cast

import structlog

from headwater.errors import SettingsError

LEVELS = ("debug", "info", "warning", "error")


class CurrentStderr:
    """Standard error as it is when something is written: whoever captures or redirects it gets the lines."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def configure_logs(level: str = "info", *, as_json: bool = False) -> None:
    """Set up structlog for a command that runs on; others log nothing below a warning."""
    if level.lower() not in LEVELS:
        raise SettingsError(f"There is no log level “{level}”; there are {', '.join(LEVELS)}.", "log_level")
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, CurrentStderr())),
    )
