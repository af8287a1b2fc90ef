"""Predicts and measures completeness, freshness and delay."""
