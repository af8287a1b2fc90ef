"""Belief + budget → which feeds now, and why; one file per strategy. Pure."""
