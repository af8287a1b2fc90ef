"""Statements of the papers that are known not to hold in the lab at full size, by experiment, each with the reason.

The soak compares both ways: a statement that stops holding and is not here fails it, and so does one that is here and
holds, because then `docs/lab.md` tells something that is no longer so.
"""

from __future__ import annotations

from headwater.lab.experiment import ExperimentResult

Known = dict[str, str]  # the statement as it is printed, and why it does not hold

_LITTLE = "our comparator takes the greatest piled-up delay first, and pending items are rate times delay"
_SLEEP = "newsrooms sleep: 15 % of the feeds above 24 items a day are uniform, not 57 %"
_FEWEST = "moving_average needs the fewest polls per item of all, in both averages"
_LIKE = "reading feeds like one's own (a larger α) brings more of what is wanted than its longer paths lose"
_DROPPED = "what a parent's query drops no descendant ever sees"
_CUT = "the trace cuts the feeds' past off, so eq. 1 has no dates and an hour stands in for it"

SYNTHETIC: dict[str, Known] = {
    "advarss": {"synthetic feeds: with min_delay more items wait in all feeds together than with advarss": _LITTLE},
    "generic-feeds": {f"synthetic feeds: {_FEWEST}": "over polls post_rate needs fewer"},
    "network": {_LIKE: _DROPPED},
    "online": {"the hybrid model follows the better of the two": "it switches on one refresh's error"},
}
ON_NEWS: dict[str, Known] = {
    "advarss": {
        f"news.parquet: with min_delay more items wait {where} than with advarss": _LITTLE
        for where in ("in the fullest feed", "in all feeds together")
    },
    "generic-feeds": {
        f"news.parquet: {text}": _CUT
        for text in (
            _FEWEST,
            "averaged over polls, moving_average has the smallest error (delay × polls per item)",
            "post_rate and moving_average have similar delays averaged over feeds, post_rate polls more",
        )
    },
    "network": {f"on news.parquet: {_LIKE}": _DROPPED},
    "online": {},
    "tau": {},
    "shapes": {"the uniform shape is very much present among very productive feeds": _SLEEP},
}


def surprises(result: ExperimentResult, known: Known) -> list[str]:
    """What differs from what is known, one sentence each; none where everything is as docs/lab.md says."""
    told = {check.statement: f"{check.statement} {dict(check.figures)}" for check in result.checks}
    fails = {check.statement for check in result.checks if not check.holds}
    worse = [f"no longer holds: {told[text]}" for text in told if text in fails and text not in known]
    better = [f"holds again: {told[text]}" for text in told if text in known and text not in fails]
    return worse + better + [f"is not checked any more: {text}" for text in known if text not in told]
