"""The experiments, one file each."""

from __future__ import annotations

import difflib
import importlib

from headwater.errors import NotFound
from headwater.lab.experiment import Experiment

MODULES: dict[str, str] = {
    "two-steps": "two_steps",
    "tau": "tau",
    "fast-news": "fast_news",
    "advarss": "advarss",
    "generic-feeds": "generic_feeds",
    "online": "online",
    "shapes": "shapes",
    "network": "network",
    "limit": "limit",
    "peers": "peers",
}


def load_experiment(name: str) -> Experiment:
    """The experiment of this name; an unknown one is answered with the nearest."""
    if name not in MODULES:
        near = difflib.get_close_matches(name, MODULES, n=1)
        hint = f"did you mean {near[0]}?" if near else "`headwater lab list` names them all."
        raise NotFound(f"There is no experiment {name}; {hint}")
    found: Experiment = importlib.import_module(f"{__name__}.{MODULES[name]}").EXPERIMENT
    return found


def load_experiments() -> list[Experiment]:
    return [load_experiment(name) for name in MODULES]
