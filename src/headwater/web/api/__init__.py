"""Serves the JSON API under /api/v1."""
