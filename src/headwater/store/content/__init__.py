"""Keeps what the crawler brings: feeds, items, refreshes."""
