"""Deletes, restores, backs up and copies what the database holds."""
