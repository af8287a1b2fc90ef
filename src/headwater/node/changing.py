"""Settings that are changed while a node runs: checked like at the start, in force at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headwater.errors import SettingsError
from headwater.estimate.registry import ESTIMATORS
from headwater.node.setting_up import build_configured_strategy
from headwater.node.targets import require_beliefs
from headwater.schedule.base import Strategy
from headwater.schedule.registry import STRATEGIES
from headwater.settings import Settings, change_settings

STRATEGY_SETTINGS = ("strategy", "estimator", "objective")
TARGET_SETTINGS = ("target_completeness", "target_freshness", "target_delay")
CHANGEABLE = ("budget", *STRATEGY_SETTINGS, *TARGET_SETTINGS, "keep_days", "keep_per_feed", "readers_add")


def check_changes(
    given: Settings, changes: Mapping[str, Any], present: Strategy, *, at_once: bool = True
) -> tuple[Settings, Strategy | None]:
    """The settings with the changes, and the strategy where it is another now; SettingsError names the field.

    Unless they are made `at_once`, there may have been a moment without a target in which the budget was changed.
    """
    for name, known in (("strategy", STRATEGIES), ("estimator", ESTIMATORS)):
        wanted = changes.get(name)
        if wanted is not None and wanted not in known and wanted != getattr(given, name):
            # A name with a dot would load code: whoever may write headwater.toml may do that, not whoever signs in.
            raise SettingsError(f"There is no {name} “{wanted[:100]}”; your own is named in headwater.toml.", name)
    new = change_settings(given, changes)
    if at_once and given.target is not None and new.target is not None and "budget" in changes:
        raise SettingsError("The server aims at a quality and finds the budget itself (target mode).", "budget")
    strategy = None
    if any(getattr(new, name) != getattr(given, name) for name in STRATEGY_SETTINGS):
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


def _find_changed_name(names: Iterable[str], changes: Mapping[str, Any]) -> str:
    return next((name for name in names if name in changes), "")
