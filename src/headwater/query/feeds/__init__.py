"""Query feeds: their registry, windows and memory, and the way of an item through them."""
