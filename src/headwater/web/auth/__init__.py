"""Identifies who sends a request: tokens, sessions, passwords, OpenID Connect."""
