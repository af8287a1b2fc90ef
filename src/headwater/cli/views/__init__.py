"""Renders the values of commands for a terminal."""
