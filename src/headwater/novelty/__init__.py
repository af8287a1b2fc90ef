"""Judges a refresh: new and changed items, lost items, and the feed's next state. Pure.

A refresh is judged in two steps, because only the store knows items that left the last window:
`find_unknown_identities` returns the identities to look up, then `judge` decides.
"""

from headwater.novelty.item_identity import identify_items
from headwater.novelty.judgement import find_unknown_identities, judge
from headwater.novelty.loss import estimate_lost_items

__all__ = ["estimate_lost_items", "find_unknown_identities", "identify_items", "judge"]
