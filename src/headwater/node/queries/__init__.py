"""Runs standing queries: matching, back-fill, demand and explanations."""
