"""Refreshes → what we believe about a feed; one file per estimator. Pure."""
