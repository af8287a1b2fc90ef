"""Repeats saved results of the lab and compares a new run with them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headwater.errors import TraceError
from headwater.lab.experiment import LabSettings

TOLERANCE = 1e-6  # relative; results depend on their seeds only


def read_settings(saved: Mapping[str, Any], traces: Path | None) -> LabSettings:
    """Return the settings of a saved run. Raises TraceError if it needs a trace and `traces` is not its folder."""
    given: dict[str, Any] = dict(saved["given"])
    if given["trace"] is not None:
        if traces is None or not (traces / given["trace"]).exists():
            raise TraceError(f"The trace {given['trace']} is not there; the run cannot be repeated.")
        given["trace"] = traces / given["trace"]
    options: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    return LabSettings(**options)


def compare_results(saved: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """List where settings, rows, checks or notes of two results differ in a number or a word.

    Deviations and intervals are compared too; one that only one of the results has is a difference.

    >>> saved = {"settings": {"seeds": 2}, "rows": [{"a": 1.0}], "checks": [], "notes": []}
    >>> compare_results(saved, saved | {"rows": [{"a": 1.1}]})
    ['rows[0].a: 1.0, now 1.1']
    """
    parts = ("settings", "rows", "checks", "notes")
    return [text for part in parts for text in _differences(saved[part], found[part], part)]


def _differences(old: Any, new: Any, where: str) -> list[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        keys = dict.fromkeys([*old, *new])
        return [text for key in keys for text in _differences(old.get(key), new.get(key), f"{where}.{key}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [text for place, (one, two) in pairs for text in _differences(one, two, f"{where}[{place}]")]
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (old, new))
    same = math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=TOLERANCE) if numbers else old == new
    return [] if same else [f"{where}: {old}, now {new}"]
