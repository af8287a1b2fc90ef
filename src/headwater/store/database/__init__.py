"""Runs functions on a connection to SQLite or PostgreSQL."""
