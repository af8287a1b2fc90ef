"""Fetches feeds and pages: one guarded client, discovery, robots.txt."""
