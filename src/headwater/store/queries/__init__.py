"""Keeps query feeds and what they let out."""
