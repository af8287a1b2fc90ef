"""Simulates and replays the same pure code under a virtual clock, and reproduces the papers."""
