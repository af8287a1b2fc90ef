"""Keeps accounts, subscriptions and what each reader has read."""
