"""Old state + outcome + now → what is new, what was lost, what to write. Pure.

A refresh is judged in two steps, because only the store knows items that left the last window: `unknown` names the
identities it should be asked for, `judge` decides.
"""

from headwater.novelty.identity import identities
from headwater.novelty.judging import judge, unknown
from headwater.novelty.loss import estimated_loss

__all__ = ["estimated_loss", "identities", "judge", "unknown"]
