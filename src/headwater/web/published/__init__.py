"""Serves published documents, live events and the WebSub endpoints."""
