"""Measures quality, compares it with targets and explains each feed's schedule."""
