"""Judges a refresh: new, changed and lost items, and the feed's next state.

A refresh is judged in two steps, because only the store knows items that left the last window: `unknown` names the
identities it should be asked for, `judge` decides.
"""

from headwater.novelty.item_identity import identify_items
from headwater.novelty.judgement import find_unknown_identities, judge
from headwater.novelty.loss import estimate_lost_items

__all__ = ["estimate_lost_items", "find_unknown_identities", "identify_items", "judge"]
