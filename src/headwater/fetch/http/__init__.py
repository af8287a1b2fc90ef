"""Sends one HTTP request: guarded, paced, bounded and redirected."""
