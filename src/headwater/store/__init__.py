"""Keeps everything in SQLite or PostgreSQL, by plain functions on a connection."""
