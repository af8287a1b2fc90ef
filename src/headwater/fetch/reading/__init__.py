"""Reads documents of strangers within limits, in worker processes if needed."""
