"""How a process follows the settings that were changed on a page or by the API, its own and those of other processes;
and how a command learns what a server goes by that was started with options.

While processes run, the last change holds. At a start, what an option, the environment or headwater.toml gives wins:
whoever writes it down there means it, and can so get out of anything that was changed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec
import structlog

from headwater.errors import SettingsError
from headwater.node.changing import CHANGEABLE, agreed
from headwater.node.setting_up import build_strategy
from headwater.schedule.base import Strategy
from headwater.settings import Settings
from headwater.store import kept_settings
from headwater.store.store import Store

log = structlog.get_logger()

LOOK = 1.0  # seconds between two looks for what another process has changed
OPTIONS, VERSION = "options", 1
DECIDED_BY = ("strategy", "estimator")  # names, or package.module:Name
# What decides when a feed is refreshed, and what is said about it.
TOLD = (
    *("public_url", "budget", "budget_bytes", "host_budget", "least_interval", "objective", *DECIDED_BY),
    *("target_completeness", "target_freshness", "target_delay"),
)


async def tell(store: Store, settings: Settings, now: float) -> None:
    """Leave word of what this server goes by, where the last word was another."""
    word = msgspec.json.encode({name: getattr(settings, name) for name in TOLD})
    if await store.load_state(OPTIONS) != (VERSION, word):
        await store.save_state(OPTIONS, VERSION, word, now)


async def in_force(store: Store, given: Settings) -> Settings:
    """What the server of this store goes by, for those who say why it does what it does. What is given is left as it
    is; so is what only a program of the server's own place could make."""
    saved = await store.load_state(OPTIONS)
    told: dict[str, Any] = msgspec.json.decode(saved[1]) if saved is not None and saved[0] == VERSION else {}
    heeded = {
        name: value
        for name, value in told.items()
        if name in TOLD and name not in given.model_fields_set and not (name in DECIDED_BY and ":" in str(value))
    }
    return await KeptSettings(store, given.model_copy(update=heeded)).at_start()


class KeptSettings:
    """The changes of one database, as one process takes them up."""

    def __init__(self, store: Store, given: Settings) -> None:
        self._store = store
        self._given = given
        self._seen = 0
        self.by_hand = frozenset(name for name in CHANGEABLE if name in given.model_fields_set)

    async def at_start(self) -> Settings:
        """What was given, with what was changed of the rest; what no longer fits is left out, and the log says so."""
        self._seen, kept = await self._store.read(kept_settings.since, 0)
        wanted = {name: kept[name] for name in CHANGEABLE if name in kept and name not in self.by_hand}
        if not wanted:
            return self._given
        present = build_strategy(self._given)
        while wanted:
            try:
                return agreed(self._given, wanted, present)[0]
            except SettingsError as error:
                left_out = [error.field] if error.field in wanted else list(wanted)
                log.warning("settings_left_out", settings=left_out, error=str(error))
                for name in left_out:
                    del wanted[name]
        return self._given

    async def keep(self, changes: Mapping[str, Any]) -> None:
        """For the others, and for the next start. What others changed meanwhile is still news to us."""
        if changes:
            number = await self._store.write(kept_settings.keep, changes, time.time())
            if number == self._seen + 1:
                self._seen = number

    async def news(self, given: Settings, present: Strategy) -> tuple[dict[str, Any], Settings, Strategy | None] | None:
        """What another process has changed since the last look, and what that makes of the settings in force."""
        self._seen, told = await self._store.read(kept_settings.since, self._seen)
        changes = {name: told[name] for name in CHANGEABLE if name in told and told[name] != getattr(given, name)}
        if not changes:
            return None
        try:
            new, strategy = agreed(given, changes, present, at_once=False)
        except SettingsError as error:
            log.warning("settings_left_out", settings=list(changes), error=str(error))
            return None
        log.info("settings_changed", elsewhere=True, **changes)
        return changes, new, strategy
