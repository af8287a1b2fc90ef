"""Follows settings that are changed while processes run, and tells commands the settings of a running server.

While processes run, the last change holds. At a start, options, the environment and headwater.toml win, so that an
operator can always undo a change made on a page.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any

import msgspec
import structlog

from headwater.errors import SettingsError
from headwater.estimate.registry import build_estimator
from headwater.loops import run_after_changes
from headwater.node.crawl.scheduler import build_configured_strategy
from headwater.node.quality.targets import require_beliefs
from headwater.schedule.registry import make_strategy
from headwater.schedule.strategy import Strategy
from headwater.settings import Settings, change_settings
from headwater.store import saved_state
from headwater.store.saved_state import load_state, save_state
from headwater.store.store import Store

STRATEGY_SETTINGS = ("strategy", "estimator", "objective")
TARGET_SETTINGS = ("target_completeness", "target_freshness", "target_delay")
CHANGEABLE = (
    "budget",
    *STRATEGY_SETTINGS,
    *TARGET_SETTINGS,
    "alert_hours",
    "keep_days",
    "keep_per_feed",
    "readers_add",
    "reader_queries",
    "reader_deliveries",
    "reader_share",
    "smtp_url",
    "mail_from",
)
SECRET_SETTINGS = frozenset({"smtp_url"})  # contain a password: neither logged nor shown


def check_changes(
    settings: Settings, changes: Mapping[str, Any], present: Strategy, *, at_once: bool = True
) -> tuple[Settings, Strategy | None]:
    """Return the changed settings, and the new strategy if it is another one. SettingsError names the field.

    Changes that were not made `at_once` may include a budget that was set while there was no target.
    """
    _check_names(settings, changes)
    new = change_settings(settings, changes)
    if at_once and settings.target is not None and new.target is not None and "budget" in changes:
        raise SettingsError("The server aims at a quality and finds the budget itself (target mode).", "budget")
    strategy = None
    if any(getattr(new, name) != getattr(settings, name) for name in STRATEGY_SETTINGS):
        try:
            strategy = build_configured_strategy(new)
        except SettingsError as error:
            raise SettingsError(str(error), _find_changed_name(STRATEGY_SETTINGS, changes)) from error
    if new.target is not None:
        try:
            require_beliefs(strategy or present)
        except SettingsError as error:
            raise SettingsError(
                str(error), _find_changed_name((*TARGET_SETTINGS, *STRATEGY_SETTINGS), changes)
            ) from error
    return new, strategy


def hide_secrets(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes with dots instead of secrets, for the log."""
    return {name: "…" if name in SECRET_SETTINGS and value else value for name, value in changes.items()}


def _check_names(settings: Settings, changes: Mapping[str, Any]) -> None:
    """Refuse unknown strategies, estimators and parameters, and classes of one's own."""
    builders: Mapping[str, Callable[[str], object]] = {"strategy": make_strategy, "estimator": build_estimator}
    for name, build in builders.items():
        wanted = changes.get(name)
        if wanted is None or wanted == getattr(settings, name):
            continue
        if ":" in wanted:  # it would load code, which is left to those who may write headwater.toml
            raise SettingsError(f"Your own {name} “{wanted[:100]}” must be named in headwater.toml.", name)
        try:
            build(wanted)
        except SettingsError as error:
            raise SettingsError(str(error), name) from error


def _find_changed_name(names: Iterable[str], changes: Mapping[str, Any]) -> str:
    return next((name for name in names if name in changes), "")


log = structlog.get_logger()

OPTIONS, VERSION = "options", 1
PLUGIN_SETTINGS = ("strategy", "estimator")  # names, or package.module:Name
# The settings that decide when a feed is refreshed, and how that is explained.
PUBLISHED_OPTIONS = (
    *("public_url", "budget", "budget_bytes", "host_budget", "least_interval", "objective", *PLUGIN_SETTINGS),
    *("target_completeness", "target_freshness", "target_delay"),
)


async def save_options(store: Store, settings: Settings, now: float) -> None:
    """Save the settings of this server for commands, if they have changed."""
    word = msgspec.json.encode({name: getattr(settings, name) for name in PUBLISHED_OPTIONS})
    if await store.read(load_state, OPTIONS) != (VERSION, word):
        await store.write(save_state, OPTIONS, VERSION, word, now)


async def load_effective_settings(store: Store, settings: Settings) -> Settings:
    """Return the settings of the server of this store, so that a command can explain its decisions. Settings given to
    the command win, and a custom strategy must be given."""
    saved = await store.read(load_state, OPTIONS)
    stored: dict[str, Any] = msgspec.json.decode(saved[1]) if saved is not None and saved[0] == VERSION else {}
    heeded = {
        name: value
        for name, value in stored.items()
        if name in PUBLISHED_OPTIONS
        and name not in settings.given_fields
        and not (name in PLUGIN_SETTINGS and ":" in str(value))
    }
    return await LiveSettings(store, settings.with_changes(heeded)).load()


OnSettingsChanged = Callable[[Collection[str], Settings, Strategy | None], Awaitable[None]]
"""Hears which settings changed, all settings from now on, and the new strategy where it is another."""


class LiveSettings:
    """The settings of one process, as they are changed here and by other processes of the database."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._last_change = 0
        self._changing = asyncio.Lock()
        self.current = settings
        self.pinned = frozenset(name for name in CHANGEABLE if name in settings.given_fields)
        self.listeners: list[OnSettingsChanged] = []

    async def load(self) -> Settings:
        """Apply the changes made before the start, except to pinned settings.

        A change that no longer fits is left out, and logged.
        """
        self._last_change, saved = await self._store.read(saved_state.settings_changed_since, 0)
        changes = {name: saved[name] for name in CHANGEABLE if name in saved and name not in self.pinned}
        present = build_configured_strategy(self.current) if changes else None
        while changes and present is not None:
            try:
                self.current = check_changes(self.current, changes, present)[0]
                break
            except SettingsError as error:
                left_out = [error.field] if error.field in changes else list(changes)
                log.warning("settings_left_out", settings=left_out, error=str(error))
                for name in left_out:
                    del changes[name]
        return self.current

    async def change(self, changes: Mapping[str, Any]) -> Settings:
        """Change settings on every process of the database, now and after a restart. Raises SettingsError."""
        async with self._changing:
            old = self.current
            new, strategy = check_changes(old, changes, build_configured_strategy(old))
            changed = {name: getattr(new, name) for name in changes if getattr(new, name) != getattr(old, name)}
            if changed:
                number = await self._store.write(saved_state.save_changed_settings, changed, time.time())
                if number == self._last_change + 1:  # else another process changed something too, which is still news
                    self._last_change = number
            await self._apply(changed, new, strategy)
            log.info("settings_changed", **hide_secrets(changed))
            return new

    async def poll_changes(self) -> None:
        """Apply the changes of other processes since the last call."""
        async with self._changing:
            old = self.current
            self._last_change, saved = await self._store.read(saved_state.settings_changed_since, self._last_change)
            changes = {name: saved[name] for name in CHANGEABLE if name in saved and saved[name] != getattr(old, name)}
            if not changes:
                return
            try:
                new, strategy = check_changes(old, changes, build_configured_strategy(old), at_once=False)
            except SettingsError as error:
                log.warning("settings_left_out", settings=list(changes), error=str(error))
                return
            log.info("settings_changed", elsewhere=True, **hide_secrets(changes))
            await self._apply(changes, new, strategy)

    async def run(self, stop: asyncio.Event) -> None:
        """Follow the changes of other processes until `stop` is set."""
        await run_after_changes(self._store.changes, self.poll_changes, stop)

    async def _apply(self, changes: Collection[str], new: Settings, strategy: Strategy | None) -> None:
        self.current = new
        for listener in self.listeners:
            await listener(changes, new, strategy)
