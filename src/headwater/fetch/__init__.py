"""URL → Outcome: HTTP, etiquette, host pacing, address guard, discovery, push."""
