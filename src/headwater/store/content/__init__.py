"""Stores feeds, items, refreshes and the outbox."""
