"""Text → query: positions, messages, hints. Pure."""
