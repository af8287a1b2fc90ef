"""Identifies the sender of a request: tokens, sessions, passwords, OpenID Connect."""
