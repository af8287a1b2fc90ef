"""Says in a sentence which constraint sets a feed's interval, and what would have to change for a shorter one."""

from __future__ import annotations

from headwater.schedule.politeness.rules import Reason
from headwater.schedule.promise import Plan, Why
from headwater.times import format_duration, format_number

_ANY_HINT = "max-age, Expires, ttl or sy:updatePeriod"


def describe_interval(made: Plan, row: int, wanted_by: str | None = None, hint: str = "") -> str:
    """Describe the interval of one row of a plan; its deadline was set by the query `wanted_by` (None: by a person).

    `hint` names what its server asks for, such as “max-age or Expires”.

    >>> import numpy as np
    >>> from dataclasses import replace
    >>> from headwater.schedule.promise import Beliefs, Constraints, plan
    >>> beliefs = Beliefs.of(np.array([1.0]), np.array([20.0]))
    >>> made = plan(beliefs, replace(Constraints.of(1), at_most=np.array([180.0])), 60.0)
    >>> describe_interval(made, 0, "Alarm")
    'Polled every 3 min: query Alarm wants ≤ 3 min. It could be polled every 2 min if somebody asked for that.'
    """
    limits = made.constraints
    why, interval = Why(int(made.binding[row])), float(made.interval[row])
    earliest, at_most = float(limits.earliest[row]), float(limits.at_most[row])
    every, least = format_duration(interval), format_duration(earliest)
    reason = Reason(int(limits.reason[row]))
    who = "its interval was set to" if wanted_by is None else f"query {wanted_by} wants ≤"
    held = earliest > at_most or why is Why.SERVER
    word = f"the shortest interval ({least})"
    cause = "no feed is polled more often"
    if reason is Reason.FRESH:
        cause = f"its server asks for it ({hint or _ANY_HINT})"
        word = f"the server's {hint or _ANY_HINT} ({least})"
    elif reason is Reason.UNCHANGING:
        cause = "it sends no validators, so that each poll transfers the whole document, and it has not changed"
        word = f"the pause of a feed without validators ({least})"
    if why is Why.INACTIVE:
        return "Not polled: it is paused or gone."
    if why is Why.PUSHED:
        return f"Polled every {every}: a hub pushes it, and polls are only for safety."
    if why is Why.AWAY:
        return f"Polled every {every} once it answers again: its server is away."
    if why in (Why.SERVER, Why.LEAST):
        wish = f" {who[0].upper()}{who[1:]} {format_duration(at_most)}." if at_most < earliest else ""
        return f"Polled every {every}: {cause}.{wish} It could be sooner only if {word} were ignored."
    sooner = f"It could be polled every {least} if somebody asked for that."
    if interval <= earliest * 1.001 or held:
        sooner = f"It could be sooner only if {word} were ignored."
    if why is Why.DEADLINE:
        return f"Polled every {every}: {who} {format_duration(at_most)}. {sooner}"
    if why is Why.HOST:
        return f"Polled every {every}: its host bears no more requests. A quick host is asked more often with time."
    if why is Why.THRIFT:
        rate = format_number(float(made.beliefs.rate[row]))
        return f"Polled every {every}: with about {rate} items a day more polls would save too little. {sooner}"
    budget = f"{made.budget:g} requests a minute"
    return (
        f"Polled every {every}: the budget of {budget} is spent where it is worth more. A larger one brings it forward."
    )
