"""Query feeds: their registry, windows, memory, and the way of an item through them."""
