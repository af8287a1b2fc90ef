"""Statements of the papers that are known not to hold in the lab at full size, by experiment, each with the reason.

The soak compares both ways: a statement that stops holding and is not here fails it, and so does one that is here and
holds, because then `docs/lab.md` tells something that is no longer so.
"""

from __future__ import annotations

from headwater.lab.experiments.base import Result

Known = dict[str, str]  # the statement as it is printed, and why it does not hold

SYNTHETIC: dict[str, Known] = {}
ON_NEWS: dict[str, Known] = {}


def surprises(result: Result, known: Known) -> list[str]:
    """What differs from what is known, one sentence each; none where everything is as docs/lab.md says."""
    told = {check.statement: f"{check.statement} {dict(check.figures)}" for check in result.checks}
    fails = {check.statement for check in result.checks if not check.holds}
    worse = [f"no longer holds: {told[text]}" for text in told if text in fails and text not in known]
    better = [f"holds again: {told[text]}" for text in told if text in known and text not in fails]
    return worse + better + [f"is not checked any more: {text}" for text in known if text not in told]
