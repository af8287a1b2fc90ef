"""Addresses for other programs: published documents, live events, WebSub."""
