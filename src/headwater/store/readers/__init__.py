"""Stores accounts, subscriptions and each reader's marks."""
