"""Configures logs: one event per line on standard error, for people or as JSON."""

from __future__ import annotations

import faulthandler
import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO, cast

import structlog

from headwater.errors import SettingsError
from headwater.formats.write.addresses import may_hold_secret, public_address

LEVELS = ("debug", "info", "warning", "error")


class CurrentStderr:
    """Standard error at the time of writing, so that a redirection gets the lines."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


_WEB_ADDRESS = re.compile(r"https?://[^\s\"'<>“”()]+")
_SHOWN = "link"  # of the first start, which is meant to be followed


def hide_secrets(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Shorten the addresses in a line of the log that may contain a key or a person's name to their site.

    >>> hide_secrets(None, "info", {"url": "https://a.example/feed?key=1", "error": "https://b.example/feed is gone."})
    {'url': 'https://a.example/…', 'error': 'https://b.example/feed is gone.'}
    """
    for name, value in event.items():
        if isinstance(value, str) and "://" in value and name != _SHOWN:
            event[name] = _WEB_ADDRESS.sub(_shorten_address, value)
    return event


def _shorten_address(found: re.Match[str]) -> str:
    return f"{public_address(found[0], None)}…" if may_hold_secret(found[0]) else found[0]


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
            hide_secrets,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, CurrentStderr())),
    )
