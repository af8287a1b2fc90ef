"""Stores private feeds, deliveries and the subscribers of our hub."""
