"""Serves pages, APIs and published documents."""
