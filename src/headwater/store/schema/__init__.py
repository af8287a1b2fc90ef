"""Declares the tables."""
