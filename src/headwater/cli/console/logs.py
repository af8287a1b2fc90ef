"""Configures logs: one event per line on standard error, for people or as JSON."""

from __future__ import annotations

import faulthandler
import logging
import sys
from typing import TextIO, cast

import structlog

from headwater.errors import SettingsError

LEVELS = ("debug", "info", "warning", "error")


class CurrentStderr:
    """Standard error at the time of writing, so that a redirection gets the lines."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def configure_logs(level: str = "info", *, as_json: bool = False) -> None:
    """Configure structlog for a command that keeps running; other commands log warnings only."""
    if level.lower() not in LEVELS:
        raise SettingsError(f"There is no log level “{level}”. Use one of {', '.join(LEVELS)}.", "log_level")
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    if sys.__stderr__ is not None:
        faulthandler.enable(sys.__stderr__)  # a crash in native code leaves a stack in the log
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
