"""Stores query feeds and their hits."""
