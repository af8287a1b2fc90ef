"""Who sends a request and what they may do: tokens, sessions, passwords, OpenID Connect."""
