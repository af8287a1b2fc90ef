"""Trash, retention, backup and copying of databases."""
