"""Serves published documents, live events and WebSub endpoints."""
