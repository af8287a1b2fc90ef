"""Trains the learned forecast on traces."""
